"""What an earlier run left in a work folder: whether its checkpoints are still there, and setting all of it aside."""

from __future__ import annotations

import itertools
import json
import logging
from pathlib import Path

from spicejax.report.read import read_rows
from spicejax.run.host.disk import POLICY
from spicejax.run.host.lock import Lock
from spicejax.run.store.metrics import SAVED

log = logging.getLogger("spicejax")

# All that a run writes; the checkpoints first, since what they are on may not let them be moved
_OWN = (
    *("checkpoints", POLICY, SAVED, "config.json", "starts.jsonl", "summary.json", "report.*"),
    *("tensorboard", "tracker.json"),
    *(f"{name}*.jsonl" for name in ("metrics", "evaluations", "tasks", "documents")),
)


def require_checkpoints(workdir: Path, steps: list[int]) -> None:
    """Say where the newest checkpoint of an earlier run is not there; refuse to begin anew over one that has none left.

    Args:
      steps: checkpoints that there are.
    Raises: FileNotFoundError.
    """
    saved, logged = _saved(workdir), _logged(workdir)
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
    """Move what a run has left in `workdir` into the folder set_aside.N there, and say so; nothing is removed.

    Raises: LockedError where the run goes on; OSError where its checkpoints cannot be moved: nothing is changed then.
    """
    found = [path for pattern in _OWN for path in sorted(workdir.glob(pattern))]
    if not found:
        return
    if (workdir / "checkpoints").is_dir():
        Lock(workdir / "checkpoints").release()  # a run that goes on has it
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


def _logged(workdir: Path) -> int:
    """Iterations that the logs tell of."""
    return max((row["iteration"] + 1 for row in read_rows(workdir / "metrics.jsonl")), default=0)


def _saved(workdir: Path) -> int:
    """Iterations of the newest checkpoint that was saved there; 0 = none."""
    try:
        return int(json.loads((workdir / SAVED).read_text())["iterations"])
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return 0
