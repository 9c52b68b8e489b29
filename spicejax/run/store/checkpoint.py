"""Checkpoints: Orbax writes the arrays, a manifest of digests says whether a step is whole.

    directory/lock.json               owner of the directory
    directory/00000012/state/         arrays, by Orbax
    directory/00000012/extra.json     host state
    directory/00000012/config.json    configuration of the run
    directory/00000012/MANIFEST.json  digests of all that (run/store/manifest.py)
    directory/00000013.partial/       a save or a removal that was interrupted: the next start or save removes it
    directory/superseded.00000012.0/  damaged, or the run resumed from before it; never removed

Orbax alone returns wrong numbers after a flipped bit, takes an empty folder for the newest step, and casts dtypes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import logging
import os
import re
import shutil
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

import jax
import orbax.checkpoint as ocp

from spicejax import hosts
from spicejax.errors import SpicejaxError
from spicejax.models import exported
from spicejax.report import places
from spicejax.run.host import lock
from spicejax.run.host.lock import Lock, LockedError
from spicejax.run.store import manifest

log = logging.getLogger(__name__)

STATE = "state"
T = TypeVar("T")


class CheckpointError(SpicejaxError):
    """A checkpoint could not be written or read; the text says which and why."""


@dataclasses.dataclass(frozen=True)
class Restored:
    """What a step holds."""

    step: int
    state: Any  # arrays, placed as the abstract state asked
    extra: dict[str, Any]


class Saved:
    """Read access to the checkpoints of a run, also while it runs, and from a folder that cannot be written."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory).absolute()
        self.newest: int | None = None  # the step that was verified or saved last

    @functools.cached_property
    def _orbax(self) -> ocp.Checkpointer:
        """Made at the first use of arrays: all processes meet in it, but one alone may read a configuration."""
        return ocp.Checkpointer(ocp.PyTreeCheckpointHandler())

    def path(self, step: int) -> Path:
        """Folder of a step."""
        return self.directory / f"{step:08d}"

    def steps(self) -> list[int]:
        """Every step that was once whole, in ascending order; it may have been damaged since."""
        names = (p.name for p in self.directory.glob("[0-9]*") if re.fullmatch(r"\d{8,}", p.name))
        return sorted(int(name) for name in names if name == f"{int(name):08d}")

    def latest_good(self) -> int | None:
        """The newest step whose files are all as they were written, by reading them; None where nothing was saved.

        Warnings name newer, damaged steps. Raises CheckpointError when all steps are damaged: a person decides whether
        to start over.
        """
        self.newest = hosts.by_first(self._newest_good)
        return self.newest

    def saved_config(self) -> dict[str, Any] | None:
        """Configuration of the newest step that looks whole, without reading its arrays; None if there is none."""
        for step in reversed(self.steps()):
            if manifest.fault(self.path(step), only="config.json") is None:
                with contextlib.suppress(FileNotFoundError):  # the run has removed it meanwhile
                    saved = json.loads((self.path(step) / "config.json").read_text())
                    return places.found(saved, self.directory.parent)
        return None

    def restore(self, abstract_state: Any) -> Restored | None:
        """Read the newest good step; None where nothing was saved.

        abstract_state: pytree of jax.ShapeDtypeStruct with shardings, or of arrays. It decides the placement; the mesh
            may be another than the one that saved, shapes and dtypes must be the same.
        Raises: CheckpointError naming the first array that differs; what `latest_good` raises.
        """

        def read(step: int) -> Restored:
            extra = json.loads((self.path(step) / "extra.json").read_text())
            return Restored(step, self._read(step, abstract_state), extra)

        return self._of_newest(read)

    def restore_params(self, abstract_params: Any) -> tuple[int, Any] | None:
        """Read number and trained parameters alone of the newest good step; None and errors as in `restore`."""
        return self._of_newest(lambda step: (step, self._read(step, {"params": abstract_params}, part=True)["params"]))

    def _of_newest(self, read: Callable[[int], T]) -> T | None:
        """Return `read(step)` of the newest good step; start over if the run removes that step meanwhile.

        A step is renamed before its files are touched, so one that still has its name after the reading was whole.
        """
        while (step := self.latest_good()) is not None:
            try:
                found = read(step)
            except Exception:
                if os.path.lexists(self.path(step)):
                    raise
            else:
                if os.path.lexists(self.path(step)):
                    return found
        return None

    def _read(self, step: int, abstract_state: Any, *, part: bool = False) -> Any:
        """Read the arrays of a good step, all of them or a part of the tree."""
        folder = self.path(step)
        known = manifest.read(folder)
        if isinstance(known, str):
            raise CheckpointError(f"checkpoint {folder} cannot be used: {known}")
        saved = [leaf for leaf in known["leaves"] if not part or leaf[0].split("/")[0] in abstract_state]
        _require_same(saved, manifest.leaves(abstract_state), folder)
        abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), abstract_state)
        arguments = ocp.checkpoint_utils.construct_restore_args(abstract)
        wanted = ocp.args.PyTreeRestore(item=abstract, restore_args=arguments, partial_restore=part)
        return self._orbax.restore(folder / STATE, args=wanted)

    def _newest_good(self, looks: int = 5) -> int | None:
        faults, gone = [], False
        for step in reversed(self.steps()):
            reason = manifest.fault(self.path(step))
            if reason is None:
                return step
            if not os.path.lexists(self.path(step)):  # the run has saved a newer one
                gone = True
                continue
            log.warning("checkpoint %s skipped: %s", self.path(step), reason)
            faults.append(f"{reason} ({self.path(step)})")
        if gone and looks > 1:
            time.sleep(1.0)  # the listing of a network folder may be stale
            return self._newest_good(looks - 1)
        if gone:
            raise CheckpointError(f"{self.directory}: its listing names steps that are gone; try again in a minute")
        if faults:
            raise CheckpointError(
                f"{self.directory} holds steps {self.steps()} and all are damaged: {faults[0]}; "
                "bring it back from a copy, or add --restart to set the run aside and begin anew"
            )
        return None

    def close(self) -> None:
        """Close what was opened."""
        if "_orbax" in vars(self):
            self._orbax.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Checkpoints(Saved):
    """The checkpoints of the run that owns them. `save` returns when the step is whole on disk, else it raises.

    `directory` is a folder of a mounted file system. In a run of several processes all of them share it and call every
    method; each writes its parts of the arrays, process 0 everything else.
    """

    def __init__(self, directory: str | Path, *, keep: int = 3, keep_period: int = 0, config: dict[str, Any]) -> None:
        """Lock `directory`, which is made if absent.

        keep: number of newest steps to keep. keep_period: multiples of it are kept too; 0 = none.
        Raises: LockedError while another run owns it; CheckpointError where not all hosts share it, or something that
            is no folder has the name of a step.
        """
        if keep < 1:
            raise ValueError(f"keep={keep}: at least one checkpoint must stay")
        if keep_period < 0:
            raise ValueError(f"keep_period={keep_period}: give a number of iterations, or 0 to keep none for good")
        exported.require_mounted(directory)
        super().__init__(directory)
        self._keep, self._keep_period = keep, keep_period
        self._config = json.dumps(config, indent=1)
        self._lock: Lock | None = None
        token = hosts.by_first(self._acquire)
        _require_shared(self.directory, token)

    def go_back(self, step: int) -> None:
        """Set aside, as `superseded.*`, the steps after `step`.

        Raises: CheckpointError if `step` is not a good one; nothing is changed then.
        """
        hosts.by_first(lambda: self._go_back(step))

    def tidy(self) -> None:
        """Remove what a kill in a save left: drafts, and steps that it was to remove.

        These stay where the newest was not the one that `restore` read, another configuration saved it, or one of those
        that are kept is not whole.
        Raises: LockedError if another run has taken the directory.
        """
        hosts.by_first(self._tidy)

    def save(self, step: int, state: Any, extra: dict[str, Any]) -> None:
        """Write one step, verify it, then drop all but the newest `keep` and the multiples of `keep_period`.

        state: pytree of jax arrays. extra: JSON-able host state.
        Steps that are damaged, not older, or newer than what was restored are first set aside as `superseded.*`.
        Raises CheckpointError if the step could not be written: nothing of it is left, older steps are untouched.
        """
        with _told_once():
            self._save(step, state, extra)

    def _save(self, step: int, state: Any, extra: dict[str, Any]) -> None:
        folder, extra_text = self.path(step), json.dumps(extra)
        draft = manifest.partial(folder)
        try:
            hosts.by_first(lambda: self._begin(step))
            self._orbax.save(draft / STATE, args=ocp.args.PyTreeSave(state))
            hosts.wait()
            hosts.by_first(lambda: self._finish(step, state, extra_text))
        except LockedError:  # the files belong to another run now
            raise
        except BaseException as error:
            if hosts.leads():
                _remove_while_written(draft)
            if not isinstance(error, Exception):
                raise
            still = "older steps are untouched"
            with contextlib.suppress(OSError):  # without descriptors they cannot be listed
                older = [s for s in self.steps() if s != step]
                still = f"step {older[-1]} is untouched" if older else "no older step exists"
            why = str(error) or type(error).__name__
            raise CheckpointError(f"step {step} was not saved in {self.directory}: {why}; {still}") from error
        self.newest = step
        hosts.by_first(self._prune)

    def close(self) -> None:
        """Release the directory."""
        super().close()
        if self._lock is not None:
            self._lock.release()

    def _acquire(self) -> str:
        if os.path.lexists(self.directory) and not self.directory.is_dir():
            raise CheckpointError(f"{self.directory} is no folder, nor a link to one; move it away")
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in self.directory.iterdir():
            draft = path.name.endswith(manifest.PARTIAL) and path.is_symlink()  # it would not be removed
            if re.fullmatch(rf"\d{{8,}}({manifest.PARTIAL})?", path.name) and (draft or not path.is_dir()):
                raise CheckpointError(
                    f"{path} is a file or a link that leads nowhere, not the folder of a checkpoint; move it away, or "
                    "mount what it points to"
                )
        self._lock = Lock(self.directory)
        return self._lock.token

    def _go_back(self, step: int) -> None:
        steps = self.steps()
        reason = manifest.fault(self.path(step)) if step in steps else f"{self.directory} holds {steps or 'nothing'}"
        if reason is not None:
            raise CheckpointError(f"no checkpoint after {step} iterations to go back to: {reason}")
        for found in (found for found in steps if found > step):
            self._set_aside(found, f"the run goes back to step {step}")

    def _begin(self, step: int) -> None:
        if self._lock is not None:
            self._lock.require()
        self._drop_drafts()
        past = step - 1 if self.newest is None else min(step - 1, self.newest)
        for found in self.steps():
            known = manifest.read(self.path(found))
            if found > past or isinstance(known, str):
                self._set_aside(found, known if isinstance(known, str) else "the run goes on from before it")
        manifest.partial(self.path(step)).mkdir()

    def _set_aside(self, step: int, why: str) -> None:
        names = (f"superseded.{self.path(step).name}.{number}" for number in itertools.count())
        target = next(path for path in map(self.directory.joinpath, names) if not os.path.lexists(path))
        self.path(step).rename(target)
        log.warning("step %d set aside as %s: %s", step, target.name, why)

    def _finish(self, step: int, state: Any, extra_text: str) -> None:
        """Write what is not an array, then the manifest that makes it a checkpoint."""
        draft = manifest.partial(self.path(step))
        (draft / "extra.json").write_text(extra_text)
        (draft / "config.json").write_text(self._config)
        manifest.write(self.path(step), step, state)

    def _tidy(self) -> None:
        if self._lock is not None:
            self._lock.require()
        self._drop_drafts()
        kept = [self.path(step) for step in self.steps()[-self._keep :]]
        if self.newest is None or not kept or kept[-1] != self.path(self.newest):
            return
        if (kept[-1] / "config.json").read_text() != self._config:
            return
        if all(manifest.fault(folder, contents=False) is None for folder in kept):
            self._prune()

    def _drop_drafts(self) -> None:
        for left in self.directory.glob(f"[0-9]*{manifest.PARTIAL}"):
            _drop(left, ignore_errors=True)

    def _prune(self) -> None:
        for step in self.steps()[: -self._keep]:
            if not self._keep_period or step % self._keep_period:
                with contextlib.suppress(OSError):  # tried again at the next start or save
                    _drop(self.path(step).rename(manifest.partial(self.path(step))))


@contextlib.contextmanager
def _told_once() -> Iterator[None]:
    """Hide what Orbax's threads say, in hundreds of lines, of a save that failed: the save raises it. They go on saying
    it afterwards, so that it stays hidden then."""
    before, loggers = sys.unraisablehook, [logging.getLogger(name) for name in ("absl", "asyncio")]

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if not any(word in str(unraisable.exc_value) for word in ("Event loop is closed", "_ssock")):
            before(unraisable)

    def other(record: logging.LogRecord) -> bool:
        return not any(word in str(record.msg) for word in ("run() raised an exception", "orbax"))

    sys.unraisablehook = hook
    for logger in loggers:
        logger.addFilter(other)
    try:
        yield
    except Exception:
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        raise
    sys.unraisablehook = before
    for logger in loggers:
        logger.removeFilter(other)


def _drop(folder: Path, *, ignore_errors: bool = False) -> None:
    """Remove a folder that is no longer a step; truncate its files first, except those with a second hard link.

    A mounted Drive moves removed files to its trash, where their bytes still count. A second link is somebody's copy.
    """
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            known = file.lstat()
            if stat.S_ISREG(known.st_mode) and known.st_nlink == 1:
                os.truncate(file, 0)
    shutil.rmtree(folder, ignore_errors=ignore_errors)


def _require_shared(directory: Path, token: str, patience_seconds: float = 60.0) -> None:
    """Raise CheckpointError unless this process sees the lock of process 0; network folders show new files late."""
    end = time.monotonic() + patience_seconds
    while not lock.holds(directory, token):
        if time.monotonic() > end:
            raise CheckpointError(
                f"{directory} of process {jax.process_index()} is not that of process 0; the workdir must be a folder "
                "that all hosts share (NFS, or a bucket mounted with gcsfuse)"
            )
        time.sleep(0.2)


def _remove_while_written(folder: Path, quiet_seconds: float = 0.5, patience_seconds: float = 10.0) -> None:
    """Remove the folder of a failed save. Orbax's writers may outlive the error and make files and folders again."""
    end, gone_since = time.monotonic() + patience_seconds, None
    while time.monotonic() < end:
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)
            gone_since = None
        elif gone_since is None:
            gone_since = time.monotonic()
        elif time.monotonic() - gone_since > quiet_seconds:
            return
        time.sleep(0.02)
    log.warning("%s could not be removed; the next save tries again", folder)


def _require_same(saved: list[list[Any]], wanted: list[list[Any]], folder: Path) -> None:
    have, want = ({name: f"{dtype}{shape}" for name, shape, dtype in leaves} for leaves in (saved, wanted))
    for name in want | have:
        old, new = (shapes.get(name, "not there") for shapes in (have, want))
        if old != new:
            raise CheckpointError(
                f"array `{name}` is {old} in {folder} and {new} in this run: another model, optimizer or precision; "
                "use the configuration that made it or another workdir"
            )
