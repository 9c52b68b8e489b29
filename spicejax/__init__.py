"""spicejax: language models that train against themselves on a text corpus, in JAX.

Each function here is a command of the same name, docs/python.md; only `respond` is called `generate` there.
"""

# What they do is imported inside them, so that `import spicejax` starts nothing.
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from spicejax.games.game import Reply
    from spicejax.run.config import RunConfig
    from spicejax.types import Rollout

__version__ = "0.1.0"


def train(
    config: str | RunConfig | tuple[RunConfig, ...],
    workdir: str | Path,
    changes: Sequence[str] = (),
    *,
    resume: Literal["auto", "never", "restart"] | int = "auto",
) -> dict[str, Any]:
    """Train in a work folder and write its report; the same call goes on where it was stopped.

    Args:
      config: a recipe by its name, a file with one, or a configuration made in code; several are a chain.
      changes: fields of it, "a.b=c", as on the command line.
      resume: see run.chain.run.
    Returns: the summary of the run, of a chain of its last one; "complete" is False where a signal stopped it, saved.
    Raises: ValueError, OSError and ImportError for what is wrong, before anything slow starts; interrupt.Stopped where
      a signal comes while a model is loaded or between two runs of a chain.
    """
    from spicejax import configs
    from spicejax.run import chain

    stages = configs.stages(config) if isinstance(config, str) else config if isinstance(config, tuple) else (config,)
    stages = chain.override(stages, changes)
    chain.require(stages, Path(workdir), restart=resume == "restart")
    return chain.run(stages, Path(workdir), resume=resume)


def evaluate(
    model: str | Path,
    questions: str | Path,
    *,
    config: str = "",
    changes: Sequence[str] = (),
    most: int = 0,
    progress: TextIO | None = None,
) -> dict[str, Any]:
    """Score a model on questions with known answers, greedy, as its game asks them.

    Args:
      model, config, changes, progress: see `answer`.
      questions: a file or set, as for eval.tasks.
      most: the first so many; 0 = all.
    Returns: {"scores": name -> mean, low and high of the 95 % interval, "items": a record a question, see
      evaluation.scores.examine}.
    """
    from spicejax.data.questions import load_suites
    from spicejax.evaluation import scores
    from spicejax.run import evaluate

    cfg, run = evaluate.config_for(str(model), _recipe(config), list(changes))
    records = evaluate.evaluate(cfg, load_suites(str(questions), most), run, stream=progress)
    return {"scores": scores.means(records), "items": records}


def answer(
    model: str | Path,
    questions: Sequence[str],
    *,
    context: str = "",
    config: str = "",
    changes: Sequence[str] = (),
    progress: TextIO | None = None,
) -> list[Reply]:
    """Answer questions as the model's game does, greedy: at once, by searching, or by a plan.

    Args:
      model: the work folder of a run or of a chain, or what model.path takes.
      context: the text that the questions are about, for games that show one.
      config: a recipe of configs/, of a chain its last run; a run has its own.
      changes: fields of it, "a.b=c", as on the command line.
      progress: where it is shown how far it is, such as sys.stderr; None = nowhere.
    Raises: as run.evaluate.opened; ValueError for an empty question, or one too long for the model's longest prompt.
    """
    from spicejax.run import evaluate
    from spicejax.types import Task

    cfg, run = evaluate.config_for(str(model), _recipe(config), list(changes))
    tasks = [Task(question, "", "String", context=context) for question in questions]
    return evaluate.answer(cfg, tasks, run, stream=progress)


def respond(
    model: str | Path, prompts: Sequence[str], *, max_new: int = 128, temperature: float = 0.0, seed: int = 0
) -> list[Rollout]:
    """Respond to prompts: each is a user's turn, in the model's own template.

    Args:
      model: see `answer`.
      max_new: most new tokens.
      temperature: 0 = greedy.
    Returns: one response each, with its text, token ids and log-probabilities.
    """
    from spicejax.generate.sampler import SamplerConfig
    from spicejax.run import respond
    from spicejax.run.store import export

    run = export.find_run(Path(model))
    found = respond.load(str(model), run)
    asked = [found.player.render([{"role": "user", "content": prompt}]) for prompt in prompts]
    return respond.Responder(found.player, SamplerConfig(temperature), max_new, seed).respond(asked)


def export(run: str | Path, out: str | Path) -> Path:
    """Write the newest policy of a run, of a chain of its last one, as a Hugging Face folder with a model card."""
    from spicejax.models import exported, hf
    from spicejax.report import card
    from spicejax.run.store import export

    found, out = export.find_run(Path(run)) or Path(run), Path(out)
    export.require_exports(found, out)
    exported.require(out, hf.WEIGHTS)
    name = out.resolve().name
    export.write_policy(found, out, lambda folder, step: card.write(folder, found, step=step, name=name))
    return out


def _recipe(config: str) -> RunConfig | None:
    from spicejax import configs

    return configs.load(config) if config else None
