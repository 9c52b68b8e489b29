"""Fixed question sets about facts: what they may ask, and that they stay as they are."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from spicejax import games
from spicejax.data.facts import questions, tables
from spicejax.data.facts.documents import documents
from spicejax.data.facts.relations import SUBJECTS
from spicejax.data.questions import load_items
from spicejax.text import tokens

SETS = {name: make() for name, make in questions.SETS.items()}
TEXTS = {d.id: d.text for d in documents()}
ROWS = {row.id: row for name, subject in SUBJECTS.items() for row in subject.rows(name)}
# A change of one is another benchmark, whose numbers do not compare with those before.
DIGESTS = {
    "corpus": "9cd6b8f777761e05",
    "countries": "02c50b22bd53474a",
    "unseen": "1d05c41d563d5ae5",
    "plain": "b50c8684f0b3d3db",
    "everyday": "70eacc1021de2bd8",
}


def about_facts(name):
    """(question, document id, column, kind) of the questions about rows of tables."""
    for question in SETS[name]:
        entity, mark, rest = question["id"].partition("#")
        if mark:
            yield question, entity, *rest.split("-")


def stands(words, text):
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE) is not None


def words_in_a_row(text, n=4):
    words = re.findall(r"[\w']+", text.casefold())
    return {tuple(words[k : k + n]) for k in range(len(words) - n + 1)}


@pytest.mark.parametrize("name", SETS)
def test_sets_do_not_change(name):
    text = json.dumps(SETS[name], sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == DIGESTS[name]


@pytest.mark.parametrize(
    ("name", "least", "most"), [("corpus", 180, 220), ("unseen", 100, 130), ("plain", 40, 40), ("everyday", 80, 100)]
)
def test_questions_are_well_formed(name, least, most, shared_data):
    tokenizer = tokens.load(shared_data / "tokenizers" / "smollm2")
    items = load_items(f"facts:{name}")
    assert least <= len(items) <= most
    assert len({i.task.id for i in items}) == len({i.task.question for i in items}) == len(items)
    for item in items:
        task = item.task
        assert len(tokenizer.encode(task.question)) <= 100
        assert not re.search(r"[{}]|  | a [aeio]| an [^aeioh]|\bthe the\b", task.question, re.I), task.question
        assert not task.aliases or task.answer_type == "String" and task.answer not in task.aliases
        assert task.answer_type != "Integer" or re.fullmatch(r"-?\d+", task.answer)
        assert len(set(task.options)) == len(task.options) == (4 if task.answer_type == "MCQ" else 0)
        assert task.answer_type != "Boolean" or task.answer in ("true", "false")


def test_documents_hold_the_answers_of_corpus():
    for question, entity, column, kind in about_facts("corpus"):
        value = ROWS[entity].cells[column][0]
        answer = {"claim": value, "choice": value}.get(kind, question["answer"])
        assert stands(answer, TEXTS[entity]), question


def test_no_document_holds_an_answer_of_unseen():
    for question, entity, column, _ in about_facts("unseen"):
        assert entity not in TEXTS
        name, value = tables.bare(ROWS[entity].name), tables.bare(ROWS[entity].cells[column][0])
        assert not [t for t in TEXTS.values() if stands(name, t) and stands(value, t)], question


@pytest.mark.parametrize("name", ["corpus", "unseen"])
def test_statements_are_as_true_as_the_answer_says_and_one_choice_is_right(name):
    for question, entity, column, kind in about_facts(name):
        values = ROWS[entity].cells[column]
        if kind == "claim":
            assert stands(values[0], question["question"]) == (question["answer"] == "true"), question
        if kind == "choice":
            right = [k for k, choice in enumerate(question["choices"]) if choice in map(tables.bare, values)]
            assert right == ["ABCD".index(question["answer"])], question


@pytest.mark.parametrize("name", ["corpus", "unseen"])
def test_no_question_gives_its_answer_away(name):
    for question in SETS[name]:
        if question["answer_type"] in ("String", "Integer"):
            assert not stands(question["answer"], question["question"]), question


def test_no_question_repeats_four_words_of_a_document_or_a_prompt():
    prompts = [path.read_text() for path in Path(games.__file__).parent.glob("**/prompts/*")]
    heard = set().union(*map(words_in_a_row, (*TEXTS.values(), *prompts)))
    for subject in SUBJECTS.values():
        for relation in subject.relations:
            for template in (relation.ask, relation.reverse, f"{relation.claim} True or false?"):
                for part in re.split(r"\{.*?\}", template):
                    assert not words_in_a_row(part) & heard, template


def test_unknown_sets_are_named():
    with pytest.raises(
        ValueError, match="facts:seen: there is no such set of questions; choose from corpus, countries, unseen, pl"
    ):
        load_items("facts:seen")
