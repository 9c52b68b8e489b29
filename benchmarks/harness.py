"""What benchmarks share: options, backends that take turns, the decoder that all run, tables, one JSON object."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.metadata
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spicejax import sharding
from spicejax.generate.layout import Buckets
from spicejax.generate.player import Player
from spicejax.generate.stops import stop_machine
from spicejax.learn import learner
from spicejax.models import hf, lora, transformer
from spicejax.models.transformer import TransformerConfig
from spicejax.types import Batch, Rollout

SIZES = {
    "tiny": (4, 256, 4, 2, 1024, 4096),
    "small": (12, 512, 8, 4, 2048, 16384),
    "half_billion": (24, 896, 14, 2, 4864, 151_936),  # Qwen2.5-0.5B's
}
PACKAGES = ("jax", "torch", "transformers", "google-tunix", "trl")
LEARNING_RATE = 1e-5


def options(doc: str | None, **defaults: Any) -> Any:
    """Parse `--NAME` of the type of each default; a tuple holds the choices, a list takes the words without a dash."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        if isinstance(default, list):
            parser.add_argument(name, nargs="*", default=default)
        elif isinstance(default, bool):
            parser.add_argument(f"--{name}", action="store_true")
        elif isinstance(default, tuple):
            parser.add_argument(f"--{name}", choices=default, default=default[0])
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default, help=f"default {default}")
    return parser.parse_intermixed_args()


def chosen(words: str, known: Sequence[str]) -> list[str]:
    """Split words at commas; raise on one that is not known."""
    if unknown := [word for word in words.split(",") if word not in known]:
        raise SystemExit(f"unknown {unknown[0]!r}; choose from {', '.join(known)}")
    return words.split(",")


def lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as Markdown; all columns but the first stand to the right."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def model_of(size: str, dtype: str = "float32") -> TransformerConfig:
    """The decoder that every backend runs, weights and products in `dtype`."""
    layers, d_model, heads, kv_heads, d_ff, vocab = SIZES[size]
    return TransformerConfig(
        dtype=dtype,
        param_dtype=dtype,
        family="qwen3",
        vocab_size=vocab,
        d_model=d_model,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=64,
        d_ff=d_ff,
        rope_theta=1e6,
        tie_embeddings=True,
        max_position=4096,
    )


def tunix_config(model: TransformerConfig) -> Any:
    """The same decoder as google-tunix describes it; ImportError, so that it is left out, where that is not float32."""
    if model.dtype != "float32":
        raise ImportError(f"it is made in float32, not {model.dtype}")
    from tunix.models.qwen3 import model as qwen3

    return qwen3.ModelConfig(
        num_layers=model.num_layers,
        vocab_size=model.vocab_size,
        embed_dim=model.d_model,
        hidden_dim=model.d_ff,
        num_heads=model.num_heads,
        head_dim=model.head_dim,
        num_kv_heads=model.num_kv_heads,
        rope_theta=1_000_000,
        norm_eps=1e-6,
        use_tied_embedding=True,
    )


def tunix_mesh() -> jax.sharding.Mesh:
    """One device under the axis names of google-tunix."""
    return jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


@dataclasses.dataclass(frozen=True)
class Ids:
    """Text is the ids in decimal: the cheapest tokenizer there is."""

    eos: int = 2

    def encode(self, text: str, **_: Any) -> list[int]:
        return [int(t) for t in text.split()]

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return " ".join(map(str, ids))

    def bos_id(self) -> int:
        return 0  # none: google-tunix then puts no token in front

    def eos_id(self) -> int:
        return self.eos

    def pad_id(self) -> int:
        return 0


def words(ids: Sequence[int]) -> str:
    """Ids as words of `word_tokenizer`, for trainers that tokenise themselves."""
    return "".join(f"t{k} " for k in ids)


def word_tokenizer(vocab: int, eos: str = "t2") -> Any:
    """A Hugging Face tokenizer whose word k is "tk"; `eos` may be one more."""
    import tokenizers
    import transformers

    known = {f"t{k}": k for k in range(vocab)}
    known.setdefault(eos, vocab)
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="t0"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=plain, eos_token=eos, pad_token="t0")


def sampler_of(model: TransformerConfig, buckets: Buckets, params: Any = None) -> Player:
    """Our player on one device, which never stops; random weights unless given."""
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    return Player(
        model, random_of(model) if params is None else params, Ids(), stop_machine(model.vocab_size, []), buckets, mesh
    )


def random_of(model: TransformerConfig) -> Any:
    """Random weights, the same each time."""
    return jax.jit(transformer.init, static_argnums=0)(model, jax.random.key(0))


@contextlib.contextmanager
def saved(model: TransformerConfig) -> Iterator[tuple[Any, Path]]:
    """Random weights, and the Hugging Face folder that peers read them from; without adapters, which begin at zero."""
    params = random_of(model)
    plain, base = dataclasses.replace(model, lora=None), lora.split(params)[0]
    with tempfile.TemporaryDirectory() as folder:
        hf.save(Path(folder) / "weights", plain, base, dtype="float32")
        yield params, Path(folder) / "weights"


def rollout(prompt: np.ndarray, tokens: np.ndarray) -> Rollout:
    """A response whose tokens had probability 1."""
    zeros = np.zeros(len(tokens), np.float32)
    return Rollout(prompt, tokens, zeros, zeros, zeros + 1, "", "stop")


class Trained:
    """Our learner's jitted step on one batch, again and again."""

    def __init__(
        self, model: TransformerConfig, params: Any, config: learner.LearnerConfig, batch: Batch, used: int
    ) -> None:
        optimizer = learner.make_optimizer(config)
        self.learner = learner.make_learner(model, config, optimizer)
        self.frozen, trained = lora.split(params) if model.lora else (None, params)
        self.params, self.state = params, learner.init_state(jax.tree.map(jnp.copy, trained), optimizer)
        self.batch, self.used, self.scored = jax.device_put(batch), jnp.int32(used), config.needs_reference

    def step(self) -> dict[str, float]:
        """One optimizer step, behind the pass of the reference where the loss has one."""
        batch = self.batch
        if self.scored:
            batch = batch._replace(reference_logprobs=self.learner.score(self.params, batch, self.used))
        self.state, metrics = self.learner.step(self.state, batch, self.used, self.frozen)
        jax.block_until_ready(self.state)
        return {name: float(metrics[name]) for name in ("loss", "grad_norm")}


def torch_device() -> str:
    """Where torch's side of a comparison runs: on the GPU where ours does."""
    return "cuda" if jax.default_backend() == "gpu" else "cpu"


class Torch:
    """The Hugging Face model on torch with fused AdamW; with `rank`, PEFT's adapters of all matrices are trained."""

    def __init__(self, folder: Path, beta2: float = 0.999, rank: int = 0, dtype: str = "float32") -> None:
        import torch
        import transformers

        self.torch = torch
        load = transformers.AutoModelForCausalLM.from_pretrained
        self.decoder = load(folder, dtype=getattr(torch, dtype)).to(torch_device()).train()
        if rank:
            import peft

            adapters = peft.LoraConfig(r=rank, lora_alpha=rank, lora_dropout=0.0, target_modules="all-linear")
            self.decoder = peft.get_peft_model(self.decoder, adapters)
        self.rule = torch.optim.AdamW(
            [p for p in self.decoder.parameters() if p.requires_grad],
            lr=LEARNING_RATE,
            betas=(0.9, beta2),
            weight_decay=0.0,
            fused=True,
        )

    def logprobs(self, ids: Any, response: int, **masks: Any) -> Any:
        """Of the last `response` tokens of each row."""
        logits = self.decoder(input_ids=ids, logits_to_keep=response + 1, **masks).logits[:, :-1]
        return logits.gather(-1, ids[:, -response:, None])[..., 0] - logits.logsumexp(-1)

    def update(self, loss: Any) -> dict[str, float]:
        """Backward, clip, step."""
        self.rule.zero_grad(set_to_none=True)
        loss.backward()
        norm = self.torch.nn.utils.clip_grad_norm_(self.decoder.parameters(), 1.0)
        self.rule.step()
        return {"loss": float(loss.detach()), "grad_norm": float(norm)}


def compare(
    makers: Mapping[str, Callable[[], Callable[[int], Any]]], repeats: int, *, work: int = 0, warm: int = 1
) -> dict[str, Any]:
    """Make backends and let them take turns, forward then backward, after `warm` rounds in which they compile.

    A backend is a call that takes the number of the round; what it returned last before the timed rounds is its report.
    Those whose packages are missing are left out, with a note. `work` is tokens of a call, `seconds` of all rounds.
    `times` is the median of each other backend over that of the fastest of ours: above 1 = ours is faster.
    """
    calls: dict[str, Callable[[int], Any]] = {}
    notes = []
    for name, make in makers.items():
        try:
            calls[name] = make()
        except ImportError as error:
            notes.append(f"{name} left out: {error}")
    reports: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(warm + repeats):
        for name in list(calls)[:: -1 if number % 2 else 1]:
            began = time.perf_counter()
            said = calls[name](number)
            seconds[name].append(time.perf_counter() - began)
            if number < warm:
                reports[name] = said if isinstance(said, dict) else {}
    medians = {name: statistics.median(taken[warm:]) for name, taken in seconds.items()}
    backends = {
        name: reports[name]
        | {"median_s": round(median, 4), "seconds": [round(s, 4) for s in seconds[name]]}
        | ({"tokens_per_s": round(work / median, 1)} if work else {})
        for name, median in medians.items()
    }
    best = min((name for name in medians if name.startswith("ours")), key=lambda name: medians[name], default="")
    times = {name: round(median / medians[best], 2) for name, median in medians.items() if best and name != best}
    return {"backends": backends, "ours": best, "times": times, "notes": notes}


def timed(call: Callable[[], object], repeats: int = 3) -> float:
    """Median seconds of `call`, which returns when its work is done; the first call is not counted."""
    call()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def report(**fields: Any) -> None:
    """Print one JSON object, with the device and the versions of the compared packages that are installed."""
    found = {d.name: d.version for d in importlib.metadata.distributions()}
    head = {
        "device": jax.devices()[0].device_kind,
        "versions": {name: found[name] for name in PACKAGES if name in found},
    }
    print(json.dumps(head | fields, indent=1))
