"""Weights of the sampler in 8 bits: int8 matrices with one scale for each layer and output channel, by qwix."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from spicejax.models import products
from spicejax.models.lora import MATRICES, Params

Matrix = Any  # a jax.Array, or a qwix.QArray of the same shape


def quantize(params: Params, dtype: DTypeLike) -> Params:
    """The parameters in `dtype`, but the matrices of attention and MLP as `qwix.QArray`: int8 and a float32 scale.

    Each output channel has its scale, which makes its largest entry 127.

    Raises: ModuleNotFoundError where qwix is not installed.
    """
    try:
        import qwix  # an extra
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("int8 weights need qwix, not installed here: pip install 'spicejax[int8]'") from error
    plain = jax.tree.map(lambda p: p.astype(dtype), params)
    layers = {module: dict(leaves) for module, leaves in plain["layers"].items()}
    for name, (module, contracted) in MATRICES.items():
        matrix = params["layers"][module][name].astype(jnp.float32)  # [L, in.., out..]
        channels = (0, *range(1 + contracted, matrix.ndim))
        layers[module][name] = qwix.quantize(matrix, jnp.int8, channelwise_axes=channels)
    return {**plain, "layers": layers}


def project(x: Float[Array, "B T *_"], matrix: Matrix, inner: int = 1) -> Float[Array, "B T *_"]:
    """Contract the last axes of x with the first of the matrix, in the precision of x; a scale multiplies the product.

    Args:
      x: [B, T, in..], `inner` axes in.
      matrix: [in.., out..]; the result is [B, T, out..].
      inner: axes of the matrix that are contracted, 1 or 2.
    """
    if isinstance(matrix, jax.Array):
        return products.contract(x, matrix, inner)
    product = products.contract(x, matrix.qvalue, inner)
    return (product * jnp.squeeze(matrix.scale, tuple(range(inner)))).astype(x.dtype)
