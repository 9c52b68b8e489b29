"""Weights of the sampler in 8 bits: int8 matrices with one scale for each layer and output channel, by qwix."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from spicejax.models.lora import MATRICES

Params = dict[str, Any]
Matrix = Any  # a jax.Array, or a qwix.QArray of the same shape


def quantize(params: Params, dtype: DTypeLike) -> Params:
    """The parameters in `dtype`, but the matrices of attention and MLP as `qwix.QArray`: int8 and a float32 scale.

    Each output channel has its scale, which makes its largest entry 127.

    Raises: ModuleNotFoundError where qwix is not installed.
    """
    try:
        import qwix  # an extra
    except ModuleNotFoundError as error:
        if error.name != "qwix":
            raise
        raise ModuleNotFoundError("int8 weights need qwix, not installed here: pip install 'spicejax[int8]'") from None
    plain = jax.tree.map(lambda p: p.astype(dtype), params)
    layers = {module: dict(leaves) for module, leaves in plain["layers"].items()}
    for name, (module, contracted) in MATRICES.items():
        matrix = params["layers"][module][name].astype(jnp.float32)  # [L, in.., out..]
        channels = (0, *range(1 + contracted, matrix.ndim))
        layers[module][name] = qwix.quantize(matrix, jnp.int8, channelwise_axes=channels)
    return {**plain, "layers": layers}


def einsum(spec: str, x: Float[Array, "..."], matrix: Matrix, inner: int = 1) -> Float[Array, "..."]:
    """`jnp.einsum` in the precision of x. Of a quantized matrix the scale multiplies the product.

    Args:
      inner: leading axes of the matrix that are contracted; the others end the result.
    """
    if isinstance(matrix, jax.Array):
        return jnp.einsum(spec, x, matrix.astype(x.dtype))
    product = jnp.einsum(spec, x, matrix.qvalue.astype(x.dtype))  # summed over devices in the precision of x
    return (product * jnp.squeeze(matrix.scale, tuple(range(inner)))).astype(x.dtype)
