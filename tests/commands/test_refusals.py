"""Every command answers a broken input with one line and exit code 2."""

import pytest
from tiny_models import QWEN3, random_params, write_tokenizer

from spicejax import commands
from spicejax.models import hf

COMMANDS = {
    "train": ("--config=rlvr_smollm2", "--workdir={0}/run", "--corpus={0}/questions.jsonl", "model.path={0}/model"),
    "export": ("--model={0}/model", "--out={0}/out"),
    "generate": ("--model={0}/model", "--prompt=a"),
    "prepare": ("--source={0}/questions.jsonl", "--tokenizer={0}/model", "--out={0}/out"),
}
DAMAGES = {
    "config.json": b"{",
    "model.safetensors": b"",
    "tokenizer.json": b'{"model": 5}',
    "tokenizer_config.json": b'{"chat_template": 5}',
}


@pytest.mark.parametrize(
    ("name", "damaged"),
    [*zip(COMMANDS, DAMAGES, strict=True), ("train", "tokenizer.json"), ("generate", "config.json"),
     ("export", "tokenizer_config.json"), ("train", "model.safetensors")],
)  # fmt: skip
def test_a_broken_model_is_one_line(tmp_path, capsys, name, damaged):
    hf.save(tmp_path / "model", QWEN3, random_params(QWEN3))
    write_tokenizer(tmp_path / "model")
    (tmp_path / "model" / damaged).write_bytes(DAMAGES[damaged])
    (tmp_path / "questions.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n')
    assert commands.run(name, [word.format(tmp_path) for word in COMMANDS[name]]) == 2
    _, err = capsys.readouterr()
    assert err.startswith("error: ") and err.count("\n") == 1 and damaged in err, err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("option", "message"), [
    ("--source=/no/such.jsonl", "'/no/such.jsonl' does not exist"),
    ("--max_tokens=0", "max_tokens=0"),
    ("--out={0}", "already exists"),
])  # fmt: skip
def test_prepare_refuses_in_one_line(tmp_path, capsys, option, message):
    write_tokenizer(tmp_path)
    (tmp_path / "x.jsonl").write_text('{"text": "' + "one sentence of a document. " * 9 + '"}\n')
    whole = [f"--source={tmp_path}/x.jsonl", f"--tokenizer={tmp_path}", f"--out={tmp_path}/out"]
    assert commands.run("prepare", [*whole, option.format(tmp_path)]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("reading ")]
    assert len(errors) == 1 and errors[0].startswith("error: ") and message in errors[0]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("question", ["", " \n"])
def test_an_empty_question_is_refused_before_a_model_is_read(capsys, question):
    words = ["--model=package:nothing", "--config=rlvr_smollm2", "--question=How many?", f"--question={question}"]
    assert commands.run("ask", words) == 2
    assert capsys.readouterr().err == "error: question 2 is empty; give a text\n"


@pytest.mark.parametrize(("words", "said"), [
    ("tasks run --out=full", "full is not empty"),
    ("tasks run --out=run/tasks.jsonl/x --jsonl", "is no folder that can be written"),
    ("report run --out=full", "--out=full is a folder"),
    ("report run --out=/proc/x/r.html", "/proc is no folder that can be written"),
    ("mix --data=. --rounds --out=/proc/x/q.jsonl", "/proc is no folder that can be written"),
    ("prepare --source=q.jsonl --tokenizer=no --out=/proc/x", "/proc is no folder that can be written"),
    ("index --corpus=facts --encoder=no --style=e5 --out=/proc/x", "/proc is no folder that can be written"),
    ("serve --corpus=facts --engine=words --host=203.0.113.7", "cannot listen on 203.0.113.7:5003"),
    ("serve --corpus=facts --engine=words --port=99999", "cannot listen on 127.0.0.1:99999"),
    ("train --config=nofile.py", "error: --config=nofile.py: there is no such file"),
    ("train --config=nofile.json", "error: --config=nofile.json: No such file or directory; give the config.json"),
    ("train --config=spice_nano --workdir=/proc/x", "/proc is no folder that can be written"),
    ("train --config=spice_qwen4b spice.prompts=/nowhere", "spice.prompts=/nowhere: is no folder"),
    ("train --config=spice_nano mesh.tensor=3 --dry_run", "does not divide"),
    ("train --config=spice_nano buckets.rows=7", "buckets.rows=7"),
    ("train --config=spice_nano verifier_workers=-1", "verifier_workers=-1: give"),
    ("generate --model=x --prompts=nofile.txt", "error: nofile.txt: no such file or directory"),
    ("train --config=spice_nano --restart --resume=never", "--restart begins anew, --resume=never goes on"),
    ("train --config=spice_nano --workdir=gs://b/x", "error: gs:/b/x: mount the bucket (gcsfuse) and give the folder"),
    ("train --config=spice_nano --workdir=/proc/x --export=gs://b/x", "gs:/b/x: mount the bucket"),
    ("lab rewards --workdir=gs://b/x no.field=1", "gs:/b/x: mount the bucket"),
    ("evaluate --model=x --questions=q.jsonl --out=gs://b/x", "gs:/b/x: mount the bucket"),
    ("index --corpus=facts --encoder=no --style=e5 --out=gs://b/x", "gs:/b/x: mount the bucket"),
    ("mix --data=. --rounds --out=s3://b/q.jsonl", "s3:/b: mount the bucket"),
    ("prepare --source=q.jsonl --tokenizer=no --out=gs://b/x", "gs:/b/x: mount the bucket"),
    ("report run --out=gs://b/r.html", "gs:/b: mount the bucket"),
    ("tasks run --out=gs://b/x", "gs:/b/x: mount the bucket"),
])  # fmt: skip
def test_what_is_wrong_is_refused_before_anything_is_read(tmp_path, monkeypatch, capsys, words, said):
    """A line of each file is no row: a reader would say so."""
    monkeypatch.chdir(tmp_path)
    for folder in ("run", "full"):
        (tmp_path / folder).mkdir()
        for name in ("tasks", "metrics"):
            (tmp_path / folder / f"{name}.jsonl").write_text("no row\n")
    assert commands.run(words.split()[0], words.split()[1:]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and said in err and err.count("\n") == 1 and "[Errno" not in err, err
    assert not list(tmp_path.glob("*:"))
