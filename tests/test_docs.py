"""What the documentation shows is what happens: the files and commands of "Adding a game"."""

import ast
import collections
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE
from tiny_runs import WORLD

from spicejax.flight import check

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text().partition("## Adding a game")[2].partition("\n## ")[0]
SMALL = [f"{key}={value}" for key, value in WORLD.items()] + ["rlvr.questions=8", "rlvr.group_size=4", "eval.every=0"]


def block(kind: str) -> list[str]:
    """Lines of the one fenced block of this kind."""
    (found,) = re.findall(rf"```{kind}\n(.*?)\n```", PAGE, re.DOTALL)
    return found.splitlines()


def test_these_are_the_files_of_the_game():
    files = [path for folder in ("spicejax/games", "configs", "tests/games") for path in (ROOT / folder).rglob("*.py")]
    named = {path.relative_to(ROOT).as_posix() for path in files if "rlvr" in path.as_posix()}
    named -= {"configs/sft_rlvr_nano.py"}  # a chain of two games, made later
    assert set(block("files")) == named | {"spicejax/games/catalogue.py"}
    assert "rlvr" in (ROOT / "spicejax/games/catalogue.py").read_text()


def test_departures_from_the_papers_are_those_of_the_code():
    pages = "".join(page.read_text() for page in sorted((ROOT / "docs" / "games").glob("*.md")))
    told = re.findall(r"^\| `([a-z0-9_/]+\.py)` \|", pages, re.MULTILINE)
    marked = {path: path.read_text().count("# Differs:") for path in (ROOT / "spicejax").rglob("*.py")}
    found = {path.relative_to(ROOT / "spicejax").as_posix(): n for path, n in marked.items() if n}
    assert found and collections.Counter(told) == found


def test_the_site_builds_without_a_warning(tmp_path):
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed (extra `dev`)")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-3000:]
    pages = {page.stem: page.read_text() for page in (tmp_path / "site").rglob("*.html")}
    assert "learner.loss_norm_length" in pages["configuration"] and "frontier_distance" in pages["metrics"]
    assert "spice_qwen4b_lora_kaggle" in pages["recipes"] and "Lab book" in pages["log"]


def test_errors_of_the_help_page_are_those_of_the_code():
    """Each one without its values, which stand there as X, Y, N and M."""
    quoted = re.findall(r"^`(.*)`\n:", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)
    assert len(quoted) > 8
    texts = set()
    for path in (file for room in ("spicejax", "models") for file in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                whole = [part.value if isinstance(part, ast.Constant) else "\0" for part in node.values]
                texts.add("".join(map(str, whole)))
    for error in quoted:
        plain = re.sub(r"[`']?\b[XYNM]\b[`']?", "\0", error)
        assert any(plain in text.replace("`\0`", "\0") for text in texts), error


def test_its_commands_do_what_the_page_says(tmp_path):
    commands = [line.replace("runs/", f"{tmp_path}/").split() for line in block("bash")]
    assert len(commands) == 5
    said = []
    for words in commands:
        assert words.pop(0) == "python"
        if "--topology=v5e:2x2" in words and not check.installed():
            pytest.skip("libtpu is not installed (extra `dev` or `tpu`): the last command was not run")
        if words[0] == "launch/tpu_run.py":
            changed = [word for word in words if word.startswith("iterations=")]
            words = [word for word in words if word not in changed] + [*SMALL, f"nano.cache={tmp_path / 'cache'}"]
            words += ["iterations=3" if changed else "iterations=2"]
        done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr[-3000:]
        said.append(done.stdout)
    plan, first, again, exported, flight = said
    assert "reasoner: 8 prompts x 4 responses" in plan
    assert "iteration 2/2" in first and "iteration 3/3" in again and "iteration 2/3" not in again, "it goes on"
    assert len((tmp_path / "rlvr_nano" / "metrics.jsonl").read_text().splitlines()) == 3
    assert "policy after 3 iterations" in exported
    assert json.loads((tmp_path / "rlvr_model" / "config.json").read_text())["hidden_size"] == 32
    assert "reasoner_decode" in flight and "train_step" in flight and "verdict   fits" in flight
