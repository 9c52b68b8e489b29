"""launch/tpu_pod.sh: the commands it would run."""

import shlex
import subprocess
from pathlib import Path

import pytest
from processes import PATIENCE

SCRIPT = Path(__file__).parents[2] / "launch" / "tpu_pod.sh"


def run(*words):
    done = subprocess.run(["bash", SCRIPT, *words], capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def remote(line):
    """The command line that the shell of every host gets."""
    words = shlex.split(line)
    assert words[:5] == ["gcloud", "compute", "tpus", "tpu-vm", "ssh"] and "--worker=all" in words
    assert words[5] == "pod" and "--zone=us-east5-a" in words
    (command,) = (word.removeprefix("--command=") for word in words if word.startswith("--command="))
    return command


def test_run_starts_the_same_command_on_every_host():
    arguments = ["--config=spice_qwen4b", "--workdir=/shared/my run", "buckets.prompt=(16, 64)"]
    code, out, err = run("--print", "--tpu=pod", "--zone=us-east5-a", "--dir=code", "run", *arguments)
    assert code == 0, err
    assert len(out.splitlines()) == 1
    enter, note, start = remote(out).split(" && ")
    assert (enter, note) == ("cd code", "echo $$ > run.pid")
    assert shlex.split(start) == ["exec", ".venv/bin/python", "launch/tpu_run.py", *arguments]


def test_setup_copies_what_git_tracks():
    code, out, err = run("--print", "--tpu=pod", "--zone=us-east5-a", "--project=p", "--python=python3.12", "setup")
    assert code == 0, err
    archive, copy, install = out.splitlines()
    assert shlex.split(archive)[:4] == ["git", "-C", str(SCRIPT.parents[1]), "archive"]
    file = shlex.split(archive)[5].removeprefix("--output=")
    assert shlex.split(copy)[4:7] == ["scp", file, "pod:spicejax-code.tar.gz"] and "--project=p" in copy
    assert "python3.12 -m venv .venv" in remote(install) and remote(install).endswith("pip install -q -e '.[tpu]'")


def test_stop_asks_the_run_of_every_host():
    code, out, _ = run("--print", "--tpu=pod", "--zone=us-east5-a", "stop")
    assert code == 0 and remote(out) == "kill -TERM $(cat spicejax/run.pid)"


@pytest.mark.parametrize(("words", "message"), [
    ([], "usage:"), (["--zone=z", "stop"], "--tpu=NAME is missing"), (["--tpu=t", "stop"], "--zone=ZONE is missing"),
    (["--tpu=t", "--zone=z", "fly"], "unknown action fly"),
    (["--tpu=t", "--zone=z", "--worker=1", "stop"], "unknown option --worker=1"),
    (["--tpu=t", "--zone=z", "run"], "at least --config=NAME"),
    (["--tpu=t", "--zone=z", "--dir=a;b", "stop"], "--dir=a;b"),
])  # fmt: skip
def test_bad_arguments_are_named(words, message):
    code, out, err = run(*words)
    assert code == 2 and message in err and not out
