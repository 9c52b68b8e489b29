"""A model as lm-evaluation-harness sees one: any of its tasks asks our sampler and our training pass, in this process.

This module is the extra `eval`; `spicejax evaluate --harness=TASK` alone imports it.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from lm_eval import evaluator
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.tasks import TaskManager
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window, make_table

from spicejax.generate.layout import Buckets
from spicejax.generate.player import Player
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.stops import also
from spicejax.models import transformer
from spicejax.text.tokens import Tokenizer
from spicejax.types import Params

# A chat on its way through the harness, which knows prompts as text: our template renders it where it is encoded, so
# that what a task says never becomes a control token.
_CHAT = re.compile("\0chat(.*?)\0", re.DOTALL)
_SHORTEST = 64  # tokens of a row; longer ones by doubling
_POSITIONS = 64  # whose scores of the whole vocabulary exist at a time
_SAMPLING = {"temperature", "top_k", "top_p", "min_p"}
_IGNORED = {"until", "max_gen_toks", "do_sample"}


class Model(TemplateLM):
    """The harness's interface to a player."""

    def __init__(self, player: Player, tokenizer: Tokenizer, *, rows: int = 8, longest: int = 4096) -> None:
        """Take a player.

        Args:
          rows: prompts that are computed together.
          longest: most tokens of a row, of which the last are kept; a model made for fewer keeps fewer.
        """
        super().__init__()
        self.player, self.text, self.rows = player, tokenizer, rows
        self.max_length = min(longest, player.cfg.max_position)

    @property
    def eot_token_id(self) -> int:
        return self.text.eos_ids[0]

    @property
    def prefix_token_id(self) -> int:
        """What the first token of a text without a context follows."""
        return self.eot_token_id if self.text.bos_id is None else self.text.bos_id

    @property
    def tokenizer_name(self) -> str:
        return self.text.fingerprint()

    def chat_template(self, chat_template: bool | str = False) -> str:
        return self.text.chat.source if chat_template and self.text.chat else ""

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The chat for `tok_encode`; where no turn is to be opened, the last one is the begin of the reply."""
        begun = "" if add_generation_prompt else chat_history[-1]["content"]
        history = chat_history if add_generation_prompt else chat_history[:-1]
        return f"\0chat{json.dumps(history)}\0{begun}"

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        """Ids of plain text, BOS in front where the family puts one there, and of chats in it."""
        head, *rest = _CHAT.split(string)
        plain = self.text.encode if rest or add_special_tokens is False else self.text.encode_raw
        ids = plain(head) if head or not rest else []
        for chat, after in zip(rest[::2], rest[1::2], strict=True):
            ids += [*self.player.render(json.loads(chat)), *self.text.encode(after)]
        return ids

    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], **_: Any
    ) -> list[tuple[float, bool]]:
        """Log-likelihood of each continuation, and whether it is what greedy decoding writes."""
        kept = [([*context, *wanted][-self.max_length - 1 :], len(wanted)) for _, context, wanted in requests]
        found: dict[int, tuple[float, bool]] = {}
        order = sorted(range(len(kept)), key=lambda k: len(kept[k][0]))
        for first in range(0, len(order), self.rows):
            members = order[first : first + self.rows]
            length = max(_SHORTEST, 1 << (len(kept[members[-1]][0]) - 1).bit_length())
            tokens, wanted = np.zeros((2, self.rows, length), np.int32)
            for row, k in enumerate(members):
                ids, count = kept[k]
                tokens[row, : len(ids)] = ids
                wanted[row, max(len(ids) - count, 1) : len(ids)] = 1
            sums, greedy = jax.device_get(_scored(self.player.cfg, self.player.params, tokens, wanted))
            found |= {k: (float(sums[row]), bool(greedy[row])) for row, k in enumerate(members)}
            self.player.progress(len(found), len(kept))
        return [found[k] for k in range(len(kept))]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Log-likelihood of each whole text, in windows of the model's length."""
        sums = []
        for request in requests:
            ids = self.tok_encode(request.args[0], add_special_tokens=False)
            windows = get_rolling_token_windows(ids, self.prefix_token_id, self.max_length, 1)
            pairs = [(("", ""), *make_disjoint_window(window)) for window in windows]
            sums.append(sum(logprob for logprob, _ in self._loglikelihood_tokens(pairs)))
        return sums

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Write behind each context, until a stop string or the most tokens that its task allows.

        Raises: ValueError for a setting of a task that our sampler does not know.
        """
        alike = collections.defaultdict(list)
        asked: list[tuple[Any, ...]] = [request.args for request in requests]
        for place, (_, settings) in enumerate(asked):
            alike[json.dumps(normalize_gen_kwargs(dict(settings)), sort_keys=True)].append(place)
        texts = [""] * len(requests)
        for number, (settings, places) in enumerate(alike.items()):
            written = self._write([asked[k][0] for k in places], json.loads(settings), number)
            for place, text in zip(places, written, strict=True):
                texts[place] = text
        return texts

    def _write(self, contexts: Sequence[str], settings: dict[str, Any], stream: int) -> list[str]:
        if unknown := settings.keys() - _SAMPLING - _IGNORED:
            known = ", ".join(sorted(_SAMPLING | _IGNORED))
            raise ValueError(f"generation_kwargs: {min(unknown)} is not supported; a task may set {known}")
        most = settings["max_gen_toks"]
        room = max(self.max_length - most, 1)
        prompts = [self.tok_encode(context)[-room:] or [self.prefix_token_id] for context in contexts]
        longest = max(map(len, prompts))
        buckets = [_SHORTEST << k for k in range(16) if _SHORTEST << k < 2 * longest] or [_SHORTEST]
        stop = self.player.stop
        if until := tuple(dict.fromkeys(filter(None, settings["until"]))):
            stop = also(stop, until)
        player = dataclasses.replace(
            self.player, stop=stop, buckets=Buckets(tuple(buckets), min(self.rows, len(prompts)))
        )
        drawn = {name: settings[name] for name in _SAMPLING & settings.keys()}
        rows = player.respond(
            prompts,
            samples=1,
            first_row=range(len(prompts)),
            key=jax.random.key(stream),
            settings=SamplerConfig(**drawn) if settings.get("do_sample") else SamplerConfig(temperature=0.0),
            max_new=most,
        )
        return [rollout.text for (rollout,) in rows]


@functools.partial(jax.jit, static_argnums=0)
def _scored(
    cfg: transformer.TransformerConfig, params: Params, tokens: Int[Array, "B T"], wanted: Int[Array, "B T"]
) -> tuple[Float[Array, " B"], Bool[Array, " B"]]:
    """Sum of each row's wanted tokens' log-likelihoods, and whether each of them is the likeliest there."""
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    hidden = transformer.hidden_states(cfg, params, tokens, positions, segment_ids=jnp.ones_like(tokens))
    before, labels = hidden[:, :-1].reshape(-1, hidden.shape[-1]), tokens[:, 1:].reshape(-1)
    short = -len(labels) % _POSITIONS
    pieces = (
        jnp.pad(before, ((0, short), (0, 0))).reshape(-1, _POSITIONS, before.shape[-1]),
        jnp.pad(labels, (0, short)).reshape(-1, _POSITIONS),
    )

    def score(piece: tuple[Array, Array]) -> tuple[Array, Array]:
        scores = transformer.logits(cfg, params, piece[0])
        said = jnp.take_along_axis(scores, piece[1][:, None], axis=-1)[:, 0]
        return said - jax.nn.logsumexp(scores, axis=-1), said >= scores.max(-1)

    logprobs, likeliest = (
        found.reshape(-1)[: len(labels)].reshape(tokens.shape[0], -1) for found in jax.lax.map(score, pieces)
    )
    counted = wanted[:, 1:] > 0
    return jnp.sum(logprobs * counted, axis=1), jnp.all(likeliest | ~counted, axis=1)


def open_tasks(tasks: Sequence[str], folder: Path | None = None) -> TaskManager:
    """The harness's tasks, and those of a folder of your own. Raises ValueError where one of `tasks` is not there."""
    manager = TaskManager(include_path=str(folder) if folder else None)
    if missing := [task for task in tasks if not manager.match_tasks([task])]:
        where = f"nor has {folder}" if folder else "and --tasks=FOLDER brings your own"
        raise ValueError(f"--harness={missing[0]}: lm-eval has no such task, {where} (lm-eval ls tasks lists them)")
    return manager


def run(
    model: Model, tasks: Sequence[str], manager: TaskManager, *, most: int = 0, chat: bool = False
) -> dict[str, Any]:
    """Ask tasks of the harness by their names.

    Args:
      most: the first so many questions of each; 0 = all.
      chat: ask by the model's chat template.
    Returns: the harness's results; the samples of each task under "samples", its table as text under "table".
    """
    found: Any = evaluator.simple_evaluate(
        model, tasks=list(tasks), task_manager=manager, limit=most or None, apply_chat_template=chat
    )
    return found | {"table": make_table(found)}
