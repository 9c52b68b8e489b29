"""The gradient of a learner's step: an optimizer that records it, and the distance of two."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from spicejax.learn.learner import init_state

RECORDER = optax.GradientTransformation(  # keeps the gradient as its state and changes no parameter
    init=lambda params: jax.tree.map(jnp.zeros_like, params),
    update=lambda updates, state, params=None: (jax.tree.map(jnp.zeros_like, updates), updates),
)


def measure(learner, params, batch, used) -> tuple[dict, dict]:
    """Metrics and gradient of one step, which takes `params`."""
    state, metrics = learner.step(init_state(params, RECORDER), batch, used)
    return {k: float(v) for k, v in metrics.items()}, jax.device_get(state.opt_state)


def difference(a, b) -> float:
    """Largest difference of two trees, relative to the largest element of the first."""
    scale = max(np.abs(x).max() for x in jax.tree.leaves(a))
    return max(np.abs(x - y).max() for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)) / scale
