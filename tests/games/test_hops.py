import jsonl
import pytest

from spicejax.games import hops

FILM, DIRECTOR = ("Honey (1999 film)", "Honey was directed by Ann Lee."), ("Ann Lee", "Ann Lee was born in Oslo.")
NOISE = ("Milk", "Milk is white.")
PASSAGES = [{"title": title, "text": text} for title, text in (NOISE, DIRECTOR, FILM)]
OWN = {
    "question": "Where was the director of the film Honey born?",
    "answer": "Oslo",
    "passages": PASSAGES,
    "supporting_titles": [FILM[0], DIRECTOR[0]],
}
STEPS = [("Honey >> director", "Ann Lee"), ("Where was #1 born?", "Oslo")]
DECOMPOSED = OWN | {"id": "d", "decomposition": [{"question": q, "answer": a} for q, a in STEPS]}
MUSIQUE = {
    "id": "m",
    "question": OWN["question"],
    "answer": "Oslo",
    "answer_aliases": ["Christiania"],
    "paragraphs": [
        {"title": title, "paragraph_text": text, "is_supporting": title != "Milk"}
        for title, text in (NOISE, DIRECTOR, FILM)
    ],
    "question_decomposition": [
        {"question": q, "answer": a, "paragraph_support_idx": at} for (q, a), at in zip(STEPS, (2, 1), strict=True)
    ],
}
HOTPOT = {
    "_id": "h",
    "question": OWN["question"],
    "answer": "Oslo",
    "context": [[title, [text]] for title, text in (NOISE, DIRECTOR, FILM)],
    "supporting_facts": [[FILM[0], 0], [DIRECTOR[0], 0]],
}


def read(tmp_path, *rows):
    file = tmp_path / "rows.jsonl"
    jsonl.write(file, rows)
    return list(hops.read(file))


HUB = HOTPOT | {
    "context": {"title": [t for t, _ in HOTPOT["context"]], "sentences": [s for _, s in HOTPOT["context"]]},
    "supporting_facts": {"title": [FILM[0], DIRECTOR[0]], "sent_id": [0, 0]},
}


@pytest.mark.parametrize("row", [OWN, HOTPOT, HUB])
def test_two_passages_are_found_in_the_order_in_which_they_name_each_other(tmp_path, row):
    ((question,),) = read(tmp_path, row)
    assert [(hop.query, hop.passage.title, hop.answer) for hop in question.hops] == [
        ("Honey", FILM[0], "Ann Lee"),
        ("Ann Lee", DIRECTOR[0], "Oslo"),
    ]
    assert [passage.title for passage in question.others] == ["Milk"]


@pytest.mark.parametrize("row", [DECOMPOSED, MUSIQUE])
def test_a_decomposition_gives_its_hops_and_the_steps_that_are_questions(tmp_path, row):
    ((question, step),) = read(tmp_path, row)
    assert [(hop.query, hop.passage.title, hop.answer) for hop in question.hops] == [
        ("What is the director of Honey?", FILM[0], "Ann Lee"),
        ("Where was Ann Lee born?", DIRECTOR[0], "Oslo"),
    ]
    assert question.steps == ("What is the director of Honey?", "Where was #1 born?")
    assert (step.question, step.answers, step.hops) == ("Where was Ann Lee born?", ("Oslo",), question.hops[1:])


def test_a_question_whose_way_cannot_be_read_has_no_hops(tmp_path):
    unknown = DECOMPOSED | {"decomposition": [{"question": "Who made Honey?", "answer": "nobody that is told"}]}
    alone = OWN | {"supporting_titles": [FILM[0]]}
    assert [[question.hops for question in row] for row in read(tmp_path, unknown, alone)] == [[()], [()]]


@pytest.mark.parametrize("broken", [{"passages": None}, {"supporting_titles": None}, {"question": 3}])
def test_a_row_without_passages_is_refused_by_its_line(tmp_path, broken):
    with pytest.raises(ValueError, match=r"rows\.jsonl:1: .*or question, answer, passages and supporting_titles"):
        read(tmp_path, OWN | broken)


def test_both_titles_of_a_comparison_are_searched_for(tmp_path):
    given = {"question": "Are both Milk and Honey (1999 film) white?", "supporting_titles": ["Milk", FILM[0]]}
    ((question,),) = read(tmp_path, OWN | given | {"answer": "no"})
    assert {hop.query for hop in question.hops} == {"Milk", "Honey"} and question.hops[1].answer == "no"
    assert hops.is_supported(question, 60)


def test_a_number_sign_that_refers_to_nothing_stands_as_it_is(tmp_path):
    steps = [{"question": "Who sang the #1 hit of 1999?", "answer": "Ann Lee"}]
    ((question, _),) = read(tmp_path, OWN | {"decomposition": steps})
    assert question.hops[0].query == "Who sang the #1 hit of 1999?"


def test_aliases_count_under_each_of_their_names(tmp_path):
    names = ("answers", "aliases", "answer_aliases")
    of_row = read(tmp_path, *(OWN | {name: ["Christiania"]} for name in names))
    assert [question.answers for (question,) in of_row] == [("Oslo", "Christiania")] * 3


def test_an_answer_that_is_cut_in_two_supports_nothing(tmp_path):
    ((question,),) = read(tmp_path, OWN)
    assert hops.is_supported(question, 60) and not hops.is_supported(question, 1)
