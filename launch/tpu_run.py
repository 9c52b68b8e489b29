"""Train: python launch/tpu_run.py --config=NAME [--workdir=DIR] [--corpus=SPEC] [--dry_run] [a.b=c ...]

Several hosts run the same command: see launch/tpu_pod.sh.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    from spicejax import memory

    memory.ask_for_huge_pages()

import jax

from spicejax import config as configuration
from spicejax import configs, hosts
from spicejax.flight import check, plan
from spicejax.games.catalogue import game_of
from spicejax.run import report, train
from spicejax.run.checkpoint import CheckpointError
from spicejax.run.config import RunConfig
from spicejax.run.lock import LockedError

USAGE = """usage: python launch/tpu_run.py --config=NAME [--workdir=DIR] [--corpus=SPEC] [--dry_run] [a.b=c ...]

  --config=NAME    one of: {names}
  --workdir=DIR    folder of checkpoints, metrics and report (default runs/NAME); the same command resumes there
  --corpus=SPEC    short for corpus.source=SPEC: jsonl, parquet, folder of .txt/.md, ArrayRecord, tfds:NAME,
                   docstrings:PACKAGE,...
  --dry_run        build everything, print the plan and the memory it takes, train nothing
  --topology=SLICE with --dry_run: compile every program for that TPU slice (v5e:4x4, v5p:2x2x2, ...) on this machine
                   and print memory, FLOPs, bytes, collectives and the time they allow; needs libtpu, no TPU
  --programs=A,B   compile only these of the flight check's programs (train_step, reasoner_decode, ...)
  --json           print the flight check as one JSON object
  --coordinator=HOST:PORT --num_processes=N --process_id=I
                   one run of N processes, each started with its own I; process 0 listens on PORT. On the hosts of a
                   TPU slice these are found. Work folder and nano.cache must be folders that all hosts share
  a.b=c            change any field of the configuration; --config=NAME --help lists them all
"""

ERRORS = (ValueError, OSError, ModuleNotFoundError, FloatingPointError, CheckpointError, LockedError, hosts.HostError)
VALUED = ("config", "workdir", "corpus", "topology", "programs", "coordinator", "num_processes", "process_id")


def main(argv: list[str] | None = None) -> int:
    """Run training; return the exit code (2 = bad arguments)."""
    options, rest = _split(sys.argv[1:] if argv is None else argv)
    if "config" not in options:
        print(USAGE.format(names=", ".join(configs.names())))
        return 0 if "help" in options else 2
    try:
        cfg = configs.load(options["config"])
        if "corpus" in options:
            rest.append(f"corpus.source={options['corpus']}")
        if "help" in options:
            print(USAGE.format(names=", ".join(configs.names())))
            rest.append("--help")
        cfg = configuration.parse(cfg, rest, prog="launch/tpu_run.py")
        logging.basicConfig(level=logging.WARNING, format="%(message)s", force=True)
        logging.getLogger("spicejax").setLevel(logging.INFO)
        if {"topology", "json", "programs"} & options.keys():
            return _flight(cfg, options)
        hosts.start(options.get("coordinator"), _integer(options, "num_processes"), _integer(options, "process_id"))
        logging.getLogger("spicejax").setLevel(logging.INFO if hosts.leads() else logging.WARNING)
        return _run(cfg, Path(options.get("workdir", f"runs/{cfg.name}")), dry_run="dry_run" in options)
    except ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        hosts.leave(2)
        return 2


def _flight(cfg: RunConfig, options: dict[str, str]) -> int:
    if "topology" not in options or "dry_run" not in options:
        raise ValueError(
            "--topology=SLICE, --programs and --json belong to a flight check: --dry_run --topology=SLICE [--json]"
        )
    only = tuple(options["programs"].split(",")) if "programs" in options else ()
    found = check.check(cfg, options["topology"], only=only)
    print(json.dumps(found) if "json" in options else check.table(found))
    return 0 if found["fits"] else 1


def _run(cfg: RunConfig, workdir: Path, *, dry_run: bool) -> int:
    if dry_run:
        text = plan.describe(cfg, workdir)
        if hosts.leads():
            print(text)
        return 0
    _require_sources(cfg)
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(workdir / "compilation_cache"))
    summary = train.train(cfg, workdir)
    if not hosts.leads():
        return 0
    for name, value in summary.items():
        print(f"{name:>24}  {value}")
    for path in report.write(workdir, game_of(cfg.game)):
        print(f"{'report':>24}  {path}")
    return 0


def _require_sources(cfg: RunConfig) -> None:
    """A configuration made for weights or documents the user brings says so before anything is loaded."""
    if cfg.nano is None and not cfg.model.path:
        raise ValueError(f"{cfg.name} brings no weights; add model.path=FOLDER (config.json, safetensors, tokenizer)")
    if cfg.nano is None and not cfg.corpus.source:
        raise ValueError(f"{cfg.name} brings no documents; add --corpus=SPEC (see --help for what it takes)")


def _integer(options: dict[str, str], name: str) -> int | None:
    try:
        return int(options[name]) if name in options else None
    except ValueError as error:
        raise ValueError(f"--{name}={options[name]}: must be a whole number") from error


def _split(argv: list[str]) -> tuple[dict[str, str], list[str]]:
    """Our own options, and the rest: fields of the configuration."""
    options: dict[str, str] = {}
    rest: list[str] = []
    for word in argv:
        name, _, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in VALUED:
            if not value:
                raise SystemExit(f"error: --{name} needs a value: --{name}=...")
            options[name] = value
        elif word in ("--dry_run", "--dry-run"):
            options["dry_run"] = ""
        elif word == "--json":
            options["json"] = ""
        elif word in ("--help", "-h"):
            options["help"] = ""
        else:
            rest.append(word)
    return options, rest


if __name__ == "__main__":
    sys.exit(main())
