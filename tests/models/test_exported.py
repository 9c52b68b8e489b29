"""Folders of exports against kills, full disks and places that are somebody else's."""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from processes import PATIENCE
from safetensors.numpy import save_file
from tiny_models import QWEN3, random_params

from spicejax.models import exported, hf

ROOT = Path(__file__).parents[2]
# Kills an export with -9 at its first file operation, then another at its second, and so on; each time the next export
# has to cope with what was left. Prints what stood there after each kill.
KILLER = """if True:
    import itertools, os, shutil, signal, sys
    from pathlib import Path
    from spicejax.models import exported
    target = Path(sys.argv[1])
    if sys.argv[2] == "two renames":
        exported._exchange = lambda one, other: False
    def write(number):
        with exported.folder(target, 1) as folder:
            for name in range(3):
                (folder / str(name)).write_text(str(number))
    def number():
        found = sorted((path.name, path.read_text()) for path in target.iterdir())
        assert [name for name, _ in found] == ["0", "1", "2"] and len({text for _, text in found}) == 1, found
        return found[0][1]
    for last in itertools.count():
        write(1)
        child = os.fork()
        if not child:
            done = itertools.count()
            def hook(event, arguments):
                if event.startswith(("open", "os.", "shutil.")) and next(done) == last:
                    os.kill(os.getpid(), signal.SIGKILL)
            sys.addaudithook(hook)
            write(2)
            os._exit(0)
        killed = os.waitpid(child, 0)[1] == signal.SIGKILL
        print(number() if target.exists() else "nothing", flush=True)
        if not target.exists():
            try:
                with exported.folder(target, 1):
                    raise EOFError
            except EOFError:
                assert number() == "1", "the old one is brought back"
        write(3)
        assert number() == "3" and os.listdir(target.parent) == [target.name], os.listdir(target.parent)
        if not killed:
            break
"""


@pytest.mark.parametrize("how", ["exchange", "two renames"])
def test_killed_anywhere_old_or_new_is_whole(tmp_path, how):
    words = [sys.executable, "-c", KILLER, str(tmp_path / "out"), how]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = done.stdout.split()
    assert len(found) > 20 and found == sorted(found, key=["1", "nothing", "2"].index), found
    assert found.count("nothing") == (how == "two renames"), "one operation lies between two renames"


def test_a_folder_that_another_process_writes_is_left_alone(tmp_path):
    target = tmp_path / "out"
    with exported.folder(target, 1) as mine:
        (mine / "a").write_text("")
        code = "import sys; from spicejax.models import exported as e; e.folder(e.Path(sys.argv[1]), 1).__enter__()"
        subprocess.run([sys.executable, "-c", code, str(target)], timeout=PATIENCE, cwd=ROOT, check=True)
        assert mine.is_dir()
    assert os.listdir(target) == ["a"]


@pytest.mark.parametrize("kills", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_killed_while_a_model_is_exported(tmp_path, kills):
    """Weights and card are of the same one, and all that was written loads."""
    code = """if True:
        import itertools, sys
        from pathlib import Path
        sys.path[:0] = ["tests"]
        from tiny_models import QWEN3, random_params
        from spicejax.models import hf
        models = [random_params(QWEN3, seed) for seed in range(2)]
        for number in itertools.count():
            card = lambda folder: (folder / "README.md").write_text(str(number % 2))
            hf.save(sys.argv[1], QWEN3, models[number % 2], max_shard_bytes=20_000, finish=card)
            print(number, flush=True)
    """
    draw, wanted = random.Random(1), [random_params(QWEN3, seed) for seed in range(2)]
    for _ in range(kills):
        command = [sys.executable, "-c", code, str(tmp_path / "out")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout.readline() == "0\n"
            time.sleep(draw.random() / 2)
            process.kill()
        seed = int((tmp_path / "out" / "README.md").read_text())
        _, params = hf.load(tmp_path / "out")
        np.testing.assert_array_equal(params["embed"], wanted[seed]["embed"])
        np.testing.assert_array_equal(params["layers"]["mlp"]["down"], wanted[seed]["layers"]["mlp"]["down"])


def test_only_what_was_written_here_is_replaced(tmp_path):
    mine, base, notes, empty = (tmp_path / name for name in ("mine", "base", "notes", "empty"))
    hf.save(mine, QWEN3, random_params(QWEN3))
    shutil.copytree(mine, base)
    save_file({"a": np.ones(2)}, base / hf.SINGLE, metadata={"format": "pt"})  # as others write it
    notes.mkdir()
    (notes / "thesis.txt").write_text("years of work")
    empty.mkdir()
    (tmp_path / "link").symlink_to(mine)
    for place in (mine, empty, tmp_path / "new" / "one", tmp_path / "link"):
        assert exported.require(place, hf.WEIGHTS) == place.resolve()
    broken = tmp_path / "broken"
    shutil.copytree(mine, broken)
    (broken / hf.SINGLE).write_bytes(b"")
    for place in (base, notes, notes / "thesis.txt", broken):
        with pytest.raises(FileExistsError, match=f"^{place} is there and no such folder.*: nothing was changed$"):
            hf.save(place, QWEN3, random_params(QWEN3))
    with pytest.raises(FileExistsError):
        exported.require(mine, "adapter_model.safetensors")
    with pytest.raises(ValueError, match="gs://bucket/x: mount the bucket"):
        exported.require("gs://bucket/x", hf.WEIGHTS)
    hf.save(tmp_path / "link", QWEN3, random_params(QWEN3, 1))
    assert (tmp_path / "link").is_symlink(), "the folder behind a link is replaced"
    np.testing.assert_array_equal(hf.load(mine)[1]["embed"], random_params(QWEN3, 1)["embed"])


# Exports into the folder of argv[1]; prints the error.
EXPORT = """if True:
    import resource, sys
    sys.path[:0] = ["tests"]
    from tiny_models import QWEN3, random_params
    from spicejax.models import exported, hf
    params = random_params(QWEN3)
    try:
        if sys.argv[2] == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
        if sys.argv[2] == "fills":  # it fits when it begins, and is full in the middle
            exported.shutil.disk_usage = lambda place: type("Usage", (), {"free": 10**9})
        hf.save(sys.argv[1] + "/out", QWEN3, params)
    except OSError as error:
        print(error)
"""
SMALL_DISK = 'mount -t tmpfs -o size=128k tmpfs "$1" && shift && exec "$@"'


def on_a_small_disk(folder, command):
    """The command that mounts a small file system at `folder` first; skips where none can be mounted."""
    if shutil.which("unshare") is None:
        pytest.skip("no `unshare` here to mount a small file system in")
    inside = ["unshare", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK, "sh", str(folder)]
    tried = subprocess.run([*inside, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no small file system can be mounted here: {tried.stderr.strip()}")
    return inside + command


@pytest.mark.parametrize(
    ("how", "message"),
    [("at once", "it takes"), ("fills", "(Error while serializing: "), ("limit", "(Error while serializing: ")],
)
def test_a_disk_or_file_that_cannot_take_it_is_one_line(tmp_path, how, message):
    command = [sys.executable, "-c", EXPORT, str(tmp_path), how]
    command = command if how == "limit" else on_a_small_disk(tmp_path, command)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT, check=False)
    said = f"out was not written{':' if how == 'at once' else ''} {message}"
    assert said in done.stdout and done.stdout.count("\n") == 1, done.stdout + done.stderr
    if how == "limit":  # safetensors writes the system's words, or the name of the error
        assert "filetoolarge" in done.stdout.replace(" ", "").lower()
    assert "GB are free there; free some, or choose another place" in done.stdout
    assert os.listdir(tmp_path) == [], "nothing is left"
