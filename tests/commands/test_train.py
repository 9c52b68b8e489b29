"""spicejax train: its own options beside the fields of a configuration."""

import json
import runpy
import sys
from pathlib import Path

import pytest
from processes import ROOT

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.commands import train
from spicejax.report import places
from spicejax.run import chain, preflight
from spicejax.run.store import record

NANO = "--config=spice_nano"


@pytest.mark.parametrize(("words", "message"), [
    (["--confg=x"], "error: unknown option --confg; did you mean --config?"),
    (["--config", "nope"], "error: unknown config 'nope'; choose from: absolute_zero_nano, "),
    (["--config=spice_qwen4"], "error: unknown config 'spice_qwen4'; did you mean spice_qwen4b? All: "),
    (["--config=no.py"], "error: --config=no.py: there is no such file; give the name of a recipe, or a .py file"),
    ([], "error: --config=NAME is missing; one of: absolute_zero_nano, "),
    (["--config"], "error: argument --config: expected one argument"),
    ([NANO, "--workdir="], "error: --workdir needs a value: --workdir=..."),
    ([NANO, "--workdr", "x"], "error: unknown option --workdr; did you mean --workdir?"),
    ([NANO, "--json=3"], "error: argument --json: ignored explicit argument '3'"),
    ([NANO, "--num_processes=x"], "error: argument --num_processes: invalid int value: 'x'"),
    ([NANO, "--dry-run", "--programs=a"], "error: --topology=SLICE, --programs and --json belong to"),
    ([NANO, "--resume=newest"], "error: --resume=newest: auto, never, or the number of iterations of a checkpoint"),
    (["acesearcher_nano", "--resume=3"], "error: --resume=3: one run goes back, and this is a chain of 3; auto or"),
    ([NANO, f"--export={ROOT}"], f"error: {ROOT} is there and no such folder that spicejax has written"),
    ([NANO, "--corpus.sorce=x"], "error: unknown field `corpus.sorce`; did you mean `corpus.source`"),
    ([NANO, "--show_every", "-x"], "error: bad value for `show_every`: '-x'; allowed: whole number"),
])  # fmt: skip
def test_a_wrong_option_is_one_line(words, message, capsys):
    assert commands.run("train", words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(message) and err.count("\n") == 1


def test_help_of_both(capsys):
    assert commands.run("train", ["--help"]) == 0
    assert "spice_nano" in capsys.readouterr().out
    assert commands.run("train", ["--config", "spice_nano", "--help", "iterations=7"]) == 0
    out = capsys.readouterr().out
    assert "--topology SLICE" in out and "  spice.group_size=8 " in out and "  iterations=7 " in out
    assert "more fields: --help=all" in out and len(out.splitlines()) < 150
    assert commands.run("train", ["spice_nano", "--help=all"]) == 0
    assert "  learner.clip_low=" in capsys.readouterr().out
    assert commands.run("train", ["sft_rlvr_nano", "--help"]) == 0
    out = capsys.readouterr().out
    assert "stage 2 of 2: 2.section" in out and "  supervised.examples=" in out and "  rlvr.questions=" in out


@pytest.mark.parametrize("name", configs.names())
def test_help_begins_with_twenty_fields(name):
    for cfg in configs.stages(name):
        told, there = set(cfg.chosen), {path for path, _ in configuration.leaves(cfg)}
        assert told <= there and 16 < len(told) <= 25


def test_a_recipe_of_your_own_is_a_file(tmp_path, capsys):
    own = tmp_path / "mine.py"
    own.write_text("CONFIG = 5\n")
    assert commands.run("train", [f"--config={own}"]) == 2
    assert capsys.readouterr().err == (
        f"error: --config={own}: define CONFIG there, a RunConfig or a tuple of them, as configs/ does\n"
    )
    own.write_text(
        "import dataclasses\nfrom spicejax.configs.spice_nano import CONFIG\n"
        "CONFIG = dataclasses.replace(CONFIG, name='mine', iterations=7)\n"
    )
    assert commands.run("train", ["--config", str(own), "--help"]) == 0
    assert "  iterations=7 " in capsys.readouterr().out


def test_a_function_of_a_recipe_is_its_name_wherever_the_recipe_is_read(tmp_path):
    own = tmp_path / "mine.py"
    own.write_text(
        "import dataclasses\nfrom spicejax.configs.rlvr_nano import CONFIG\n"
        "def near(text, task):\n    return text == task.answer\n"
        "CONFIG = dataclasses.replace(CONFIG, verifier=near)\n"
    )
    cfg = configs.load(str(own))
    assert cfg.verifier == f"{own}:near"
    assert cfg == configuration.parse(configs.load("rlvr_nano"), [f"verifier={own}:near"])
    (tmp_path / "config.json").write_text(json.dumps(places.kept(configuration.to_json(cfg), tmp_path)))
    own.write_text("1 / 0")  # to read a run runs nothing that it names
    assert configs.load(str(tmp_path / "config.json")).verifier == f"{own}:near"
    own.write_text(
        "import dataclasses\nfrom spicejax.configs.rlvr_nano import CONFIG\n"
        "CONFIG = dataclasses.replace(CONFIG, verifier=lambda text, task: True)\n"
    )
    with pytest.raises(ValueError, match="verifier: no other process finds <lambda> .*; define it with def"):
        configs.load(str(own))


def test_a_run_of_before_had_the_verifier_of_the_package():
    cfg = configs.load("rlvr_nano")
    saved = configuration.to_json(cfg)
    del saved["verifier"]
    assert configuration.from_json(type(cfg), configuration.readable(type(cfg), saved)) == cfg
    preflight.require_same(saved, cfg, Path("runs/x/checkpoints"))
    with pytest.raises(ValueError, match="verifier: 'math_verify' -> 'rules:near'"):
        preflight.require_same(saved, configuration.parse(cfg, ["verifier=rules:near"]), Path("runs/x/checkpoints"))


@pytest.fixture
def launched(monkeypatch, tmp_path):
    """What a launcher makes of its words: the runs it would start, and where."""
    monkeypatch.setenv("GLIBC_TUNABLES", "")  # or it would start this process again
    monkeypatch.chdir(tmp_path)
    found = []
    monkeypatch.setattr(train, "_run", lambda stages, workdir, **_: found.append((stages, workdir)) or 0)

    def run(script, *words):
        monkeypatch.setattr(sys, "argv", [str(script), *words])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(script), run_name="__main__")
        assert stopped.value.code == 0
        return found.pop()

    return run


@pytest.mark.parametrize("name", ["spice_nano", "acesearcher_nano"])
def test_every_spelling_of_the_launcher_starts_the_same_run(name, launched):
    changes = ["seed=3", "checkpoint.keep=5"]
    script, console = ROOT / "launch" / "tpu_run.py", ROOT / "spicejax" / "__main__.py"
    expected = chain.override(configs.stages(name), changes), Path("runs") / name
    assert launched(script, f"--config={name}", *changes) == expected
    assert launched(console, "train", f"--config={name}", *changes) == expected
    assert launched(console, "train", name, *changes) == expected
    assert launched(console, "train", "--checkpoint.keep", "5", name, "--seed=3") == expected


def test_a_recipe_is_given_once(capsys):
    for words in ([NANO, "spice_qwen4b"], ["spice_nano", "spice_qwen4b"]):
        assert commands.run("train", words) == 2
        assert capsys.readouterr().err == (
            "error: 'spice_qwen4b': the recipe is spice_nano already; a field is changed by a.b=c\n"
        )
    assert commands.run("train", ["spice_nono"]) == 2
    assert capsys.readouterr().err.startswith("error: unknown config 'spice_nono'; did you mean spice_nano?")


def elsewhere(cfg):
    """The configuration as it says the same in any folder."""
    cache = cfg.nano and {"nano.cache": str(Path(cfg.nano.cache).absolute())}
    return configuration.override(cfg, cache or {})


@pytest.mark.parametrize("name", configs.names())
def test_what_a_run_recorded_starts_it_again(name, launched, tmp_path):
    """--config=RUN/config.json, as the run itself wrote it, changes of the command line included."""
    for number, cfg in enumerate(chain.override(configs.stages(name), ["seed=7", "eval.every=3"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        record.write(folder, cfg)
        (again,), _ = launched(ROOT / "launch" / "tpu_run.py", f"--config={folder / 'config.json'}")
        assert again == configs.load(str(folder / "config.json")) == elsewhere(cfg)


def test_prompts_of_ones_own_are_recorded_too(launched, tmp_path):
    (tmp_path / "prompts").mkdir()
    file = ROOT / "spicejax" / "games" / "spice" / "prompts" / "free_form_nano.txt"
    (tmp_path / "prompts" / file.name).write_text(file.read_text() + "\nBe brief.\n")
    (cfg,), _ = launched(ROOT / "launch" / "tpu_run.py", NANO, f"spice.prompts={tmp_path / 'prompts'}")
    assert "Be brief." in str(cfg.game)
    record.write(tmp_path, cfg)
    (tmp_path / "prompts" / file.name).unlink()
    assert launched(ROOT / "launch" / "tpu_run.py", f"--config={tmp_path / 'config.json'}")[0] == [elsewhere(cfg)]
