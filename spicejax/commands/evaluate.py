"""Evaluate a model or a run on questions with known answers, as they are asked in training.

spicejax evaluate --model=runs/search_r1_nano --questions=QUESTIONS.jsonl
spicejax evaluate --model=FOLDER --config=search_r1_qwen7b --questions=nq.jsonl \
    retrieval.index=INDEX retrieval.encoder=FOLDER --out=results/nq

--model is the work folder of a run (of a chain: its last stage with a policy), whose own configuration is taken, or
what model.path takes together with --config, which says how questions are asked and where searches go. a.b=c changes
any field of it. Greedy. Prints exact match (near: numbers may be 0.15 % off), F1, cover exact match in its three
meanings, the verifier's word and whether the answer stands anywhere in the text, each with its 95 % bootstrap interval.
--out keeps them: scores.json, and items.jsonl with every answer and transcript.

--benchmarks=NAME,... asks the papers' benchmarks in place of --questions, from the published files that you put into
--data_dir (a missing one is told with its source); prints their table, in percent, beside what was reported. --out gets
it as table.md and table.tex too.

--judge asks a model whether an answer means the same as a right one: the evaluated one itself, another (FOLDER, as
model.path takes it), or that of an OpenAI-compatible server (judge.url=http://HOST:PORT/v1 judge.model=NAME).

--versus=FOLDER compares with what --out kept of another evaluation on the same questions, question by question: the
differences, their intervals, McNemar's test. --results=FOLDER in place of --model takes a kept one and asks nothing.

--rollouts=N grades the questions instead: each is answered, sampled, until an answer is right, N times at most. Prints
how many are easy (below 10), medium and hard (above 20); --out gets questions.jsonl, which can be a --corpus again.

--harness=TASK,... asks tasks of lm-evaluation-harness (pip install "spicejax[eval]") in place of --questions: --model
is a run or a model, which needs no --config; --tasks=FOLDER brings task files of your own, --chat asks by the chat
template, --most bounds each task. Their data comes from the Hub, or from the files that a task of yours names.

--examples=FILE asks nothing: it prints the mean negative log-likelihood of the given replies' tokens, source by source.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from spicejax import configs
from spicejax.commands import Parser
from spicejax.data import benchmarks, questions
from spicejax.data.examples import load_examples
from spicejax.evaluation import scores, suites, versus
from spicejax.models.transformer import DType
from spicejax.run import evaluate, golds, preflight, respond
from spicejax.run.store import export
from spicejax.score.verifiers import Verifier


def main(argv: Sequence[str]) -> None:
    """Evaluate."""
    parser = Parser(__name__, __doc__)
    answered = parser.add_mutually_exclusive_group(required=True)
    answered.add_argument("--model", help="work folder of a run, or what model.path takes")
    answered.add_argument("--results", type=Path, help="what --out=FOLDER wrote, or a run: nothing is asked again")
    parser.add_argument(
        "--config",
        default="",
        help="recipe of configs/; of a chain its last run. A run has its own; where its game is yours, give its file",
    )
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--questions", help='jsonl of {"question", "answer"}, or facts:NAME')
    asked.add_argument("--benchmarks", help=f"with commas between them: {', '.join(benchmarks.BENCHMARKS)}")
    asked.add_argument("--harness", help="tasks of lm-evaluation-harness, with commas between them")
    asked.add_argument("--examples", help='jsonl of {"prompt", "completion", "source"}, or folder of spicejax mix')
    parser.add_argument("--data_dir", type=Path, default=Path("benchmarks"), help="folder with the benchmarks' files")
    parser.add_argument("--most", type=int, default=0, help="the first so many questions; 0 = all")
    parser.add_argument("--tasks", type=Path, help="with --harness: folder with task files of your own")
    parser.add_argument("--chat", action="store_true", help="with --harness: ask by the model's chat template")
    parser.add_argument("--rollouts", type=int, default=0, help="grade by the answers it takes, this many at most")
    parser.add_argument("--judge", default="", help="also ask whether answers mean the same: self, FOLDER, or server")
    parser.add_argument(
        "--out", type=Path, help="folder for scores.json and items.jsonl; of --harness results.json and samples"
    )
    parser.add_argument("--versus", type=Path, help="another such folder, to compare with question by question")
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")
    options, rest = parser.parse_known_args(argv)
    result = harness(options, rest) if options.harness else run(options, rest)
    if options.harness:
        print(json.dumps(result["results"]) if options.json else result["table"])
    elif options.json or options.rollouts or options.examples:
        print(json.dumps(result))
    elif "benchmarks" in result:
        print(suites.markdown(result["model"], result["benchmarks"]))
    else:
        print(scores.table(result["scores"], result["questions"]))
    if options.versus and not options.json:
        print(f"\nless {options.versus}:\n")
        print(versus.table(result["versus"]["scores"], result["questions"]))


def harness(options: argparse.Namespace, rest: Sequence[str]) -> dict[str, Any]:
    """Ask tasks of lm-evaluation-harness and write results.json, and samples_TASK.jsonl for each."""
    other = [f"--{name}" for name in ("config", "rollouts", "judge", "versus", "results") if getattr(options, name)]
    dtypes = {f"model.dtype={name}": name for name in get_args(DType)}
    if unused := other + [word for word in rest if word not in dtypes]:
        raise ValueError(f"--harness={options.harness} takes no {unused[0]}; of fields it takes model.dtype alone")
    if importlib.util.find_spec("lm_eval") is None:
        raise ImportError('--harness needs lm-evaluation-harness: pip install "spicejax[eval]"')
    if options.most < 0:
        raise ValueError(f"--most={options.most}: give 1 or more, or 0 for all")
    if options.tasks and not options.tasks.is_dir():
        raise ValueError(f"--tasks={options.tasks}: there is no such folder; give one with task files (YAML)")
    if options.out:
        preflight.require_folder(options.out, "--out")
    from spicejax.evaluation import harness as harness_of

    tasks = options.harness.split(",")
    manager = harness_of.open_tasks(tasks, options.tasks)
    workdir = export.find_run(Path(options.model))
    dtype = dtypes[rest[-1]] if rest else "float32"
    loaded = respond.load(options.model, workdir, dtype, sys.stderr)
    model = harness_of.Model(loaded.player, loaded.chat_format.tokenizer)
    result = harness_of.run(model, tasks, manager, most=options.most, chat=options.chat)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in result.items() if name not in ("samples", "table")}
        (options.out / "results.json").write_text(json.dumps(kept, indent=1, default=str) + "\n", encoding="utf-8")
        for task, samples in result.get("samples", {}).items():
            lines = "".join(json.dumps(sample, default=str) + "\n" for sample in samples)
            (options.out / f"samples_{task}.jsonl").write_text(lines, encoding="utf-8")
    return result


def run(options: argparse.Namespace, rest: Sequence[str]) -> dict[str, Any]:
    """Evaluate and write what is to be kept."""
    if options.versus and (options.rollouts or options.examples):
        raise ValueError(f"--versus={options.versus} compares answers; leave --rollouts and --examples out")
    if options.judge and (options.rollouts or options.examples):
        raise ValueError(f"--judge={options.judge} judges answers; leave --rollouts and --examples out")
    if options.rollouts and options.examples:
        raise ValueError(f"--rollouts={options.rollouts} grades questions; leave --examples out")
    if options.tasks or options.chat:
        raise ValueError(f"{'--chat' if options.chat else '--tasks'} belongs to --harness=TASK")
    others = versus.load(options.versus) if options.versus else []
    if options.results:
        names = ("questions", "benchmarks", "examples", "config", "most", "rollouts", "judge", "out")
        if unused := [f"--{name}" for name in names if getattr(options, name)] + list(rest):
            raise ValueError(f"--results={options.results} asks nothing again; leave {', '.join(unused)} out")
        return _summary(str(options.results), None, versus.load(options.results), options.versus, others)
    if not (options.questions or options.examples or options.benchmarks):
        raise ValueError("--questions=QUESTIONS.jsonl is missing (or --benchmarks=NAME,... or --examples=FILE)")
    if options.rollouts < 0 or options.most < 0:
        raise ValueError(f"--rollouts={options.rollouts} --most={options.most}: give 1 or more, or 0 for none")
    if options.out:
        preflight.require_folder(options.out, "--out")
    recipe = configs.stages(options.config)[-1] if options.config else None
    cfg, trained = evaluate.config_for(options.model, recipe, rest)
    examples = load_examples(options.examples)[: options.most or None] if options.examples else []
    items = questions.load_suites(options.questions, options.most) if options.questions else []
    files = benchmarks.find(options.benchmarks.split(","), options.data_dir) if options.benchmarks else {}
    for name, path in files.items():
        items += benchmarks.load(name, path, options.most)
    if others:
        versus.require_same([(item.task.id, item.task.question) for item in items], others)
    if items:
        sets = {str(path): [item for item in items if item.suite == name] for name, path in files.items()}
        with Verifier(workers=cfg.verifier_workers, function=cfg.verifier) as verifier:
            for where, asked in (sets or {options.questions: items}).items():
                golds.require_questions(where, asked, verifier)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    if options.examples:
        result = evaluate.likelihood(cfg, examples, trained, stream=sys.stderr)
        if options.out:
            (options.out / "likelihood.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        return result
    several = ((name, benchmarks.BENCHMARKS[name]) for name in files)
    drawn = {name: (each.samples, each.temperature) for name, each in several if each.samples > 1}
    asking: dict[str, Any] = {"rollouts": options.rollouts, "judge": options.judge, "drawn": drawn}
    records = evaluate.evaluate(cfg, items, trained, **asking, stream=sys.stderr)
    if options.rollouts:
        if options.out:
            _write(options.out / "questions.jsonl", records)
        return dict(collections.Counter(record["difficulty"] for record in records))
    if options.out:
        _write(options.out / versus.ITEMS, records)
    result = _summary(options.model, options.questions, records, options.versus, others)
    if options.out and files:
        for ending, write in (("md", suites.markdown), ("tex", suites.latex)):
            text = write(options.model, result["benchmarks"]) + "\n"
            (options.out / f"table.{ending}").write_text(text, encoding="utf-8")
    if options.out:
        (options.out / "scores.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def _summary(
    model: str,
    asked: str | None,
    records: Sequence[dict[str, Any]],
    other: Path | None,
    others: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Means of the records, or of those of each benchmark its score, and what they are beside others."""
    of_benchmarks = all(record.get("suite") in benchmarks.BENCHMARKS for record in records)
    result: dict[str, Any] = {"model": model, "questions": len(records)}
    if of_benchmarks:
        result |= {"benchmarks": suites.summary(records)}
    else:
        result |= {"set": asked, "scores": scores.means(records)}
    if other is None:
        return result
    compared = (suites.compare if of_benchmarks else versus.compare)(records, others)
    return result | {"versus": {"results": str(other), "scores": compared}}


def _write(path: Path, records: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
