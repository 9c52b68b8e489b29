import re

from spicejax.data import problems, sources


def test_what_a_problem_works_out_is_right():
    documents = problems.documents()
    assert len({document.text for document in documents}) == len(documents) == problems.COUNT
    for document in documents:
        steps = re.findall(r"((?:\d+ [x+-] )+\d+) = (\d+)", document.text)
        assert len(steps) == 2, document.text
        for sum_, result in steps:
            assert eval(sum_.replace("x", "*")) == int(result) > 0, document.text


def test_problems_are_a_source_beside_others():
    reader = sources.Reader()
    read = [raw.id for spec in sources.split_mixture("problems,facts") for raw in reader.documents(spec)]
    assert sum(name.startswith("problems:") for name in read) == problems.COUNT < len(read)
