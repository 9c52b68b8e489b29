"""spicejax: language models that train against themselves on a text corpus, in JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spicejax.games.game import Reply

__version__ = "0.1.0"


def answer(
    model: str, questions: Sequence[str], *, context: str = "", config: str = "", changes: Sequence[str] = ()
) -> list[Reply]:
    """Answer questions as the model's game does, greedy: at once, by searching, or by a plan (launch/ask.py).

    Args:
      model: the work folder of a run or of a chain, or what model.path takes.
      context: the text that the questions are about, for games that show one.
      config: a recipe of configs/, of a chain its last run; a run has its own.
      changes: fields of it, "a.b=c", as on the command line.
    Raises: as run.evaluate.opened; ValueError for a question too long for the model's longest prompt.
    """
    # Imported here, so that `import spicejax` starts nothing.
    from spicejax import configs
    from spicejax.run import evaluate
    from spicejax.types import Task

    recipe = configs.stages(config)[-1] if config else None
    cfg, run = evaluate.config_for(model, recipe, list(changes))
    tasks = [Task(question, "", "String", context=context) for question in questions]
    return evaluate.answer(cfg, tasks, run)
