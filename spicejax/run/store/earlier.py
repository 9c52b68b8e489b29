"""The files of an earlier run in a work folder: whether its checkpoints are still there, and setting all aside."""

from __future__ import annotations

import itertools
import json
import logging
from pathlib import Path

from spicejax.report.read import read_rows
from spicejax.run.host.disk import POLICY
from spicejax.run.host.lock import Lock
from spicejax.run.store.metrics import LOGS, SAVED

log = logging.getLogger("spicejax")

# All files of a run; the checkpoints first, since their disk may not let them be moved
_OWN = (
    *("checkpoints", POLICY, SAVED, "config.json", "starts.jsonl", "summary.json", "report.*"),
    *("tensorboard", "tracker.json"),
    *(f"{name}*.jsonl" for name in LOGS),
)


def require_checkpoints(workdir: Path, steps: list[int]) -> None:
    """Warn if the newest checkpoint of an earlier run is missing; refuse to start over if all of them are.

    Args:
      steps: existing checkpoints.
    Raises: FileNotFoundError.
    """
    saved = _saved(workdir)
    logged = max((row["iteration"] + 1 for row in read_rows(workdir / "metrics.jsonl")), default=0)
    if steps and saved > steps[-1]:
        log.warning(
            "%s: a checkpoint after %d iterations was saved there, and the newest is now after %d; what came behind "
            "it is made again",
            workdir,
            saved,
            steps[-1],
        )
    if not steps and saved:
        raise FileNotFoundError(
            f"{workdir} holds the logs of {max(logged, saved)} iterations, {saved} of them were saved, and no "
            f"checkpoint in {workdir / 'checkpoints'}; mount or bring back what is missing, or add --restart to set "
            "the run aside and begin anew"
        )
    if not steps and logged:
        log.info("%s: %d iterations were made and none was saved; they are made again", workdir, logged)


def set_aside(workdir: Path) -> None:
    """Move the files of a run in `workdir` into its folder set_aside.N; nothing is removed.

    Raises: LockedError while the run goes on; OSError if its checkpoints cannot be moved: nothing is changed then.
    """
    found = [path for pattern in _OWN for path in sorted(workdir.glob(pattern))]
    if not found:
        return
    if (workdir / "checkpoints").is_dir():
        Lock(workdir / "checkpoints").release()  # raises while the run goes on
    target = next(path for n in itertools.count(1) if not (path := workdir / f"set_aside.{n}").exists())
    target.mkdir()
    try:
        found[0].rename(target / found[0].name)
    except OSError as error:
        target.rmdir()
        raise OSError(f"{found[0]} cannot be set aside: {error.strerror}; choose another --workdir") from error
    for path in found[1:]:
        path.rename(target / path.name)
    log.info(
        "%s: what an earlier run left is set aside in %s; to go on from now on leave --restart out",
        workdir,
        target.name,
    )


def _saved(workdir: Path) -> int:
    """Iterations of the newest checkpoint that was saved; 0 = none."""
    try:
        return int(json.loads((workdir / SAVED).read_text())["iterations"])
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return 0
