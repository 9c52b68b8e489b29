"""How likely a policy finds given replies, source by source."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spicejax.games.game import Exam
from spicejax.games.world import World
from spicejax.models import transformer
from spicejax.types import Example, Params

_ROWS = 8  # that are computed together
_SHORTEST = 64  # tokens of a row; longer ones by doubling
_CHUNK = 8192  # vocabulary entries at a time


def losses(world: World, exam: Exam, examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """Mean negative log-likelihood of a reply's token, in nats, of each source ("" = untold) and of all ("all").

    What an example was shown between its turns is no token of the reply; the end of the turn is.

    Args:
      exam: whose seat's policy, tokenizer and chat template are taken, and how a question is asked.
    """
    player = world.players[exam.role]
    rollouts = [world.given(exam.role, example, exam.ask) for example in examples]
    longest = [len(r.prompt_ids) + len(r.token_ids) for r in rollouts]
    sums = np.zeros(len(rollouts))
    order = np.argsort(longest, kind="stable")
    for first in range(0, len(order), _ROWS):
        members = order[first : first + _ROWS]
        length = max(_SHORTEST, 1 << (longest[members[-1]] - 1).bit_length())
        tokens, weight = np.zeros((2, _ROWS, length), np.int32)
        for row, k in enumerate(members):
            prompt, reply = rollouts[k].prompt_ids, rollouts[k].token_ids
            tokens[row, : longest[k]] = [*prompt, *reply]
            weight[row, len(prompt) : longest[k]] = rollouts[k].loss_mask
        sums[members] = np.asarray(_nll(player.cfg, player.params, tokens, weight))[: len(members)]
    counts = np.array([int(r.loss_mask.sum()) for r in rollouts])
    names = np.array([example.source for example in examples])
    chosen = {name: names == name for name in sorted(set(names))} | {"all": np.ones(len(names), bool)}
    return {
        name: {
            "loss": float(sums[members].sum() / counts[members].sum()),
            "tokens": int(counts[members].sum()),
            "examples": int(members.sum()),
        }
        for name, members in chosen.items()
    }


@functools.partial(jax.jit, static_argnums=0)
def _nll(cfg: transformer.TransformerConfig, params: Params, tokens: Any, weight: Any) -> jax.Array:
    """Sum over each row, [B] float32, of the replies' tokens' negative log-likelihoods."""
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    hidden = transformer.hidden_states(cfg, params, tokens, positions, segment_ids=jnp.ones_like(tokens))
    scored = transformer.token_logprobs(cfg, params, hidden[:, :-1], tokens[:, 1:], temperature=1.0, chunk=_CHUNK)
    return -jnp.sum(scored * weight[:, 1:], axis=1)
