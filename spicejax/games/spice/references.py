"""Whether a question refers to a text, table or figure that its reader does not have.

question                                          reference
What does the passage say of iron?                the passage
According to the study, who won?                  according to the study
What is the main idea of the text?                idea of the text
What does Figure 2 show?                          figure 2
As stated above, when did it begin?               as stated
Who signed the text of the treaty?                none: further words say which text
A document has 9 words. Is the document long?     none: the question introduces the document
In Walden, what does the author praise?           none: the work is named
Read this passage: "Iron rusts." What rusts?      none: the passage is quoted
Iron rusts in water. As stated above, what rusts? none: it may refer to the first sentence
Who tied the figure 8 knot? Who skates a figure 8? none: no label of a figure
"""

from __future__ import annotations

import re

_SOURCE = r"(?:text|passage|document|article|excerpt|extract|paragraph|snippet|webpage|web page|author)"
_REPORT = rf"(?:{_SOURCE}|study|report|paper|chapter|reading|researcher)"
_DRAWING = r"(?:table|figure|diagram|graph|chart|picture|image)"
_SAYS = (
    r"(?:contain|stat|says?\b|said|mention|describ|discuss|impl[iy]|explain|suggest|provid|claim|note[sd]?\b|argu|giv|list|identif"
    r"|present|indicat|conclud|defin|mean|outlin|emphasi|compar|report|find|found|show|critici|highlight|refer|reach|reject|believ|think)\w*"
)
# What follows a reference: a mark, the end, a verb of telling, or another word that does not say which text is meant.
_AFTER = (
    r"(?=['’]s\b|[^\w\s'’-]|\s*$|\s(?:(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might|must"
    r"|what|how|when|where|why|and|or|but|as|to|if|about|above|below|given|provided|shown|itself|also|alone|only|best|first"
    rf"|most|\w+ly)\b|{_SAYS}))"
)
# Each alternative captures its noun at most once: without an article before it, the question has introduced it.
_REFERENCES = (
    rf"(?:this|the (?:given|provided|above|following|preceding)) ({_SOURCE})",
    rf"according to (?:the|this|that) (?:\w+ )?({_REPORT})s?",
    rf"according to (?:the|this) ({_DRAWING})",
    r"in this (?:study|section|chapter)",
    rf"(?:in|from|using) the (?:given|provided|following|above) ({_DRAWING})",
    r"(?:in|from|by|within|throughout|based on|refer to|using|(?:idea|theme|topic|subject|purpose|tone|title|point"
    rf"|thesis|focus|argument|message|summary|context|author) of) (?:the|this|that) (?:\w+ )?({_SOURCE})s?",
    rf"the (?:\w+ )?({_REPORT})s?(?= (?:(?:also|first|itself|\w+ly) )?(?:above\b|below\b|{_SAYS}))",
    r"the (text|passage|document|article|excerpt|paragraph|snippet)(?=['’]s)",
    r"the author(?=['’]s (?:main |central |own )?(?:argument|view|opinion|tone|purpose|point|claim|attitude|thesis))",
    r"the (?:(?:figure|diagram|graph|chart|image|picture) (?:above|below)"
    r"|above (?:figure|diagram|graph|chart|image|table))",
    r"(?<!\ba )(?:figure|fig\.|table|appendix) [0-9]+(?:\.[0-9]+)?",
)
_UNSEEN = re.compile(rf"\b(?:{'|'.join(_REFERENCES)}){_AFTER}")
_POINTS_BACK = re.compile(
    r"\b(?:as (?:mentioned|described|stated|discussed|shown|noted|outlined|explained|defined|given)(?=,| above| earlier"
    r"| previously)|(?:mentioned|described|discussed|listed|stated) (?:above|earlier|previously)(?! by)"
    r"|(?:according to|based on|using|in|from) the (?:above(?! \w)|following(?=,)|analysis"
    rf"|(?:given|provided) information|information(?: given| provided| above)?){_AFTER}"
    r"|the (?:section|table|list|data) (?:above|below))"
)
_QUOTED = re.compile(rf"\bfollowing (?:information|{_SOURCE})[.:]?\s*[\n\"“]|\b{_SOURCE}s?:?\s*[\"“‘]", re.IGNORECASE)
_NAMED_WORK = re.compile(r"\b(?:[Ii]n|[Oo]f|[Bb]y|[Ff]rom) (?:the )?[\"“‘'*_A-Z]")


def unseen_reference(question: str) -> str | None:
    """Return the first words that refer to a text outside the question, or None."""
    if _QUOTED.search(question):
        return None
    spaced = " ".join(question.split())
    text = spaced.lower()  # as long as `spaced`, but for a few letters that do not matter here
    for match in _UNSEEN.finditer(text):
        noun, before = next(filter(None, match.groups()), ""), text[: match.start()]
        if noun and re.search(rf"\b(?:an?|one|each|every|any|two|three|[0-9]+) (?:[\w-]+ ){{0,2}}{noun}s?\b", before):
            continue  # the question introduced it
        if noun == "author" and _NAMED_WORK.search(spaced[: match.start()]):
            continue
        return match[0]
    match = _POINTS_BACK.search(text)
    return match[0] if match and not re.search(r"[.!]\s", text[: match.start()]) else None
