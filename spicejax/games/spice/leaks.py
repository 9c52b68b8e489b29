"""Whether a free-form question gives its own answer away.

An answer may occur in a question for other reasons: numbers and formulas are data (x + 2 = 4), names are choices (iron
or gold?) or persons (Ann is older than Bob: who is oldest?). The question gives it away where it

    states it                         the answer is 42
    works it out                      6 x 7 = 42
    asks to confirm it                a yes/no question contains it, but not as one of two choices
    states it of what it asks for     a clause contains the answer (a number or formula as a value, after `is` or `has`)
                                      and all content words of the asking clause; in an equation, one side is the answer
                                      and the other contains these words, without further numbers or operators
    asks with it (names only)         which metal is called iron? But not as a choice or inside a longer name
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
_QUESTION_WORDS = (
    "what which who whom whose how why when where find determine compute calculate name state give list simplify solve "
    "evaluate write express sort arrange"
).split()
_ASKS = re.compile(rf"\b(?:{'|'.join(_QUESTION_WORDS)})\b|^\s*{_AUXILIARY}\b", re.IGNORECASE)
_YES_NO = re.compile(rf"\s*{_AUXILIARY}\b", re.IGNORECASE)
_RELATIVE = re.compile(r"\s*(?:which|who|whose|where|when)\b", re.IGNORECASE)
_FUNCTION_WORDS = frozenset(
    "a an the of in on at to by for from with as and or than that this it its he she they there many much be been is "
    "are was were do does did has have had can could will would value number answer called".split()
).union(_QUESTION_WORDS)
_LINK = r"(?: (?:is|are|was|were|be|equals?|equal to|has|have|had))"
_BEFORE_A_VALUE = rf"(?:^(?!.*{_LINK} )|[=(:]|{_LINK})(?: (?:the|only|about|exactly))?"
_SUM = r" [0-9.]+(?: [-+*/x×÷] [0-9.]+)+"  # of numbers alone
_NO_OPERAND = r"(?!(?:times|more|less|fewer|plus|minus|percent|of)\b|x [\w(]|[-+*/^%])"


def leaks(question: str, answer: str, answer_type: AnswerType) -> bool:
    """Say whether the question gives its answer away."""
    number = answers.canonical_number(answer)
    phrase = answers.phrase(answer) if number is None else f" {number} "
    tokens, pattern = answers.tokens(question), re.escape(phrase)
    if phrase not in tokens if number is None else number not in answers.number_tokens(question):
        return False
    if re.search(rf" (?:answer|result|solution)s? (?:is|are|:|=){pattern}{_NO_OPERAND}", tokens):
        return True
    is_choice = re.search(
        rf"{pattern}(?:, )?or (?!not |another |other )| or (?:\w+ )?{re.escape(phrase[1:])}| between | among "
        rf"| of [^?.]*(?: and{pattern}|{pattern}and )|: (?:[^?.]*,)?{pattern}(?:[,.]|$)",
        tokens,
    )
    if number is not None and not is_choice and re.search(rf"(?<! [-+*/x×÷^=]){_SUM} ={pattern}{_NO_OPERAND}", tokens):
        return True
    clauses = [clause for clause in _CLAUSE_END.split(question) if clause.strip()]
    asking = [clause for clause in clauses if _ASKS.search(clause)] or clauses[-1:]
    asking = [clause for clause in asking if clause is asking[0] or not _RELATIVE.match(clause)]
    asked_words = _content_words(" ".join(asking))
    is_name = number is None and answer_type == "String"
    for clause in (clause for clause in clauses if phrase in answers.tokens(clause)):
        if clause not in asking:
            leaked = _states(answers.tokens(clause), phrase, asked_words, is_name=is_name)
        else:
            confirms = clause is asking[0] and _YES_NO.match(clause)
            in_longer_name = re.search(rf"(?i:{re.escape(answer)}) [A-Z]", clause)
            leaked = not is_choice and (confirms or is_name and not in_longer_name)
        if leaked:
            return True
    return False


def _content_words(text: str) -> set[str]:
    """The words that say what a text is about, without a plural's s."""
    words = set(answers.tokens(text).split()) - _FUNCTION_WORDS
    return {word.removesuffix("s") if len(word) > 3 else word for word in words}


def _states(clause: str, phrase: str, asked_words: set[str], *, is_name: bool) -> bool:
    """Say whether a clause, as tokens, states that what is asked for is the phrase."""
    sides = clause.split("=", 3)
    if len(sides) == 1:
        is_value = is_name or re.search(rf"{_BEFORE_A_VALUE}{re.escape(phrase)}{_NO_OPERAND}", clause)
        return bool(is_value) and asked_words <= _content_words(clause)
    number = answers.parse_number(phrase)
    for k, side in enumerate(sides):
        others = _content_words(" ".join(sides[:k] + sides[k + 1 :]))
        further = {word for word in others - asked_words if not word.isalpha() and word not in "()"}
        value = answers.parse_number(side)
        same = side == phrase or number is not None and value is not None and value.value == number.value
        if same and asked_words <= others and not further:
            return True
    return False
