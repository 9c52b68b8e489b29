"""Products of activations with matrices, accumulated in float32 on every backend, forward and backward."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Num

NAME = "product"  # of products in bfloat16, for policies of what `jax.checkpoint` keeps


def contract(x: Float[Array, "B T *_"], matrix: Num[Array, "*_"], inner: int = 1) -> Float[Array, "B T *_"]:
    """Contract the last `inner` axes of x [B, T, in..] with the first of the matrix [in.., out..], in dtype of x.

    The matrix may be the `bits` of one.
    """
    width, matrix = math.prod(matrix.shape[:inner]), of_bits(matrix)
    # Two axes each: over more, XLA:CPU transposes activations before the product of a weight's gradient, which takes
    # longer than the product, or weights before the product itself.
    tokens = x.reshape(-1, width)
    if inner > 1 and x.shape[1] == 1:
        # A decode step. Without this, XLA:TPU reads an int8 cache at the cost of one in full precision.
        tokens = jax.lax.optimization_barrier(tokens)
    product = matmul(tokens, matrix.astype(x.dtype).reshape(width, -1))
    return product.reshape(*x.shape[: x.ndim - inner], *matrix.shape[inner:])


def bits(x: Num[Array, "*_"]) -> Num[Array, "*_"]:
    """What is in bfloat16 as uint16, anything else as it is. No gradient passes.

    XLA:CPU makes float32 of a stack of matrices in bfloat16 before a loop over them, and of a table before a loop that
    looks things up in it, which takes twice the memory and loses the processor's own products; of bits it does not.
    """
    return jax.lax.bitcast_convert_type(x, jnp.uint16) if x.dtype == jnp.bfloat16 else x


def of_bits(x: Num[Array, "*_"]) -> Num[Array, "*_"]:
    """Back from `bits`."""
    return jax.lax.bitcast_convert_type(x, jnp.bfloat16) if x.dtype == jnp.uint16 else x


def matmul(x: Float[Array, "N K"], matrix: Float[Array, "K M"]) -> Float[Array, "N M"]:
    """x times the matrix, accumulated in float32, in the dtype of x; so are the products of its gradients.

    XLA:CPU multiplies bfloat16 natively only where the product is asked for in float32. Else it makes float32 of both
    sides first, which takes twice as long where the processor has products of its own for bfloat16.
    """
    return checkpoint_name(_matmul(x, matrix), NAME) if x.dtype == jnp.bfloat16 else x @ matrix


def _dot(a: Array, b: Array, axes: tuple[int, int]) -> Array:
    """Contract one axis of each; the product in the dtype they share."""
    dims = (((axes[0],), (axes[1],)), ((), ()))
    return jax.lax.platform_dependent(
        a,
        b,
        cpu=lambda a, b: jax.lax.dot_general(a, b, dims, preferred_element_type=jnp.float32).astype(a.dtype),
        default=lambda a, b: jax.lax.dot_general(a, b, dims),
    )


@jax.custom_vjp
def _matmul(x: Array, matrix: Array) -> Array:
    return _dot(x, matrix, (1, 0))


def _forward(x: Array, matrix: Array) -> tuple[Array, tuple[Array, Array]]:
    return _dot(x, matrix, (1, 0)), (x, matrix)


def _backward(kept: tuple[Array, Array], grad: Array) -> tuple[Array, Array]:
    x, matrix = kept
    return _dot(grad, matrix, (1, 1)), _dot(x, grad, (0, 0))


_matmul.defvjp(_forward, _backward)
