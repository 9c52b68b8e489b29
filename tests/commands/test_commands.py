"""The console command: every name runs, wrong ones are answered in a line, and launch/ is the same."""

import contextlib
import importlib
import io
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from processes import PATIENCE

from spicejax import commands
from spicejax.commands import configs as configs_command
from spicejax.commands import train as train_command
from spicejax.run import preflight, train
from spicejax.run.host.clock import Clock

USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
LAUNCH = Path(__file__).parents[2] / "launch"


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_every_command_tells_how_it_is_used(name, capsys):
    try:
        code = commands.run(name, ["--help"])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 0 and f"spicejax {name}" in capsys.readouterr().out


def test_an_unknown_command_is_one_line(capsys):
    assert commands.run("exprot") == 2 and commands.run("sing") == 2
    near, other = capsys.readouterr().err.splitlines()
    assert near == "error: unknown command 'exprot'; did you mean export?"
    assert other.startswith("error: unknown command 'sing'; choose from train, generate")


def test_a_line_that_quotes_a_whole_file_leaves_its_middle_out(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"model_type": "%s"}' % ("A" * 200_000))
    assert (
        commands.run(
            "index", [f"--encoder={tmp_path}", "--style=minilm", "--corpus=facts", f"--out={tmp_path / 'out'}"]
        )
        == 2
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {tmp_path}: config.json: model_type='AAA") and " characters] AAA" in line
    assert len(line) < 1400 and line.endswith("download it again")


def test_an_error_that_quotes_lines_is_one(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"model_type": "a\\nb\\u001b[2J"}')
    words = [f"--encoder={tmp_path}", "--style=minilm", "--corpus=facts", f"--out={tmp_path / 'out'}"]
    assert commands.run("index", words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "model_type" in line and line.isprintable()


def test_an_unknown_option_names_the_nearest(capsys):
    assert commands.run("export", ["--model=x", "--out=y", "--dtpe=float32"]) == 2
    assert capsys.readouterr().err == "error: unrecognized arguments: --dtpe=float32; did you mean --dtype?\n"


def test_scripts_of_launch_are_commands():
    scripts = (path for path in LAUNCH.glob("*.py") if path.name != "fetch_weights.py")
    named = [re.search(r'main\("(\w+)"\)', path.read_text())[1] for path in scripts]
    assert sorted(named) == sorted(set(named)) and set(named) <= set(commands.COMMANDS)


@pytest.mark.parametrize("words", [["-m", "spicejax", "export"], [str(LAUNCH / "export_hf.py")]])
def test_as_a_process(words):
    done = subprocess.run([sys.executable, *words, "--out=x"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == "error: one of the arguments --run --model is required (spicejax export --help)\n"


@pytest.mark.slow  # as tests/test_interrupt.py has it within one process
def test_a_signal_in_the_warm_start_ends_it_and_says_what_is_kept(tmp_path):
    words = [sys.executable, "-m", "spicejax", "train", "--config=spice_nano", f"--workdir={tmp_path}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*words, f"nano.cache={tmp_path / 'cache'}"], text=True, **pipes) as process:
        assert any(line.startswith("loading") for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)
    assert (
        process.returncode == 75 and "SIGTERM: saving what is finished, then leaving; once more to stop at once" in said
    )
    last = said.splitlines()[-1]
    assert re.fullmatch(r"stopped in the warm start, before step \d+ of \d+; the same command begins it anew", last)
    left = [path.name for path in (tmp_path / "cache").rglob("*")]
    assert not any(name.startswith(".") or "model" in name for name in left), "texts stay, of the model nothing"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_what_keeps_nothing_at_once_and_says_so(monkeypatch, capsys, number, code):
    previous = [signal.signal(number, usual) for number, usual in USUAL.items()]

    def hurt(words):
        signal.raise_signal(number)
        time.sleep(60)

    try:
        monkeypatch.setattr(importlib.import_module("spicejax.commands.mix"), "main", hurt)
        assert commands.run("mix") == code
        assert {number: signal.getsignal(number) for number in USUAL} == USUAL
    finally:
        for number, handler in zip(USUAL, previous, strict=True):
            signal.signal(number, handler)
    assert capsys.readouterr().err == "interrupted; nothing was written\n"


def too_much(*_):
    """Really ask for more memory than there is."""
    return jnp.zeros((1 << 46,)).block_until_ready()


def in_an_update(words):
    with contextlib.closing(Clock(lambda what, seconds: None)) as clock:
        with clock.stage("updating", "iteration 3: updating"):
            too_much()


def test_full_devices_are_one_line(monkeypatch, tmp_path, capsys):
    """Of a run that is loading, of one in an update, of another command."""
    monkeypatch.setattr(train, "build", too_much)
    words = ["--config=spice_nano", f"--workdir={tmp_path}", f"nano.cache={tmp_path / 'cache'}"]
    assert commands.run("train", words) == 2
    monkeypatch.setattr(train_command, "main", in_an_update)
    assert commands.run("train") == 2
    monkeypatch.setattr(train_command, "main", too_much)
    monkeypatch.setattr(configs_command, "main", too_much)
    assert commands.run("configs") == 2
    said = capsys.readouterr().err.splitlines()
    loading, update, other = (line for line in said if line.startswith("error: "))
    assert loading.startswith(
        "error: the devices' memory is full in loading: take a smaller model, or more chips, `--dry"
    )
    assert update.startswith(
        "error: the devices' memory is full in iteration 3, updating: lower learner.rows or learner.vocab_chunk, or set"
        " model.remat=layer, `--dry_run --topology=SLICE` says what each program takes on a TPU or GPU; the work "
    )
    assert "RESOURCE_EXHAUSTED" in update and "full in `spicejax configs`: take a smaller model" in other


def test_a_full_process_is_one_line(monkeypatch, capsys):
    def large(words):
        with contextlib.closing(Clock(lambda what, seconds: None)) as clock, clock.stage("playing"):
            return bytearray(1 << 62)

    def threads(words):
        raise RuntimeError("can't start new thread")

    def dispatched(words):
        raise jax.errors.JaxRuntimeError("INTERNAL: Error dispatching: Out of memory allocating 5087696 bytes.")

    for ends in (large, threads, dispatched):
        monkeypatch.setattr(train_command, "main", ends)
        assert commands.run("train") == 2
    said, other, last = capsys.readouterr().err.splitlines()
    assert last.startswith("error: the devices' memory is full in `spicejax train`: ") and "5087696" in last
    assert said.startswith("error: this process's memory is full in playing: `spicejax doctor` says what there is; ")
    assert "computes, lower sampler_memory or buckets.rows, `--dry_run --topology=here` says what each program" in said
    assert other.startswith("error: no thread can be started: memory is full")
    assert said.endswith("; the work folder is kept, and the same command goes on") and other[-20:] == said[-20:]


def test_devices_that_jax_cannot_open_are_one_line(tmp_path):
    words = ["train", "--config=spice_nano", f"--workdir={tmp_path}"]
    environment = os.environ | {"JAX_PLATFORMS": "abacus"}
    ended = subprocess.run(
        [sys.executable, "-m", "spicejax", *words], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    said = ended.stderr.splitlines()[-1]
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert said.startswith("error: Unable to initialize backend 'abacus'") and said.endswith("does without")


def test_what_is_advised_may_change_when_a_run_goes_on():
    advised = set(re.findall(r"[a-z_]+(?:\.[a-z_]+)|sampler_memory", " ".join(commands.LESS.values())))
    assert len(advised) == 5 and all(field.startswith(preflight.CHANGEABLE) for field in advised)


def test_other_errors_of_the_program_are_no_line(monkeypatch):
    def broken(words):
        raise RuntimeError("RESOURCE_EXHAUSTED: not of a device")

    monkeypatch.setattr(configs_command, "main", broken)
    with pytest.raises(RuntimeError, match="not of a device"):
        commands.run("configs")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_what_models_and_files_say_does_nothing_to_a_terminal(monkeypatch, capsys):
    commands.tell("a\x1b[2J\n")
    assert capsys.readouterr().out == "a\x1b[2J\n\n", "a pipe gets it whole"
    monkeypatch.setattr(sys, "stdout", Terminal())
    commands.tell("a\x1b[2J\nb")
    assert sys.stdout.getvalue() == "a [2J\nb\n"

    def warns(words):
        logging.getLogger("spicejax").info("file %s", "a\x1b[2J")

    monkeypatch.setattr(configs_command, "main", warns)
    assert commands.run("configs") == 0 and capsys.readouterr().err == "file a [2J\n"
