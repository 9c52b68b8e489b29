"""Checkpoints against damage, death and full disks: with the real Orbax, on real files."""

import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from processes import PATIENCE, ROOT, simulated

from spicejax.run.host.lock import LockedError
from spicejax.run.store import manifest
from spicejax.run.store.checkpoint import CheckpointError, Checkpoints, Saved

# Subprocesses have the functions of this file at hand.
FOLDERS = [str(ROOT / folder) for folder in (".", "tests", "tests/run/store")]
PRELUDE = f"import sys\nsys.path[:0] = {FOLDERS}\nfrom test_checkpoint import *\n"


def make_state(seed: int, width: int = 64):
    keys = jax.random.split(jax.random.key(seed), 2)
    params = {
        "embed": jax.random.normal(keys[0], (32, width)),
        "layers": {"w": jax.random.normal(keys[1], (2, width, width), jnp.bfloat16)},
    }
    return {"params": params, "opt": optax.adamw(1e-3).init(params), "step": jnp.int32(seed)}


def abstract(state):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state)


def same(a, b) -> bool:
    return jax.tree.structure(a) == jax.tree.structure(b) and all(
        x.dtype == y.dtype and np.array_equal(np.asarray(x), np.asarray(y))
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


@pytest.fixture
def checkpoints(tmp_path):
    with Checkpoints(tmp_path / "c", keep=3, config={"seed": 0}) as made:
        yield made


def test_round_trip(checkpoints):
    assert checkpoints.restore(abstract(make_state(0))) is None
    extra = {"documents": {"next_index": 7}, "counters": {"tasks": 3}, "ids": ["a", "b"], "text": "é"}
    checkpoints.save(4, make_state(4), extra)
    found = checkpoints.restore(abstract(make_state(0)))
    assert (found.step, found.extra) == (4, extra)
    assert same(found.state, make_state(4)) and checkpoints.saved_config() == {"seed": 0}
    assert checkpoints.newest == 4


@pytest.mark.parametrize(("keep", "period", "left"), [(3, 0, [6, 7, 8]), (2, 3, [3, 6, 7, 8])])
def test_the_newest_and_multiples_of_the_period_stay(tmp_path, keep, period, left):
    with Checkpoints(tmp_path / "c", keep=keep, keep_period=period, config={}) as checkpoints:
        for step in range(1, 9):
            checkpoints.save(step, make_state(step), {})
        assert checkpoints.steps() == left and checkpoints.newest == 8
        for step in left[1:]:
            shutil.rmtree(checkpoints.path(step))
        assert same(checkpoints.restore(abstract(make_state(0))).state, make_state(left[0]))


@pytest.mark.parametrize(
    ("damaged", "config", "left"), [(0, "a", [2, 3]), (3, "a", [1, 2, 3]), (2, "a", [1, 2, 3]), (0, "b", [1, 2, 3])]
)
def test_a_start_removes_what_a_kill_left(tmp_path, damaged, config, left):
    """As after the last save, which no other follows; where one is damaged, all may be needed."""
    with Checkpoints(tmp_path / "c", keep=3, config={"name": "a"}) as checkpoints:
        for step in (1, 2, 3):
            checkpoints.save(step, make_state(step), {})
    draft = manifest.partial(checkpoints.path(9))
    shutil.copytree(checkpoints.path(3), draft)
    if damaged:
        (checkpoints.path(damaged) / "extra.json").unlink()
    with Checkpoints(tmp_path / "c", keep=2, config={"name": config}) as checkpoints:
        assert checkpoints.restore(abstract(make_state(0))).step == (2 if damaged == 3 else 3)
        checkpoints.tidy()
        assert checkpoints.steps() == left and not draft.exists()
        (checkpoints.directory / "lock.json").write_text('{"token": "another"}')
        draft.mkdir()
        with pytest.raises(LockedError):
            checkpoints.tidy()
        assert draft.exists()


def test_what_is_dropped_is_emptied_first(tmp_path, monkeypatch):
    """As it lies in a trash that counts; a copy by hard links stays whole."""
    sizes, remove = [], shutil.rmtree

    def removing(folder, **options):
        sizes.extend(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        remove(folder, **options)

    with Checkpoints(tmp_path / "c", keep=1, config={}) as checkpoints:
        checkpoints.save(1, make_state(1), {})
        monkeypatch.setattr(shutil, "rmtree", removing)
        checkpoints.save(2, make_state(2), {})
        assert len(sizes) > 4 and not any(sizes) and checkpoints.latest_good() == 2
        copy = tmp_path / "copy" / "00000002"
        shutil.copytree(checkpoints.path(2), copy, copy_function=os.link)
        checkpoints.save(3, make_state(3), {})
        assert checkpoints.steps() == [3] and manifest.fault(copy) is None


def damage(folder: Path, draw: random.Random) -> str:
    """Damage one file of a step; return what was done."""
    file = draw.choice(sorted(p for p in folder.rglob("*") if p.is_file()))
    data, kind = bytearray(file.read_bytes()), draw.choice(["flip", "zero", "truncate", "delete", "swap"])
    if kind == "delete":
        file.unlink()
    elif kind == "truncate":
        file.write_bytes(data[: draw.randrange(len(data))])
    elif kind == "swap":
        i = draw.randrange(len(data))
        file.write_bytes(data[i:] + data[:i] + b"x")
    else:
        i = draw.randrange(len(data))
        if kind == "flip":
            data[i] ^= 1 << draw.randrange(8)
        else:
            data[i : i + 64] = bytes(b ^ 0xFF for b in data[i : i + 64])
        file.write_bytes(data)
    return f"{kind} {file.relative_to(folder)}"


@pytest.mark.parametrize("seed", range(2))
def test_damage_never_restores_and_falls_back(tmp_path, seed, caplog):
    """Damages over all files of the newest step: each is seen, named, and the older step comes back whole."""
    wanted = abstract(make_state(0))
    with Checkpoints(tmp_path / "c", keep=2, config={}) as checkpoints:
        checkpoints.save(1, make_state(1), {"n": 1})
        checkpoints.save(2, make_state(2), {"n": 2})
        newest, copy, draw = checkpoints.path(2), tmp_path / "copy", random.Random(seed)
        shutil.copytree(newest, copy)
        for number in range(25):
            done = damage(newest, draw)
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                assert checkpoints.latest_good() == 1, done
            assert any(newest.name in record.getMessage() for record in caplog.records), done
            if number == 0:
                found = checkpoints.restore(wanted)
                assert found.step == 1 and found.extra == {"n": 1} and same(found.state, make_state(1)), done
            shutil.rmtree(newest)
            shutil.copytree(copy, newest)
        assert checkpoints.latest_good() == 2  # the copy is whole: it was the damage that was seen
        assert same(checkpoints.restore(wanted).state, make_state(2))


def test_folders_that_are_no_checkpoint(checkpoints, caplog):
    checkpoints.save(1, make_state(1), {})
    checkpoints.path(5).mkdir()
    shutil.copytree(checkpoints.path(1), checkpoints.path(6))  # a whole step under a wrong number
    shutil.copytree(checkpoints.path(1), checkpoints.path(7))
    (checkpoints.path(7) / "MANIFEST.json").unlink()
    (checkpoints.directory / "notes").mkdir()
    assert checkpoints.restore(abstract(make_state(0))).step == 1
    told = caplog.text
    assert all(checkpoints.path(step).name in told for step in (5, 6, 7)) and "no MANIFEST.json" in told
    checkpoints.save(5, make_state(5), {})  # debris is no obstacle
    assert checkpoints.latest_good() == 5 and same(checkpoints.restore(abstract(make_state(0))).state, make_state(5))


@pytest.mark.parametrize("lacking", ["format", "files", "extra.json", "a size"])
def test_a_manifest_of_another_kind_falls_back(checkpoints, caplog, lacking):
    """Its digest is right: another program, or another version, wrote it."""
    checkpoints.save(1, make_state(1), {"n": 1})
    checkpoints.save(2, make_state(2), {"n": 2})
    path = checkpoints.path(2) / manifest.NAME
    known = json.loads(path.read_text())
    del known["sha256"]
    if lacking == "a size":
        known["files"]["extra.json"] = known["files"]["extra.json"][1:]
    else:
        del (known["files"] if "." in lacking else known)[lacking]
    path.write_text(json.dumps(known | {"sha256": manifest._own_digest(known)}))
    assert checkpoints.restore(abstract(make_state(0))).extra == {"n": 1}
    assert f"{checkpoints.path(2)} skipped: {manifest.NAME}" in caplog.text


def test_who_reads_takes_no_lock_and_writes_nothing(checkpoints):
    checkpoints.save(1, make_state(1), {"n": 1})
    before = {path: path.stat().st_mtime_ns for path in checkpoints.directory.rglob("*")}
    before[checkpoints.directory] = checkpoints.directory.stat().st_mtime_ns
    with Saved(checkpoints.directory) as saved:
        assert saved.saved_config() == {"seed": 0} and saved.restore(abstract(make_state(0))).extra == {"n": 1}
        step, params = saved.restore_params(abstract(make_state(0)["params"]))
        assert step == 1 and same(params, make_state(1)["params"])
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert Saved(checkpoints.directory / "nothing").latest_good() is None
    checkpoints.save(2, make_state(2), {})  # still the owner


def test_what_is_removed_while_it_is_read_is_read_anew(tmp_path):
    """The run goes on, with one checkpoint kept: before, within, and behind the reading of an older one."""
    with Checkpoints(tmp_path / "c", keep=1, config={}) as owner, Saved(tmp_path / "c") as saved:
        owner.save(1, make_state(1), {})
        seen = []

        def read(step):
            seen.append(step)
            if step < 3:
                owner.save(step + 1, make_state(step + 1), {})
            if step == 1:
                raise OSError("no such file")  # as a reader meets it
            return step

        assert saved._of_newest(read) == 3 and seen == [1, 2, 3]
        found, fault = [], manifest.fault

        def late(folder, **how):
            found.append(folder.name)
            if len(found) == 1:
                owner.save(4, make_state(4), {})
            return fault(folder, **how)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("spicejax.run.store.checkpoint.manifest.fault", late)
            assert saved.latest_good() == 4


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("file", "harm", "steps"),
    [
        ("MANIFEST.json", flip, [1, 2]),
        ("MANIFEST.json", Path.unlink, [1]),
        ("MANIFEST.json", lambda path: path.write_text(""), [1, 2]),
        ("extra.json", lambda path: path.write_text("{}{"), [1]),
    ],
)
def test_all_steps_damaged_is_not_a_fresh_start(checkpoints, file, harm, steps):
    for step in steps:
        checkpoints.save(step, make_state(step), {"n": step})
    files = {path: path.read_bytes() for path in checkpoints.directory.glob(f"*/{file}")}
    for path in files:
        harm(path)
    left, newest = contents(checkpoints.directory), checkpoints.path(steps[-1])
    with pytest.raises(CheckpointError, match=rf"all are damaged: .*{file}.*\({newest}\); bring it back"):
        checkpoints.restore(abstract(make_state(0)))
    assert contents(checkpoints.directory) == left
    for path, data in files.items():
        path.write_bytes(data)
    assert checkpoints.restore(abstract(make_state(0))).extra == {"n": steps[-1]}


@pytest.mark.parametrize(
    ("file", "harm", "damaged", "then", "left"),
    [
        ("MANIFEST.json", Path.unlink, 4, 4, [2, 4]),
        ("MANIFEST.json", flip, 4, 6, [2, 6]),
        ("MANIFEST.json", flip, 2, 6, [4, 6]),
        ("extra.json", flip, 4, 6, [2, 6]),  # not counted among the newest that stay
    ],
)
def test_a_damaged_step_is_set_aside(tmp_path, caplog, file, harm, damaged, then, left):
    with Checkpoints(tmp_path / "c", keep=2, config={}) as checkpoints:
        for step in (2, 4):
            checkpoints.save(step, make_state(step), {"n": step})
        harm(checkpoints.path(damaged) / file)
        bytes_left = contents(checkpoints.path(damaged))
        assert checkpoints.restore(abstract(make_state(0))).step == 6 - damaged
        checkpoints.save(then, make_state(then), {})
        assert checkpoints.steps() == left
        aside = f"superseded.{damaged:08d}.0"
        assert contents(checkpoints.directory / aside) == bytes_left and f"set aside as {aside}" in caplog.text


def test_what_is_partly_written_never_was_a_checkpoint(checkpoints):
    checkpoints.save(1, make_state(1), {})
    checkpoints.path(1).rename(checkpoints.directory / "00000001.partial")
    assert checkpoints.restore(abstract(make_state(0))) is None
    checkpoints.save(2, make_state(2), {})
    assert sorted(os.listdir(checkpoints.directory)) == ["00000002", "lock.json"]


@pytest.mark.parametrize(
    ("name", "target"),
    [("00000050", None), ("00000050.partial", "nowhere"), ("00000050", "itself"), ("00000050.partial", "/")],
)
def test_no_folder_under_a_steps_name_is_refused_at_the_start(tmp_path, name, target):
    path = tmp_path / name
    path.write_text("") if target is None else path.symlink_to(path if target == "itself" else target)
    with pytest.raises(CheckpointError, match=f"^{path} is a file or a link that leads nowhere.*; move it away"):
        Checkpoints(tmp_path, config={})
    assert os.listdir(tmp_path) == [name]


def test_other_names_that_are_no_steps_folder(tmp_path):
    (tmp_path / "c" / "000000004").mkdir(parents=True)  # nine digits: not ours
    (tmp_path / "c" / "superseded.00000001.0").symlink_to("nowhere")
    with Checkpoints(tmp_path / "c", config={}) as checkpoints:
        checkpoints.save(1, make_state(1), {})
        (checkpoints.path(1) / "MANIFEST.json").unlink()
        checkpoints.save(2, make_state(2), {})
        assert checkpoints.steps() == [2] and (checkpoints.directory / "superseded.00000001.1").is_dir()


def test_resumed_before_later_steps(checkpoints, caplog):
    for step in (1, 2, 3):
        checkpoints.save(step, make_state(step), {})
    checkpoints.save(2, make_state(20), {})
    assert checkpoints.steps() == [1, 2] and same(checkpoints.restore(abstract(make_state(0))).state, make_state(20))
    aside = sorted(p.name for p in checkpoints.directory.glob("superseded.*"))
    assert aside == ["superseded.00000002.0", "superseded.00000003.0"] and "set aside" in caplog.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s | {"step": jnp.int16(0)}, r"`step` is int32\[\] .* int16\[\] in this run"),
        (lambda s: s | {"params": make_state(0, 32)["params"]}, r"`params/embed` is float32\[32, 64\] .* \[32, 32\]"),
        (lambda s: s | {"more": jnp.zeros(2)}, r"`more` is not there in .* float32\[2\] in this run"),
        (lambda s: {k: v for k, v in s.items() if k != "step"}, r"`step` is int32\[\] .* not there in this run"),
        (
            lambda s: s | {"params": jax.tree.map(lambda x: x.astype(jnp.float32), s["params"])},
            r"`params/layers/w` is bfloat16\[2, 64, 64\]",
        ),
        (
            lambda s: s | {"opt": optax.sgd(1.0, momentum=0.9).init(s["params"])},
            "`opt/0/trace/embed` is not there in .* float32",
        ),
    ],
)
def test_another_state_is_refused(checkpoints, change, words):
    checkpoints.save(1, make_state(1), {})
    with pytest.raises(CheckpointError, match=words.replace(r".* \[", r".*\[")):
        checkpoints.restore(abstract(change(make_state(0))))


def test_bad_arguments(checkpoints, tmp_path):
    with pytest.raises(TypeError, match="not JSON serializable"):
        checkpoints.save(1, make_state(1), {"x": object()})
    assert checkpoints.steps() == []
    with pytest.raises(ValueError, match="keep=0"):
        Checkpoints(tmp_path, keep=0, config={})
    with pytest.raises(ValueError, match="keep_period=-1"):
        Checkpoints(tmp_path, keep_period=-1, config={})
    with pytest.raises(ValueError, match="mount the bucket"):
        Checkpoints("gs://bucket/run", config={})
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="file is no folder, nor a link to one; move it away"):
        Checkpoints(tmp_path / "file", config={})


def run_python(code: str, *arguments: object, **options) -> subprocess.CompletedProcess:
    """Run `code` in a fresh interpreter."""
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, **options)


def test_disk_full_raises_now_and_leaves_nothing(tmp_path):
    """A file-size limit stands in for a full disk: the write fails inside Orbax, tensorstore or our own code. What the
    save raises is all that is said of it: Orbax's threads would write hundreds of lines."""
    done = run_python(
        """
        import resource
        c = Checkpoints(sys.argv[1], keep=3, config={})
        c.save(1, make_state(1), {})
        before = sorted(os.listdir(c.directory))
        for number, limit in enumerate((100_000, 40_000, 5_000, 500, 0)):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                c.save(2 + number, make_state(9, 256), {"text": "x" * 1000})
            except CheckpointError as error:
                told = str(error)
            else:
                raise SystemExit(f"saved within {limit} bytes")
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert "step 1 is untouched" in told and f"step {2 + number} was not saved" in told, told
            assert sorted(os.listdir(c.directory)) == before, os.listdir(c.directory)
        assert same(c.restore(abstract(make_state(0))).state, make_state(1))
        c.save(20, make_state(20), {})
        assert c.latest_good() == 20
        print("fine")
        """,
        tmp_path / "c",
    )
    assert done.stdout.strip() == "fine", done.stdout + done.stderr[-3000:]
    assert "Traceback" not in done.stderr and "raised an exception" not in done.stderr, done.stderr[:3000]


@pytest.mark.parametrize(
    ("phase", "when", "left"),
    [
        ("Checkpointer.save", "after", 2),
        ("Path.rename", "before", 2),  # with all written but the name
        ("manifest.write", "after", 3),
        ("shutil.rmtree", "before", 3),  # while the oldest step is dropped
    ],
)
def test_kill_between_phases(tmp_path, phase, when, left):
    """kill -9 before and after each phase of the third save: the next start finds a whole step and saves again."""
    done = run_python(
        """
        import signal
        from orbax.checkpoint import Checkpointer
        from spicejax.run.store import manifest
        c = Checkpoints(sys.argv[1], keep=2, config={})
        c.save(1, make_state(1), {})
        c.save(2, make_state(2), {})
        owner, _, name = sys.argv[2].rpartition(".")
        owner = {"Checkpointer": Checkpointer, "manifest": manifest, "Path": Path, "shutil": shutil}[owner]
        original = getattr(owner, name)
        def killed(*a, **k):
            if sys.argv[3] == "after":
                original(*a, **k)
            os.kill(os.getpid(), signal.SIGKILL)
        setattr(owner, name, killed)
        c.save(3, make_state(3), {})
        """,
        tmp_path / "c",
        phase,
        when,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    with Checkpoints(tmp_path / "c", keep=2, config={}) as checkpoints:
        found = checkpoints.restore(abstract(make_state(0)))
        assert found.step == left and same(found.state, make_state(left))
        checkpoints.save(4, make_state(4), {})
        assert checkpoints.latest_good() == 4
        assert sorted(os.listdir(checkpoints.directory)) == [f"{left:08d}", "00000004", "lock.json"]


def test_second_run_is_refused(tmp_path, checkpoints):
    with pytest.raises(LockedError, match=f"in use by process {os.getpid()}"):
        Checkpoints(checkpoints.directory, config={})
    code = "Checkpoints(sys.argv[1], config={})"
    done = run_python(code, checkpoints.directory)
    said = f"LockedError: {checkpoints.directory} is in use by process {os.getpid()}"
    assert done.returncode == 1 and said in done.stderr
    checkpoints.close()
    assert run_python(code, checkpoints.directory).returncode == 0
    Checkpoints(checkpoints.directory, config={}).close()  # whoever ended without closing is dead: taken over


def test_saved_on_eight_devices_restored_on_one(tmp_path):
    code = """
        from jax.sharding import NamedSharding, PartitionSpec as P
        mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
        place = lambda x: NamedSharding(mesh, P("d") if x.ndim == 2 else P())
        c = Checkpoints(sys.argv[1], config={})
        state = make_state(3)
        if sys.argv[2] == "save":
            c.save(3, jax.device_put(state, jax.tree.map(place, state)), {})
        else:
            want = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place(x)), state)
            found = c.restore(want).state
            assert same(found, state) and len(found["params"]["embed"].sharding.device_set) == jax.device_count()
        c.close()
        print("fine", jax.device_count())
    """
    for count, mode in ((8, "save"), (1, "restore")):
        done = run_python(code, tmp_path / "c", mode, env=os.environ | {"XLA_FLAGS": simulated(count)})
        assert done.stdout.strip() == f"fine {count}", done.stderr[-3000:]
