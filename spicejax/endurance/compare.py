"""Whether two runs of one configuration are the same: arrays, state, logs and exported policies, bit for bit."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from spicejax.run.host.disk import POLICY
from spicejax.run.store.metrics import LOGS

# Counters in a checkpoint of when it was saved: an evaluation that a signal cut short is made after it, and compared in
# the logs and the summary.
WHEN = ("seconds", "stages", "lines", "unevaluated", "accuracy_start", "accuracy_end")
# What is compared by itself, damaged steps and lines that were set aside, compiled programs, trackers' own names
ASIDE = r"^checkpoints/(superseded\.|\d+(/|$))|^(policy|compilation_cache|tensorboard|wandb)(/|$)|\.discarded\.jsonl$"
SUMMED = ("iterations", "complete", "steps", "valid_share", "iterations_idle", "accuracy_start", "accuracy_end")


def differences(stages: Sequence[Path], others: Sequence[Path]) -> list[str]:
    """What differs between two finished runs, stage by stage, but for times: a line each, the first of a kind."""
    found = []
    for ours, theirs in zip(stages, others, strict=True):
        lines = [*_checkpoint(ours, theirs), *_logs(ours, theirs), *_policy(ours, theirs), *_files(ours, theirs)]
        found += [f"{ours.name}: {line}" if len(stages) > 1 else line for line in lines]
    return found


def steps(workdir: Path) -> list[int]:
    """Steps of the checkpoints of a work folder, whole or damaged since."""
    return sorted(int(path.name) for path in (workdir / "checkpoints").glob("[0-9]*") if path.name.isdigit())


def _checkpoint(ours: Path, theirs: Path) -> list[str]:
    if steps(ours) != steps(theirs):
        return [f"checkpoints {steps(ours)}, not {steps(theirs)}"]
    folder = Path("checkpoints", f"{steps(ours)[-1]:08d}")
    mine, yours = (arrays(run / folder / "state") for run in (ours, theirs))
    if mine.keys() != yours.keys():
        return [f"array {min(mine.keys() ^ yours.keys())} is in one of them alone"]
    wrong = [name for name, array in mine.items() if not _same(array, yours[name])]
    found = [f"{len(wrong)} of {len(mine)} arrays, such as {wrong[0]}"] if wrong else []
    mine, yours = (_state(run / folder / "extra.json") for run in (ours, theirs))
    return found + [f"the state's {key}" for key in sorted(mine | yours) if mine.get(key) != yours.get(key)]


def arrays(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a saved state by their paths, whichever devices saved them."""
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as orbax:
        saved: Any = orbax.metadata(folder.absolute()).item_metadata
        as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), saved.tree)
        tree = orbax.restore(folder.absolute(), args=ocp.args.PyTreeRestore(restore_args=as_numpy))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree.leaves_with_path(tree)}


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def _state(file: Path) -> dict[str, Any]:
    state = json.loads(file.read_text())
    state["counters"] = {name: value for name, value in state["counters"].items() if name not in WHEN}
    return state


def _logs(ours: Path, theirs: Path) -> list[str]:
    summaries = [json.loads((run / "summary.json").read_text()) for run in (ours, theirs)]
    mine, yours = ({name: summary.get(name) for name in SUMMED} for summary in summaries)
    found = [f"the summary's {name}" for name in SUMMED if mine[name] != yours[name]]
    for name in LOGS:
        mine, yours = (_lines(run / f"{name}.jsonl") for run in (ours, theirs))
        if len(mine) != len(yours):
            found.append(f"{name}.jsonl has {len(mine)} lines, not {len(yours)}")
        elif wrong := [k for k, (a, b) in enumerate(zip(mine, yours, strict=True)) if a != b]:
            one, other = mine[wrong[0]], yours[wrong[0]]
            keys = sorted(key for key in one | other if one.get(key) != other.get(key))
            found.append(
                f"{name}.jsonl differs in {len(wrong)} lines, first in line {wrong[0] + 1}: {', '.join(keys[:3])}"
            )
    return found


def _lines(file: Path) -> list[dict[str, str]]:
    """Lines of a log by their fields, as they are written and not as reports read them, but for times."""
    return [_fields(line) for line in file.read_bytes().splitlines(keepends=True)] if file.exists() else []


def _fields(line: bytes) -> dict[str, str]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict) or not line.endswith(b"\n"):
        return {"no row": repr(line)}
    return {key: json.dumps(value) for key, value in row.items() if not key.startswith("time/")}


def _files(ours: Path, theirs: Path) -> list[str]:
    """A file or folder that one of them alone has, a draft say, but for what is set aside to be looked at."""
    mine, yours = (
        {name for path in run.rglob("*") if not re.search(ASIDE, name := path.relative_to(run).as_posix())}
        for run in (ours, theirs)
    )
    return [f"{name} is in one of them alone" for name in sorted(mine ^ yours)][:1]


def _policy(ours: Path, theirs: Path) -> list[str]:
    mine, yours = (
        {
            path.relative_to(run).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (run / POLICY).rglob("*")
            if path.is_file()
        }
        for run in (ours, theirs)
    )
    return [f"file {name}" for name in sorted(mine | yours) if mine.get(name) != yours.get(name)][:1]
