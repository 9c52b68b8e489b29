"""Owns whether a free-form question gives its own answer away.

That an answer occurs in a question says little: numbers and formulas are its data (x + 2 = 4), names its choices (iron
or gold?) and its cast (Ann is older than Bob: who is oldest?). It is given away where the question

* says so: `the answer is 42`;
* asks to confirm it: a yes/no question that holds it, unless as one of two choices;
* states what it asks for: a clause that holds the answer (a number or formula: where a value stands, behind `is` or
  `has`) and every word that is asked with; in an equation, one side is the answer and the other what is asked, without
  further operators or numbers;
* asks with it, names only: `which metal is called iron?`, unless as a choice or inside a longer name.
"""

from __future__ import annotations

import re

from spicejax.score import answers
from spicejax.types import AnswerType

_CLAUSE_END = re.compile(
    r"[.;:!?][\"”’)]*(?=\s|$)|\n|,\s|\band\b(?=[^.,;?]{1,40}=)"
    r"|\b(?:if|given that|given|let|assuming|knowing|since|because)\b",
    re.IGNORECASE,
)
_AUXILIARY = r"(?:is|are|was|were|do|does|did|has|have|can|could|will|would)"
_WORDS_OF_ASKING = (
    "what which who whom whose how why when where find determine compute calculate name state give list simplify solve "
    "evaluate write express sort arrange"
).split()
_ASKS = re.compile(rf"\b(?:{'|'.join(_WORDS_OF_ASKING)})\b|^\s*{_AUXILIARY}\b", re.IGNORECASE)
_YES_NO = re.compile(rf"\s*{_AUXILIARY}\b", re.IGNORECASE)
_RELATIVE = re.compile(r"\s*(?:which|who|whose|where|when)\b", re.IGNORECASE)
_WORDLESS = frozenset(
    "a an the of in on at to by for from with as and or than that this it its he she they there many much be been is "
    "are was were do does did has have had can could will would value number answer called".split()
).union(_WORDS_OF_ASKING)
_LINK = r"(?: (?:is|are|was|were|be|equals?|equal to|has|have|had))"
_BEFORE_A_VALUE = rf"(?:^(?!.*{_LINK} )|[=(:]|{_LINK})(?: (?:the|only|about|exactly))?"
_NO_OPERAND = r"(?!(?:times|more|less|fewer|plus|minus|percent|of)\b|[-+*/^%])"


def leaks(question: str, answer: str, answer_type: AnswerType) -> bool:
    """Say whether the question gives its answer away."""
    number = answers.canonical_number(answer)
    held = answers.phrase(answer) if number is None else f" {number} "
    whole, here = answers.tokens(question), re.escape(held)
    if held not in whole if number is None else number not in answers.number_tokens(question):
        return False
    if re.search(rf" (?:answer|result|solution)s? (?:is|are|:|=){here}{_NO_OPERAND}", whole):
        return True
    chosen = re.search(
        rf"{here}(?:, )?or (?!not |another |other )| or (?:\w+ )?{re.escape(held[1:])}| between | among "
        rf"| of [^?.]*(?: and{here}|{here}and )|: (?:[^?.]*,)?{here}(?:[,.]|$)",
        whole,
    )
    clauses = [clause for clause in _CLAUSE_END.split(question) if clause.strip()]
    asking = [clause for clause in clauses if _ASKS.search(clause)] or clauses[-1:]
    asking = [clause for clause in asking if clause is asking[0] or not _RELATIVE.match(clause)]
    asked = _words(" ".join(asking))
    name = number is None and answer_type == "String"
    for clause in (clause for clause in clauses if held in answers.tokens(clause)):
        if clause not in asking:
            given = _states(answers.tokens(clause), held, asked, name=name)
        else:
            confirmed = clause is asking[0] and _YES_NO.match(clause)
            longer = re.search(rf"(?i:{re.escape(answer)}) [A-Z]", clause)
            given = not chosen and (confirmed or name and not longer)
        if given:
            return True
    return False


def _words(text: str) -> set[str]:
    """The words of a text that say what it is about, singular and plural alike."""
    words = set(answers.tokens(text).split()) - _WORDLESS
    return {word.removesuffix("s") if len(word) > 3 else word for word in words}


def _states(clause: str, held: str, asked: set[str], *, name: bool) -> bool:
    """Say whether a clause, as tokens, gives what is asked the value that is held."""
    sides = clause.split("=", 3)
    if len(sides) == 1:
        value = name or re.search(rf"{_BEFORE_A_VALUE}{re.escape(held)}{_NO_OPERAND}", clause)
        return bool(value) and asked <= _words(clause)
    number = answers.parse_number(held)
    for k, side in enumerate(sides):
        others = _words(" ".join(sides[:k] + sides[k + 1 :]))
        further = {word for word in others - asked if not word.isalpha() and word not in "()"}
        read = answers.parse_number(side)
        same = side == held or number is not None and read is not None and read.value == number.value
        if same and asked <= others and not further:
            return True
    return False
