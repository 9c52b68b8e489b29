"""docs/own_game.md: the game in a file of one's own is played, reported and asked; only a file that is named is run."""

import functools
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from processes import PATIENCE, installed
from tiny_runs import WORLD, last_step

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.report import game, page
from spicejax.report.read import open_run
from spicejax.run import evaluate
from spicejax.run.preflight import require_same
from spicejax.run.store import record
from spicejax.run.store.checkpoint import Checkpoints

PAGE = (Path(__file__).parents[1] / "docs" / "own_game.md").read_text()


@pytest.fixture
def file(tmp_path):
    (code,) = re.findall(r'```python title="brevity.py"\n(.*?)```', PAGE, re.DOTALL)
    path = tmp_path / "brevity.py"
    path.write_text(code)
    return path


@pytest.fixture
def run(file, tmp_path):
    """A work folder as a run of the game leaves it."""
    workdir = tmp_path / "run"
    cfg = configuration.parse(configs.load(str(file)), ["brevity.price=0.05"])
    with Checkpoints(workdir / "checkpoints", config=configuration.to_json(cfg)) as checkpoints:
        checkpoints.save(1, {"params": np.zeros(2)}, {})
    record.write(workdir, cfg)
    (workdir / "metrics.jsonl").write_text('{"iteration": 0, "writer/tokens": 3.5, "learner/steps": 1}\n')
    return workdir


def test_a_recipe_of_a_game_of_ones_own_is_read_and_kept(file, run):
    cfg = configs.load(str(file))
    assert cfg.chosen[-3:] == ["brevity.questions", "brevity.group_size", "brevity.prompt"]
    data = configuration.to_json(cfg)
    assert data["game"] == "brevity.py:BrevityConfig" and data["brevity"]["price"] == 0.02
    assert "brevity.price=0.02    [number]\n      what a right answer loses" in configuration.describe(cfg)
    assert configuration.from_json(cfg, data) == cfg
    assert (run / "brevity.py").read_bytes() == file.read_bytes()
    with pytest.raises(ValueError, match=r"brevity.price: 0.05 -> 0.02"):
        require_same(configuration.to_json(configs.load(str(file))) | {"brevity": {**data["brevity"], "price": 0.05}},
                     cfg, run / "checkpoints")  # fmt: skip


def test_faults_of_a_file_are_told_in_a_line(file):
    code = file.read_text()
    for head, why in (
        ("import prices\n", r"No module named 'prices'; prices lies beside it: add its folder to PYTHONPATH$"),
        ("import costs\n", r"No module named 'costs'$"),
    ):
        (file.parent / "prices.py").touch()
        file.write_text(code.replace("import dataclasses\n", f"import dataclasses\n{head}", 1))
        with pytest.raises(ValueError, match=why):
            configs.load(str(file))
    least = "    def __post_init__(self):\n        require(self, {'max_new': 1})\n\n    @property\n"
    file.write_text(code.replace("    @property\n", least, 1).replace("Prompts, Record", "Prompts, Record, require"))
    with pytest.raises(ValueError, match=r"^brevity.max_new=0: must be at least 1$"):
        configuration.parse(configs.load(str(file)), ["brevity.max_new=0"])


def test_a_moved_run_is_read_without_its_code_and_asked_with_the_file_that_is_named(file, run, tmp_path):
    moved = shutil.move(run, tmp_path / "elsewhere")
    file.unlink()
    code = (moved / "brevity.py").read_text()
    (moved / "brevity.py").write_text("raise SystemExit('code of a run folder was run')")
    found = open_run(moved)
    assert found.game is not None and found.game.panels[0].title == "Length of an answer"
    assert all(text in page.render([found]) for text in ("Length of an answer", "<td>tokens of an answer, mean</td>"))
    asked = game.asked(found.config, moved)
    assert asked is not None and asked.messages == [{"role": "user", "content": "{question}"}] and asked.max_new == 14
    for refused in (lambda: evaluate.config_for(str(moved), None, []), lambda: configs.load(f"{moved}/config.json")):
        with pytest.raises(ValueError, match=r"its game is brevity.py:BrevityConfig, .* give --config=FILE.py"):
            refused()
    (moved / "brevity.py").write_text(code)
    cfg, _ = evaluate.config_for(str(moved), configs.load(str(moved / "brevity.py")), ["brevity.max_new=9"])
    assert (cfg.game.price, cfg.game.max_new) == (0.05, 9)


@pytest.mark.parametrize("text", ["", "[]", '{"about": {"panels": 3}, "asked": {}}', "{" * 9999])
def test_an_odd_record_of_a_game_is_none(run, text):
    (run / "game.json").write_text(text)
    assert open_run(run).game is None and game.asked(open_run(run).config, run) is None
    assert page.write(run)


def test_a_game_that_fails_loses_nothing_and_goes_on_when_it_is_mended(file, cache, tmp_path, capsys):
    code, workdir = file.read_text(), tmp_path / "run"
    words = [f"{key}={value}" for key, value in (WORLD | {"checkpoint.every": "20"}).items()]
    words += ["brevity.questions=8", "brevity.group_size=4", "eval.tasks=none", "iterations=3", f"nano.cache={cache}"]
    start = functools.partial(commands.run, "train", [f"--config={file}", f"--workdir={workdir}", *words])
    file.write_text(
        code.replace("lessons, records = [], []", "lessons, records = [], [{0: 0, 1: 0}[world.iteration]][1:]")
    )
    with pytest.raises(KeyError, match="2"):
        start()
    assert last_step(workdir)[0] == "00000002", "what was trained before is saved"
    written = file.read_text()
    file.write_text(code.replace('Episode("writer", k', 'Episode("wirter", k'))
    assert start() == 2 and "a lesson has the role 'wirter'" in (err := capsys.readouterr().err)
    assert "(kept: brevity.1.py)" in err and (workdir / "brevity.1.py").read_text() == written
    file.write_text(code)
    assert start() == 0 and last_step(workdir)[0] == "00000003" and (workdir / "brevity.py").read_text() == code
    assert (workdir / "brevity.2.py").exists()


@pytest.mark.slow
def test_the_game_beside_an_installed_wheel(file, tmp_path):
    """Its own test, a run, kill -9 and resume, report, evaluation and export after the folder has moved."""
    words = [f"{key}={value}" for key, value in WORLD.items()]
    words += ["brevity.questions=8", "brevity.group_size=4", "eval.every=0", "iterations=2", "nano.cache=cache"]
    options = {"cwd": tmp_path, "env": installed(tmp_path), "timeout": PATIENCE, "check": True}
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file.name], **options)
    spicejax = [sys.executable, "-m", "spicejax"]
    train = [*spicejax, "train", "--config=brevity.py"]
    subprocess.run([*train, "--workdir=straight", *words], **options)
    killed = subprocess.Popen([*train, "--workdir=killed", *words], cwd=tmp_path, env=options["env"])
    while not (tmp_path / "killed" / "checkpoints" / "00000001").exists() and killed.poll() is None:
        time.sleep(0.1)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    shutil.rmtree(tmp_path / "killed" / "checkpoints" / "00000002", ignore_errors=True)  # it may have been faster
    subprocess.run([*train, "--workdir=killed", *words], **options)
    assert last_step(tmp_path / "killed")[:2] == last_step(tmp_path / "straight")[:2]
    shutil.move(tmp_path / "killed", tmp_path / "moved")
    shutil.move(file, tmp_path / "moved" / "brevity.py")
    (tmp_path / "asked.jsonl").write_text('{"question": "2+3=?", "answer": "5"}\n')
    for command in (
        ["report", "moved"],
        ["export", "--run=moved", "--out=model"],
        ["generate", "--run=moved", "--prompt=2+3=?"],
        ["tasks", "moved", "--out=tasks", "--jsonl"],
        ["evaluate", "--model=moved", "--config=moved/brevity.py", "--questions=asked.jsonl"],
        ["ask", "--model=moved", "--config=moved/brevity.py", "--question=2+3=?"],
        ["train", "--config=moved/brevity.py", "--workdir=moved", "--dry_run", *words],
    ):
        subprocess.run([*spicejax, *command], **options)
    assert "Length of an answer" in (tmp_path / "moved" / "report.html").read_text()
    assert "the worked example" in (tmp_path / "model" / "README.md").read_text()
