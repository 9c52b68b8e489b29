"""The console command: every name runs, wrong ones are answered in a line, and launch/ is the same."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE

from spicejax import commands

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


def test_an_unknown_option_names_the_nearest(capsys):
    assert commands.run("export", ["--model=x", "--out=y", "--dtpe=float32"]) == 2
    assert capsys.readouterr().err == "error: unrecognized arguments: --dtpe=float32; did you mean --dtype?\n"


def test_scripts_of_launch_are_commands():
    named = [re.search(r'main\("(\w+)"\)', path.read_text())[1] for path in LAUNCH.glob("*.py")]
    assert sorted(named) == sorted(set(named)) and set(named) <= set(commands.COMMANDS)


@pytest.mark.parametrize("words", [["-m", "spicejax", "export"], [str(LAUNCH / "export_hf.py")]])
def test_as_a_process(words):
    done = subprocess.run([sys.executable, *words, "--out=x"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == "error: one of the arguments --run --model is required (spicejax export --help)\n"


def test_ctrl_c_twice_ends_without_a_traceback(tmp_path):
    words = [sys.executable, "-m", "spicejax", "train", "--config=spice_nano", f"--workdir={tmp_path}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*words, f"nano.cache={tmp_path / 'cache'}"], text=True, **pipes) as process:
        assert any(line.startswith("loading") for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert any("once more to stop at once" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and said.endswith("interrupted\n") and "Traceback" not in said


def test_a_name_starts_nothing_heavy():
    """`spicejax --help` answers before JAX is there."""
    code = "import sys; from spicejax import __main__, commands; commands.run(); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.endswith("False\n"), done.stdout + done.stderr
