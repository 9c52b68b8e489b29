"""Weights on a mesh: where parameters lie, the sampler copy, the memory of a token's KV entries.

The learner's mesh splits parameters and rows; the sampler's may split heads instead. One jitted program per iteration
copies the parameters into the sampler's layout and precision. Activations are pinned (`sharding.activations`): left
alone, XLA splits the residual stream as the parameters are and turns gathers of weights into all-reduces of
activations.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
from jax.sharding import Mesh

from spicejax import sharding
from spicejax.models import cache as caching
from spicejax.models import quantized, transformer
from spicejax.models.transformer import TransformerConfig
from spicejax.types import Params

Precision = Literal["compute", "int8"]  # of the sampler copy: the forward pass's, or 8-bit matrices with scales
Tree = Any  # of jax.ShapeDtypeStruct with shardings


def _laid(model: TransformerConfig, mesh: sharding.AnyMesh, shapes: Tree) -> Tree:
    places = sharding.param_shardings(mesh, transformer.param_axes(model), shapes)
    return jax.tree.map(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), shapes, places)


def parameters(model: TransformerConfig, mesh: sharding.AnyMesh) -> Tree:
    """The parameters as abstract arrays, split over the mesh."""
    return _laid(model, mesh, transformer.abstract_params(model))


def shardings(tree: Tree) -> Any:
    """Where each array of a tree lies."""
    return jax.tree.map(lambda x: x.sharding, tree)


def sampled(model: TransformerConfig) -> TransformerConfig:
    """The model as the sampler holds it: weights in the precision of the forward pass."""
    return dataclasses.replace(model, param_dtype=model.dtype)


def copied(model: TransformerConfig, mesh: sharding.AnyMesh, precision: Precision = "compute") -> Tree:
    """The sampler copy as abstract arrays."""
    model = sampled(model)
    shapes = jax.eval_shape(functools.partial(_copy, model.dtype, precision), transformer.abstract_params(model))
    return _laid(model, mesh, shapes)


def copier(model: TransformerConfig, mesh: Mesh, precision: Precision = "compute") -> Callable[[Params], Params]:
    """The jitted function from the learner's parameters to the sampler copy."""
    places = shardings(copied(model, mesh, precision))
    return jax.jit(functools.partial(_copy, model.dtype, precision), out_shardings=places)


def _copy(dtype: transformer.DType, precision: Precision, params: Params) -> Params:
    if precision == "int8":
        return quantized.quantize(params, dtype)
    return jax.tree.map(lambda p: p.astype(dtype), params)


def token_bytes(model: TransformerConfig, mesh: sharding.AnyMesh, dtype: caching.CacheDtype) -> float:
    """Bytes per device of one token's KV entries: heads are split over `tensor` if they divide, else replicated."""
    ways = mesh.shape["tensor"] if model.num_kv_heads % mesh.shape["tensor"] == 0 else 1
    return caching.token_bytes(model.num_layers, model.num_kv_heads, model.head_dim, dtype) / ways
