"""spicejax mix: real sets into one folder, which a run reads without TensorFlow; what is wrong is said before."""

import functools
import json
import re
import shutil
import subprocess
import sys

import pytest
from processes import ROOT

from spicejax import commands
from spicejax.data.examples import load_examples
from spicejax.data.items import open_items
from spicejax.data.questions import load_items

prepare = functools.partial(commands.run, "mix")
REAL = {
    "gsm8k_reason": "gsm8k_train_200/gsm8k_train_200", "tatqa": "document_qa/tatqa_dev_200",
    "fever": "fact_verification/fever_200", "nq": "open_qa/nq_efficientqa_dev_200",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(seqio, shared_data, tmp_path_factory):
    data, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("out") / "sft"
    for name, path in REAL.items():
        shutil.copy(shared_data / f"{path}.jsonl", data / f"{name}.jsonl")
    words = [f"--data={data}", f"--sources={','.join(REAL)}", "--leaks=none", "--held_out=20"]
    assert prepare([*words, f"--out={out}"]) == 0
    return out, words


def test_real_sets_become_one_folder(folder, capsys):
    out, words = folder
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["sources"] == {"fever": 105, "gsm8k_reason": 180, "nq": 180, "tatqa": 180}
    assert manifest["counts"]["fever"] == {"read": 200, "no_target": 75, "taken": 125}
    held_out, inside = load_examples(out / "held_out.jsonl"), load_examples(out)
    assert len(held_out) == 80 and len(inside) == 645
    assert not {e.prompt for e in held_out} & {e.prompt for e in inside}
    assert len({e.source for e in inside[:40]}) == 4, "mixed"
    assert prepare([*words, f"--out={out}"]) == 2 and "already exists" in capsys.readouterr().err


def items(path, seed=0):
    return open_items("examples", str(path), seed=seed, batch_size=16, encode=list, max_tokens=0, min_chars=0)


def test_reading_needs_no_tensorflow(folder):
    code = (
        "import sys; from spicejax.data.items import open_items; "
        f"i = open_items('examples', {str(folder[0])!r}, seed=0, batch_size=4, encode=list, max_tokens=0, min_chars=0);"
        "next(i.iterator()); assert not {'tensorflow', 'seqio'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("words, said", [
    (["--sources=nq"], "--sources=nq: MuSiQue's held-out questions were made of these; give its list"),
    (["--sources=poems"], "--sources=poems: unknown"),
    (["--sources=ifqa", "--scale=0"], "--scale=0: give a number above 0"),
    (["--sources=ifqa", "--held_out=-1"], "--held_out=-1: give 0 or more"),
    (["--rounds", "--scale=0"], "--scale=0: give a number above 0"),
    (["--rounds", "--held_out=5"], "--rounds: --held_out is of the fine-tuning mixture alone; leave it out"),
    (["--rounds", "--tfds"], "--rounds: --tfds is of the fine-tuning mixture alone"),
    (["--rounds", "--prompts=mine"], "--rounds: --prompts is of the fine-tuning mixture alone"),
    (["--sources=ifqa"], "ifqa/train.json is missing; it is published at https://github.com/wyu97/IfQA"),
    (["--sources=fever", "--held_out=9"], "no example would be left beside --held_out=9"),
    (["--sources=fever", "--prompts=nowhere"], "nowhere"),
])  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_written(tmp_path, capsys, words, said):
    (tmp_path / "fever.jsonl").write_text(json.dumps({"claim": "x", "question": "x", "answer": "SUPPORTS"}))
    assert prepare([f"--data={tmp_path}", f"--out={tmp_path / 'out'}", *words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert said in lines[-1] and not (tmp_path / "out").exists()


CLAIM = {"id": 1, "claim": "Oslo is old.", "label": "SUPPORTS", "evidence": [[[1, 2, "Oslo", 0]]]}
UNPLANNED = {"qid": "a", "question": "Is Oslo old?", "answer": True, "facts": "It was founded in 1048."}


@pytest.mark.parametrize(("source", "file", "content", "said"), [
    ("fever", "train.jsonl", CLAIM, "'no_target': 1.*/fever/wiki-pages is missing.*fever.ai"),
    ("strategyqa", "train.json", [UNPLANNED], "rows without a decomposition teach no plan.*eladsegal/strategyqa"),
])  # fmt: skip
def test_a_source_that_lacks_what_it_teaches_says_where_that_is(tmp_path, capsys, source, file, content, said):
    (tmp_path / source).mkdir()
    (tmp_path / source / file).write_text(json.dumps(content))
    assert prepare([f"--data={tmp_path}", f"--out={tmp_path / 'out'}", f"--sources={source}"]) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert re.search(said, error), error


def test_questions_of_the_rounds_bring_their_kinds(tmp_path, shared_data):
    """Real ones: a run reads them as they are."""
    shutil.copy(shared_data / "multihop_qa" / "hotpotqa_train_96.jsonl", tmp_path / "hotpotqa.jsonl")
    shutil.copy(shared_data / "gsm8k_train_200" / "gsm8k_train_200.jsonl", tmp_path / "gsm8k.jsonl")
    out = tmp_path / "questions.jsonl"
    words = [f"--data={tmp_path}", f"--out={out}", "--rounds"]
    assert prepare([*words, "--sources=hotpotqa,gsm8k", "--scale=0.009"]) == 0
    asked = [item.task for item in load_items(out)]
    assert [task.kind for task in asked].count("document") == 63 and [task.kind for task in asked].count("qa") == 90
    assert all(task.context for task in asked)
    assert prepare([*words, "--sources=hotpotqa"]) == 2, "nothing is written over"


def test_a_broken_folder_is_named(folder, tmp_path):
    shutil.copytree(folder[0], tmp_path / "cut")
    records = tmp_path / "cut" / "examples.array_record"
    records.write_bytes(records.read_bytes()[:-100])
    with pytest.raises(ValueError, match="run launch/prepare_sft.py again"):
        items(tmp_path / "cut")
