"""The wheel: models, configs, prompts and tables arrive inside spicejax, and nothing else lands beside it.

What make installs apart from it.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from processes import PATIENCE, installed

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_the_compiler_for_cards_is_installed_into_an_empty_folder(tmp_path):
    """pip --target leaves a folder that is there as it is, with a warning."""
    venv = tmp_path / "venv"
    for folder in ("bin", "cuda/old"):
        (venv / folder).mkdir(parents=True)
    pip = f'#!/bin/sh\n[ "$1" = -c ] && echo 1 && exit\n[ ! -e {venv}/cuda ] && mkdir {venv}/cuda\n'
    (venv / "bin" / "python").write_text(pip)
    (venv / "bin" / "python").chmod(0o755)
    words = ["make", f"--old-file={venv}/.dev", f"VENV={venv}", f"{venv}/.cuda"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(words, cwd=ROOT, env=environment, timeout=PATIENCE, check=True)
    assert (venv / ".cuda").exists() and not list((venv / "cuda").iterdir())


@pytest.mark.slow
def test_wheel(tmp_path):
    environment = installed(tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"spicejax"}
    expected = [path.relative_to(ROOT) for pattern in ("models/*.py", "configs/*.py") for path in ROOT.glob(pattern)]
    expected = [Path("spicejax") / path for path in expected]
    data = [p for kind in ("prompts/*.txt", "prompts/*.json", "tables/*.tsv") for p in (ROOT / "spicejax").rglob(kind)]
    missing = {path.as_posix() for path in (*expected, *(path.relative_to(ROOT) for path in data))} - names
    assert len(expected) > 10 and len(data) > 20 and not missing

    code = "import spicejax.models.transformer as t, spicejax.configs as c; print(t.__file__); print(len(c.names()))"
    options = {"cwd": tmp_path, "env": environment}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True, **options
    )
    file, count = done.stdout.split()
    assert file == str(tmp_path / "site" / "spicejax" / "models" / "transformer.py")
    assert int(count) == len(list((ROOT / "configs").glob("*.py"))) - 1


def _tracked() -> list[str]:
    """Files of the repository; a test without git is skipped."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    done = subprocess.run(command, capture_output=True, text=True) if shutil.which("git") else None
    if done is None or done.returncode:
        pytest.skip("this is no checkout of git")
    return [name for name in done.stdout.split("\0") if name]


def _built(names: list[str], folder: Path, date: float, epoch: str) -> Path:
    """The wheel of a copy of the repository in `folder`, all of whose files have the date `date`."""
    for name in names:
        copy = folder / "tree" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy, follow_symlinks=False)
        os.utime(copy, (date, date), follow_symlinks=False)
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    # the rights of a new file are in a wheel too, and the build's umask gives them
    options = {"umask": 0o022, "env": os.environ | {"SOURCE_DATE_EPOCH": epoch}, "timeout": PATIENCE, "check": True}
    subprocess.run([*words, "--wheel-dir", str(folder), str(folder / "tree")], **options)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_two_copies_of_the_tree_give_the_same_wheel_and_it_holds_what_is_tracked_alone(tmp_path):
    if int(importlib.metadata.version("setuptools").partition(".")[0]) < 77:
        pytest.skip("the build needs setuptools >= 77")
    names = _tracked()
    epoch = subprocess.run(
        ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True
    ).stdout.strip()
    one = _built(names, tmp_path / "one", 1.7e9, epoch)
    other = _built(names[::-1], tmp_path / "another folder", 1.6e9, epoch)
    assert one.name == other.name and one.read_bytes() == other.read_bytes()

    with zipfile.ZipFile(one) as wheel:
        held = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
        about = sorted(name.partition(".dist-info/")[2] for name in wheel.namelist() if ".dist-info/" in name)
    assert about == ["METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"]
    packages = [name for name in names if name.split("/")[0] in ("spicejax", "models", "configs")]
    inside = {name if name.startswith("spicejax/") else f"spicejax/{name}": ROOT / name for name in packages}
    wanted = {name: path.read_bytes() for name, path in inside.items() if not path.is_symlink()}
    assert held.keys() == wanted.keys() and held == wanted
