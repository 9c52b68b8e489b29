"""The one decoder: its config, parameters, training pass, cached pass, logits and token log-probabilities."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from spicejax.models import lora, products
from spicejax.models.attention import Slots
from spicejax.models.cache import Context, KVCache
from spicejax.models.config import DType as DType
from spicejax.models.config import TransformerConfig
from spicejax.models.layers import INIT_STD, Attention, GatedMLP, RMSNorm, View, constrain, rope_tables
from spicejax.models.lora import Params
from spicejax.models.scoring import front_logprobs, label_logprobs, masked


class Block(nn.Module):
    """One layer as the body of a scan: x is carried, `layer` and the returned keys run over layers.

    `layer` is the layer's caches, and whether it slides where `views` has one for those that do not, one for others.
    """

    cfg: TransformerConfig
    slots: Slots | None = None  # layout of the rows of a training pass

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "B T D"],
        layer: tuple[tuple[KVCache, ...], Array | None],
        views: tuple[View, ...],
        segment_ids: Array | None,
        positions: Array | None,
    ) -> tuple[Float[Array, "B T D"], KVCache | None]:
        cfg, (cached, slides) = self.cfg, layer
        view = views[0]
        if slides is not None:
            view = jax.tree.map(lambda full, sliding: jnp.where(slides, sliding, full), *views)
        normed = RMSNorm(cfg, name="attn_norm")(x)
        update, new = Attention(cfg, self.slots, name="attn")(normed, view, slides, segment_ids, positions, cached)
        x = x + (RMSNorm(cfg, name="attn_post_norm")(update) if cfg.row.post_norms else update)
        update = GatedMLP(cfg, name="mlp")(RMSNorm(cfg, name="mlp_norm")(x))
        x = x + (RMSNorm(cfg, name="mlp_post_norm")(update) if cfg.row.post_norms else update)
        return constrain(x, "batch", "length", "act_embed"), new


def _scanned_block(cfg: TransformerConfig, unroll: bool) -> type[nn.Module]:
    kept = jax.checkpoint_policies
    dots = kept.save_from_both_policies(
        kept.dots_with_no_batch_dims_saveable, kept.save_only_these_names(products.NAME)
    )
    policies = {"layer": None, "dots": dots}
    body: Any = Block
    if cfg.remat != "none":
        # Unrolled, no loop keeps XLA from finding the recomputed layer equal to the first, and keeping that.
        body = nn.remat(Block, prevent_cse=unroll, policy=policies[cfg.remat])
    return nn.scan(
        body,
        variable_axes={"params": 0},
        split_rngs={"params": True},
        in_axes=(0, *(nn.broadcast,) * 3),  # pyright: ignore[reportArgumentType]
        length=cfg.num_layers,
        unroll=cfg.num_layers if unroll else 1,
    )


class Decoder(nn.Module):
    """Embedding, scanned layers, final norm, output layer. Use the functions below, not the module."""

    cfg: TransformerConfig
    slots: Slots | None = None
    unroll: bool = False  # write the layers out one after another instead of looping over them

    def setup(self) -> None:
        cfg = self.cfg
        table = (cfg.vocab_size, cfg.d_model)
        self.embed = self.param("embed", nn.initializers.normal(INIT_STD), table, cfg.param_dtype)
        if not cfg.tie_embeddings:
            self.unembed = self.param("unembed", nn.initializers.normal(INIT_STD), table, cfg.param_dtype)
        self.layers = _scanned_block(cfg, self.unroll)(cfg, self.slots)
        self.norm = RMSNorm(cfg)

    def __call__(
        self,
        tokens: Int[Array, "B T"],
        positions: Int[Array, "B T"],
        segment_ids: Int[Array, "B T"] | None = None,
        context: tuple[Context, ...] | None = None,
    ) -> tuple[Float[Array, "B T D"], KVCache | None]:
        cfg = self.cfg
        views = tuple(
            View(*rope_tables(cfg, positions, kind), None if context is None else _seen(cfg, kind, positions, context))
            for kind in cfg.kinds
        )
        slides = jnp.array([cfg.slides(layer) for layer in range(cfg.num_layers)]) if len(views) > 1 else None
        cached = tuple(c.cache for c in context or ())  # the scan hands each layer its part
        if self.slots is None or cfg.sliding_window is None:
            positions = None  # pyright: ignore[reportAssignmentType]  # not read any more
        x, new = self.layers(_embedded(cfg, self.embed, tokens), (cached, slides), views, segment_ids, positions)
        return self.norm(x), new


def _embedded(cfg: TransformerConfig, table: Float[Array, "V D"], tokens: Int[Array, "B T"]) -> Float[Array, "B T D"]:
    x = products.of_bits(jnp.take(table, tokens, axis=0)).astype(cfg.dtype)
    if cfg.row.scaled_embedding:
        x = x * jnp.asarray(cfg.d_model**0.5, cfg.dtype)
    return constrain(x, "batch", "length", "act_embed")


def _seen(
    cfg: TransformerConfig, slides: bool, positions: Int[Array, "B T"], context: Sequence[Context]
) -> tuple[Bool[Array, "_ _ _"], ...]:
    """What the new tokens see of each cache, [U, 1 or B / U * T, S], and of one another, [1, T, T]."""
    length, masks = positions.shape[1], [c.mask[:, None] for c in context]
    own = jnp.tril(jnp.ones((1, length, length), bool))
    if slides and cfg.sliding_window is not None:
        for i, c in enumerate(context):
            rows = positions.reshape(c.cache.k.shape[1], -1, 1)  # those that share a row of the cache
            masks[i] &= rows - c.positions[:, None] < cfg.sliding_window
        own = jnp.triu(own, 1 - cfg.sliding_window)
    return (*masks, own)


def init(cfg: TransformerConfig, key: PRNGKeyArray) -> Params:
    """Draw fresh parameters: normal(0.02), the two projections into the residual stream over sqrt(2L), zero biases.

    With `cfg.lora` the adapters are among them.
    """
    dummy = jnp.zeros((1, 1), jnp.int32)
    return dict(Decoder(cfg).init(key, dummy, dummy)["params"])


@functools.lru_cache(maxsize=64)  # it traces the model
def abstract_params(cfg: TransformerConfig) -> Params:
    """The shapes and dtypes of `init`, without making an array. One tree for all who ask: leave it as it is."""
    return jax.eval_shape(lambda: init(cfg, jax.random.key(0)))  # the key too: no program is compiled


def num_params(cfg: TransformerConfig) -> int:
    """Count the parameters; a tied embedding counts once."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(abstract_params(cfg)))


_LAYER_AXES: dict[str, dict[str, tuple[str | None, ...]]] = {
    "attn_norm": {"scale": (None,)},
    "attn": {
        "q": ("embed", "heads", "head_dim"),
        "k": ("embed", "kv_heads", "head_dim"),
        "v": ("embed", "kv_heads", "head_dim"),
        "o": ("heads", "head_dim", "embed"),
    },
    "mlp_norm": {"scale": (None,)},
    "mlp": {"gate": ("embed", "mlp"), "up": ("embed", "mlp"), "down": ("mlp", "embed")},
}


def param_axes(cfg: TransformerConfig) -> Params:
    """Name the axes of every parameter for a sharding table: layers, vocab, embed, heads, kv_heads, head_dim, mlp.

    None = never split (norm scales). Activations inside the model carry batch, length, act_embed, act_heads,
    act_kv_heads, act_mlp, act_vocab, in force only under `flax.linen.logical_axis_rules`.
    """
    layers: Params = {
        module: {name: ("layers", *axes) for name, axes in leaves.items()} for module, leaves in _LAYER_AXES.items()
    }
    if cfg.row.qkv_bias:
        for name in ("q", "k", "v"):
            layers["attn"][f"{name}_bias"] = ("layers", *_LAYER_AXES["attn"][name][1:])
    if cfg.row.qk_norm:
        layers["attn"] |= {name: {"scale": ("layers", None)} for name in ("q_norm", "k_norm")}
    if cfg.row.post_norms:
        layers |= {name: {"scale": ("layers", None)} for name in ("attn_post_norm", "mlp_post_norm")}
    if cfg.lora is not None:
        layers = lora.join(layers, lora.axes(cfg.lora, layers))
    axes: Params = {"embed": ("vocab", "embed"), "layers": layers, "norm": {"scale": (None,)}}
    if not cfg.tie_embeddings:
        axes["unembed"] = ("vocab", "embed")
    return axes


def activation_sizes(cfg: TransformerConfig, rows: int) -> dict[str, int]:
    """Lengths of the activations' named axes, for `sharding.activations`; the residual stream itself stays whole."""
    return {
        "batch": rows,
        "act_heads": cfg.num_heads,
        "act_kv_heads": cfg.num_kv_heads,
        "act_mlp": cfg.d_ff,
        "act_vocab": cfg.vocab_size,
    }


def hidden_states(
    cfg: TransformerConfig,
    params: Params,
    tokens: Int[Array, "B T"],
    positions: Int[Array, "B T"],
    *,
    segment_ids: Int[Array, "B T"] | None = None,
    slots: Slots | None = None,
) -> Float[Array, "B T D"]:
    """Run the training pass, final norm applied: token t sees s <= t of the same segment, and by `slots` where given.

    `positions` feed the rotation and, with slots, windows; `segment_ids` separate packed sequences, 0 = padding;
    `slots` is the layout of rows whose responses share prompts. What padding rows return is finite and means nothing.
    """
    hidden, _ = Decoder(cfg, slots, cfg.unroll_layers).apply({"params": params}, tokens, positions, segment_ids)
    return hidden  # pyright: ignore[reportReturnType]  # flax types apply() loosely


def extend(
    cfg: TransformerConfig,
    params: Params,
    tokens: Int[Array, "B T"],
    positions: Int[Array, "B T"],
    context: Sequence[Context] = (),
) -> tuple[Float[Array, "B T D"], KVCache]:
    """Run T tokens of each row after what stands in caches: prefill (T = prompt length) and decode (T = 1).

    A token sees what the masks leave of each cache, and causally the other new tokens of its row.

    Args:
      context: caches of U rows, U a divisor of B; row b reads row b // (B / U). A prompt shared by a group is one row.

    Returns the hidden states, final norm applied, and the keys and values of the T tokens, [L, B, K, h, T] and
    [L, B, K, T, h] in the compute dtype; storing them is the caller's.
    """
    hidden, new = Decoder(cfg).apply({"params": params}, tokens, positions, None, tuple(context))  # pyright: ignore[reportAssignmentType]
    return hidden, new  # pyright: ignore[reportReturnType]


def matrix_bits(params: Params) -> Params:
    """The model for `extend` on a CPU: of its matrices in bfloat16 the `products.bits`."""
    layers = {
        module: {
            name: products.bits(x) if name in lora.MATRICES and isinstance(x, jax.Array) else x
            for name, x in leaves.items()
        }
        for module, leaves in params["layers"].items()
    }
    return {**params, "layers": layers}


def unstack(tree: Any, layers: int) -> tuple[Any, ...]:
    """Cut arrays [L, ...] into one tree a layer, [1, ...] each."""
    return tuple(jax.tree.map(lambda x, i=i: x[i : i + 1], tree) for i in range(layers))


def rotations(cfg: TransformerConfig, length: int) -> tuple[Float[Array, "S half"], ...]:
    """Cosine and sine of the angles of positions 0 to length - 1, for `extend_layers`: a pair for each of cfg.kinds.

    Make them before the decoding loop: inside it, XLA:CPU computes them in every fusion that uses them.
    """
    tables = (table for kind in cfg.kinds for table in rope_tables(cfg, jnp.arange(length)[None], kind))
    return tuple(table[0, :, 0] for table in tables)


def extend_layers(
    cfg: TransformerConfig,
    params: Params,
    layers: Sequence[Params],
    tokens: Int[Array, "B T"],
    positions: Int[Array, "B T"],
    rotation: Sequence[Float[Array, "B T half"]],
    context: Sequence[Sequence[Context]],
) -> tuple[Float[Array, "B T D"], list[KVCache]]:
    """`extend` over layers that were cut before (`unstack`): their parameters, and the caches of each.

    Inside a loop XLA:CPU copies every layer it takes out of a stack, weights and caches, which is a third of the time
    of a decode step; what is cut outside of the loop is read in place.

    Args:
      params: the whole model; its stack of layers is not read.
      rotation: rows of `rotations` at these positions, [B, T, h / 2] each. Computed here, XLA:CPU would compute them
        for every head of every layer again.
    """
    tables = [table[:, :, None] for table in rotation]
    block, written, x = Block(cfg), [], _embedded(cfg, products.bits(params["embed"]), tokens)
    for i, (layer, seen) in enumerate(zip(layers, context, strict=True)):
        kind = cfg.kinds.index(cfg.slides(i))
        view = View(tables[2 * kind], tables[2 * kind + 1], _seen(cfg, cfg.slides(i), positions, seen))
        cached = jax.tree.map(lambda a: a[0], tuple(c.cache for c in seen))
        own = jax.tree.map(lambda a: a[0], layer)
        x, new = block.apply({"params": own}, x, (cached, None), (view,), None, None)  # pyright: ignore
        written.append(jax.tree.map(lambda a: a[None], new))
    return RMSNorm(cfg).apply({"params": params["norm"]}, x), written  # pyright: ignore[reportReturnType]


def logits(cfg: TransformerConfig, params: Params, hidden: Float[Array, "... D"]) -> Float[Array, "... V"]:
    """Scores of the next token, accumulated and returned in float32."""
    table = params["embed" if cfg.tie_embeddings else "unembed"].astype(cfg.dtype)
    scores = jnp.einsum("...d,vd->...v", hidden.astype(cfg.dtype), table, preferred_element_type=jnp.float32)
    return masked(scores, jnp.arange(cfg.vocab_size), cfg.unused) if cfg.unused else scores


def token_logprobs(
    cfg: TransformerConfig,
    params: Params,
    hidden: Float[Array, "B T D"],
    targets: Int[Array, "B T"],
    *,
    temperature: float | Float[Array, ""] = 1.0,
    chunk: int = 0,
    filled: Int[Array, ""] | None = None,
) -> Float[Array, "B T"]:
    """log softmax(logits / temperature)[target] in float32: hidden[:, t] scores targets[:, t] (shift them yourself).

    `chunk` works through that many vocabulary entries at a time, forward and backward: memory B * T * chunk instead of
    B * T * V; 0 = all at once. No gradient reaches the temperature. With `filled`, only the first so many positions of
    each row are wanted; beside adapters no gradient reaches the table then.
    """
    table = params["embed" if cfg.tie_embeddings else "unembed"]
    sharpness = jax.lax.stop_gradient(1.0 / jnp.asarray(temperature, jnp.float32))
    hidden, chunk = hidden.astype(cfg.dtype), chunk or cfg.vocab_size
    if filled is not None:
        frozen = cfg.lora is not None
        return front_logprobs(hidden, table, targets, filled, sharpness, chunk, cfg.unused, frozen=frozen)
    return label_logprobs(hidden, table, targets, sharpness, chunk, cfg.unused)
