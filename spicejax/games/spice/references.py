"""Owns whether a question speaks of a text, table or figure that its reader does not have.

Words such as `the passage` refer to an unseen text only where they stand as such and nothing in the question is meant:
any word that narrows them down names a text of its own (`the text of the treaty`, `the text editor`, `the document that
founded the UN`), and so do an antecedent (`a document of 100 words ... in the document`), a quotation behind them, or,
of an author, a work named before (`In Walden, what does the author ...`). What points back (`as stated above`) may
point to a statement of the question itself. `Figure 8` is a label unless it is one of many (`a figure 8`) or narrowed
down (`the figure 8 knot`).
"""

from __future__ import annotations

import re

_SOURCE = r"(?:text|passage|document|article|excerpt|extract|paragraph|snippet|webpage|web page|author)"
_REPORT = rf"(?:{_SOURCE}|study|report|paper|chapter|reading|researcher)"
_DRAWN = r"(?:table|figure|diagram|graph|chart|picture|image)"
_SAYS = (
    r"(?:contain|stat|says?\b|said|mention|describ|discuss|impl[iy]|explain|suggest|provid|claim|note[sd]?\b|argu|giv|list|identif"
    r"|present|indicat|conclud|defin|mean|outlin|emphasi|compar|report|find|found|show|critici|highlight|refer|reach|reject|believ|think)\w*"
)
# What may follow words that stand as such: a mark, the end, a verb of telling, or a word that cannot narrow them down.
_AS_SUCH = (
    r"(?=['’]s\b|[^\w\s'’-]|\s*$|\s(?:(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might|must"
    r"|what|how|when|where|why|and|or|but|as|to|if|about|above|below|given|provided|shown|itself|also|alone|only|best|first"
    rf"|most|\w+ly)\b|{_SAYS}))"
)
_UNSEEN = re.compile(
    rf"\b(?:(?:this|the (?:given|provided|above|following|preceding)) (?P<pointed>{_SOURCE})"
    rf"|according to (?:the|this|that) (?:\w+ )?(?P<told>{_REPORT})s?"
    rf"|according to (?:the|this) (?P<drawn>{_DRAWN})|in this (?:study|section|chapter)"
    rf"|(?:in|from|using) the (?:given|provided|following|above) (?P<shown>{_DRAWN})"
    r"|(?:in|from|by|within|throughout|based on|refer to|using|(?:idea|theme|topic|subject|purpose|tone|title|point"
    rf"|thesis|focus|argument|message|summary|context|author) of) (?:the|this|that) (?:\w+ )?(?P<held>{_SOURCE})s?"
    rf"|the (?:\w+ )?(?P<says>{_REPORT})s?(?= (?:(?:also|first|itself|\w+ly) )?(?:above\b|below\b|{_SAYS}))"
    r"|the (?P<owns>text|passage|document|article|excerpt|paragraph|snippet)(?=['’]s)"
    r"|the author(?=['’]s (?:main |central |own )?(?:argument|view|opinion|tone|purpose|point|claim|attitude|thesis))"
    r"|the (?:(?:figure|diagram|graph|chart|image|picture) (?:above|below)"
    r"|above (?:figure|diagram|graph|chart|image|table))"
    rf"|(?<!\ba )(?:figure|fig\.|table|appendix) [0-9]+(?:\.[0-9]+)?){_AS_SUCH}"
)
_POINTS_BACK = re.compile(
    r"\b(?:as (?:mentioned|described|stated|discussed|shown|noted|outlined|explained|defined|given)(?=,| above| earlier"
    r"| previously)|(?:mentioned|described|discussed|listed|stated) (?:above|earlier|previously)(?! by)"
    r"|(?:according to|based on|using|in|from) the (?:above(?! \w)|following(?=,)|analysis"
    rf"|(?:given|provided) information|information(?: given| provided| above)?){_AS_SUCH}"
    r"|the (?:section|table|list|data) (?:above|below))"
)
_GIVEN = re.compile(rf"\bfollowing (?:information|{_SOURCE})[.:]?\s*[\n\"“]|\b{_SOURCE}s?:?\s*[\"“‘]", re.IGNORECASE)
_NAMED_WORK = re.compile(r"\b(?:[Ii]n|[Oo]f|[Bb]y|[Ff]rom) (?:the )?[\"“‘'*_A-Z]")


def unseen_reference(question: str) -> str | None:
    """Return the first words that refer to a text outside the question, or None."""
    if _GIVEN.search(question):
        return None
    spaced = " ".join(question.split())
    text = spaced.lower()  # as long as `spaced`, but for a few letters that do not matter here
    for match in _UNSEEN.finditer(text):
        noun = next((word for word in match.groupdict().values() if word), "")
        before = text[: match.start()]
        if noun and re.search(rf"\b(?:an?|one|each|every|any|two|three|[0-9]+) (?:[\w-]+ ){{0,2}}{noun}s?\b", before):
            continue
        if noun == "author" and _NAMED_WORK.search(spaced[: match.start()]):
            continue
        return match[0]
    found = _POINTS_BACK.search(text)
    return found[0] if found and not re.search(r"[.!]\s", text[: found.start()]) else None
