"""Train: spicejax train --config=NAME [--workdir=DIR] [--corpus=SPEC] [--dry_run] [a.b=c ...]

Several hosts run the same command: see launch/tpu_pod.sh.
"""

from __future__ import annotations

import argparse
import difflib
import json
import logging
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import jax

from spicejax import config as configuration
from spicejax import configs, hosts
from spicejax.commands import STOPPED, Parser
from spicejax.flight import check, plan
from spicejax.models import exported, hf
from spicejax.report import card
from spicejax.run import chain
from spicejax.run.config import RunConfig
from spicejax.run.host import disk, session
from spicejax.run.store import export

USAGE = "spicejax train --config=NAME [--workdir=DIR] [--corpus=SPEC] [--dry_run] [a.b=c ...]"
OPTIONS = (
    ("config", "NAME", f"a recipe, such as spice_nano; `spicejax configs` lists all {len(configs.names())}. `spicejax "
     "train NAME` says the same"),
    ("workdir", "DIR", "checkpoints, metrics and report (default runs/NAME); the same command resumes there"),
    ("corpus", "SPEC", "short for corpus.source=SPEC. Documents: jsonl, parquet, folder of .txt/.md, ArrayRecord, "
     "tfds:NAME, facts (ships with the package; facts:countries,elements,... for some of it), sentences, problems; "
     "questions or examples: jsonl"),
    ("resume", "HOW", "auto (default): from the newest checkpoint of the work folder; never: refuse a folder that "
     "holds a run; a number: go back to the checkpoint after so many iterations, newer ones are set aside"),
    ("export", "DIR", "at the end, or when it is stopped and saved, write the policy as a Hugging Face folder too"),
    ("topology", "SLICE", "with --dry_run: compile every program for that TPU slice (v5e:4x4, v5p:2x2x2, ...) or these "
     "GPUs (h100:8, h200:8, a100-80g:8, b200:8, rtx6000pro:1, rtx4090:1; h100:2x8: two hosts) on this machine; print "
     "memory, FLOPs, bytes, collectives and the time they allow. Needs libtpu or JAX's CUDA plugin, no TPU, no GPU. "
     "here: their memory on the devices of this machine"),
    ("programs", "A,B", "compile only these of the flight check's programs (train_step, reasoner_decode, ...)"),
    ("coordinator", "HOST:PORT", "one run of N processes, each started with its own I; process 0 listens on PORT. TPU "
     "slices find it themselves. Work folder and nano.cache must be folders that all hosts share"),
    ("num_processes", "N", None),
    ("process_id", "I", None),
)  # fmt: skip
FLAGS = {
    "--dry_run --dry-run": "build everything, print the plan and the memory it takes, train nothing",
    "--restart": "set what the work folder holds of an earlier run aside, in its folder set_aside.N, and begin anew",
    "--json": "print the flight check as one JSON object",
    "--help -h": "this; with --config=NAME the fields that most runs choose too, with --help=all every field",
}


def main(argv: Sequence[str]) -> int:
    """Run training; return the exit code."""
    began = session.began()  # before the model is fetched
    parser, every = _parser(), "--help=all" in argv
    known, rest = parser.parse_known_args(["--help" if word == "--help=all" else word for word in argv])
    options = {name: value for name, value in vars(known).items() if value is not None and value is not False}
    rest = _take_recipe(rest, options)
    stages = configs.stages(options["config"]) if "config" in options else ()
    _refuse_misread(options, [word for word in rest if word.startswith("--")], vars(known), stages)
    if "help" in options and not stages:
        print(parser.format_help())
        return 0
    if not stages:
        raise ValueError(f"--config=NAME is missing; one of: {', '.join(configs.names())}, or a file of your own")
    if "corpus" in options:
        rest.append(f"corpus.source={options['corpus']}")
    stages = chain.override(stages, rest)
    if "help" in options:
        print(parser.format_help(), *(_fields(stages, k, every) for k in range(len(stages))), sep="\n\n")
        return 0
    if {"topology", "json", "programs"} & options.keys():
        done: dict[str, check.Compiled] = {}
        return max(_flight(cfg, options, done) for cfg in stages)
    hosts.start(options.get("coordinator"), options.get("num_processes"), options.get("process_id"))
    logging.getLogger("spicejax").setLevel(logging.INFO if hosts.leads() else logging.WARNING)
    workdir = Path(options.get("workdir", f"runs/{Path(options['config']).stem}"))
    if {"restart", "resume"} <= options.keys():
        raise ValueError(f"--restart begins anew, --resume={options['resume']} goes on; leave one out")
    resume = "restart" if "restart" in options else _resume(options.get("resume", "auto"))
    out = Path(options["export"]) if "export" in options else None
    return _run(stages, workdir, dry_run="dry_run" in options, began=began, resume=resume, out=out)


def _fields(stages: Sequence[RunConfig], k: int, every: bool) -> str:
    """What --help says of a stage's fields."""
    head = f"stage {k + 1} of {len(stages)}: {k + 1}.section.field=value changes this one\n" if len(stages) > 1 else ""
    return head + configuration.describe(stages[k], () if every else stages[k].chosen)


def _resume(word: str) -> chain.Resume:
    if word in ("auto", "never"):
        return "auto" if word == "auto" else "never"
    if not word.isdecimal():
        raise ValueError(f"--resume={word}: auto, never, or the number of iterations of a checkpoint")
    return int(word)


def _take_recipe(rest: Sequence[str], options: dict[str, Any]) -> list[str]:
    """Put the recipe among the words, given as its name alone, into the options; return the other words."""
    before = ["", *rest]
    alone = [
        k
        for k, word in enumerate(rest)
        if not word.startswith("-") and "=" not in word and not (before[k].startswith("-") and "=" not in before[k])
    ]
    for k in alone:
        if "config" in options:
            raise ValueError(f"{rest[k]!r}: the recipe is {options['config']} already; a field is changed by a.b=c")
        options["config"] = rest[k]
    return [word for k, word in enumerate(rest) if k not in alone]


def _flight(cfg: RunConfig, options: dict[str, Any], done: dict[str, check.Compiled]) -> int:
    if "topology" not in options or "dry_run" not in options:
        raise ValueError(
            "--topology=SLICE, --programs and --json belong to a flight check: --dry_run --topology=SLICE [--json]"
        )
    if options["topology"] == "here":
        if {"programs", "json"} & options.keys():
            raise ValueError("--topology=here prints one table of all programs; leave --programs and --json out")
        text, fits = plan.compiled(cfg)
        print(text)
        return 0 if fits else 1
    only = tuple(options["programs"].split(",")) if "programs" in options else ()
    found = check.check(cfg, options["topology"], only=only, done=done)
    print(json.dumps(found) if "json" in options else check.table(found))
    return 0 if found["fits"] else 1


def _run(
    stages: Sequence[RunConfig], workdir: Path, *, dry_run: bool, began: float, resume: chain.Resume, out: Path | None
) -> int:
    folders = chain.folders(stages, workdir)
    if out is not None:
        exported.require(out, hf.WEIGHTS)
        if stages[0].model.path:
            export.require_other(out, stages[0].model.path)
    restart = resume == "restart"
    chain.require(stages, workdir, planned=dry_run, restart=restart)
    if dry_run:
        for number, (cfg, folder) in enumerate(zip(stages, folders, strict=True), 1):
            _announce(cfg, folder, number == len(stages), chain.start(cfg, number - 1))
        if (why := disk.lacking(stages, folders, workdir, restart=restart)) and hosts.leads():
            print(f"a run would stop here: {why}")
        return 0
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(workdir / "compilation_cache"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # many small ones: half of a nano's start
        jax.config.update("jax_persistent_cache_enable_xla_caches", "none")  # else its path is in every key
    summary = chain.run(stages, workdir, _announce, began=began, resume=resume)
    for name, value in summary.items() if hosts.leads() else ():
        print(f"{name:>24}  {value}")
    if out is not None and any(map(export.has_saved, folders)):
        run, name = export.find_run(workdir) or workdir, out.resolve().name
        export.write_policy(run, out, lambda folder, step: card.write(folder, run, step=step, name=name))
        if hosts.leads():
            print(f"{'export':>24}  {out}")
    return 0 if summary["complete"] else STOPPED


def _announce(cfg: RunConfig, folder: Path, last: bool, start: int = 0) -> None:
    """Print the plan."""
    text = plan.describe(cfg, folder, last=last, start=start)
    if hosts.leads():
        print(text, end="\n\n", flush=True)


def _parser() -> argparse.ArgumentParser:
    """Our own options; what it does not know are fields of the configuration."""
    parser = Parser(__name__, None, usage=USAGE, add_help=False)
    parser.epilog = "a.b=c changes any field of the configuration; --config=NAME --help=all lists them"
    for name, metavar, text in OPTIONS:
        parser.add_argument(f"--{name}", metavar=metavar, help=text, type=int if metavar in ("N", "I") else str)
    for flags, text in FLAGS.items():
        parser.add_argument(*flags.split(), action="store_true", help=text)
    return parser


def _refuse_misread(
    options: dict[str, Any], rest: list[str], names: Collection[str], stages: Sequence[RunConfig]
) -> None:
    """An option without its value, and one that is nearly ours and no field."""
    for name in (name for name, value in options.items() if value == ""):
        raise ValueError(f"--{name} needs a value: --{name}=...")
    fields = {path for cfg in stages for path, _ in configuration.leaves(cfg)}
    for key in (word.removeprefix("--").partition("=")[0].replace("-", "_") for word in rest):
        near = difflib.get_close_matches(key, names, 1, 0.7)
        if near and "." not in key and key not in fields:
            raise ValueError(f"unknown option --{key}; did you mean --{near[0]}?")
