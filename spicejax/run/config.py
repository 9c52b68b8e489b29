"""The configuration of a run: one frozen tree, each part defined beside the code that reads it."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from jax.sharding import Mesh

from spicejax import sharding
from spicejax.games.spice.game import SpiceConfig
from spicejax.generate.policy import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.learner import LearnerConfig
from spicejax.models.attention import AttentionKernel
from spicejax.models.lora import LoraConfig
from spicejax.models.transformer import TransformerConfig
from spicejax.sharding import MeshConfig
from spicejax.text.render import Template
from spicejax.worlds.nano import maker as nano
from spicejax.worlds.nano.maker import NanoConfig

WeightChoice = Literal["compute", "int8"]


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The policy that is trained."""

    # where its weights and tokenizer come from: a local Hugging Face folder, a .gguf file, or package:NAME for an
    # installed package that carries one .gguf
    path: str
    # shape of the model, for plans made without its weights (--dry_run); the weights' own config wins
    architecture: TransformerConfig | None = None
    # precision of the forward and backward pass
    dtype: Literal["float32", "bfloat16"] = "float32"
    # precision of the stored parameters and of the optimizer's moments
    param_dtype: Literal["float32", "bfloat16"] = "float32"
    # what the backward pass computes again instead of keeping
    remat: Literal["none", "layer", "dots"] = "none"
    # write the layers of the training pass out instead of looping over them: a tenth faster on CPU for a few layers,
    # longer to compile
    unroll_layers: bool = False
    # kernel of the learner's attention: auto = splash on TPU, cudnn on GPU in bfloat16 for packed rows, xla elsewhere
    attention: AttentionKernel = "auto"
    # train low-rank adapters instead of all parameters; unset = all. model.lora.rank=16 sets it
    lora: LoraConfig | None = None
    # how messages become a prompt: the chat template of the model's folder, or a plain conversation for base models
    template: Template = "chat"


@dataclasses.dataclass(frozen=True)
class CorpusConfig:
    """The documents the Challenger reads."""

    # jsonl, parquet, folder of .txt/.md, ArrayRecord, tfds:NAME, docstrings:PACKAGE,..; several with commas
    source: str
    # longest document segment, in tokens (paper: 5,992)
    max_tokens: int = 5992
    # documents shorter than this many characters are skipped
    min_chars: int = 32


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """What is measured while training."""

    # iterations between evaluations; the start and the end are always evaluated; 0 = only these
    every: int = 20
    # jsonl of held-out questions with answers; empty = none
    tasks: str = ""
    # most held-out questions used, the first of the file; 0 = all
    max_tasks: int = 0
    # longest answer, in tokens; 0 = the Reasoner's
    max_new: int = 0
    # documents of the two probes of the paper's figure 3 (later Challenger against the first Reasoner, and the other
    # way round); 0 = no probes. They keep a copy of the initial parameters
    probe_documents: int = 0
    # attempts per document and answers per question in a probe
    probe_group: int = 4


@dataclasses.dataclass(frozen=True)
class CheckpointConfig:
    """When the run is saved."""

    # iterations between checkpoints; the end and an interruption always save
    every: int = 20
    # newest checkpoints kept
    keep: int = 2


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """One training run. `launch/tpu_run.py --config=NAME a.b=c` changes any field."""

    name: str
    model: ModelConfig
    corpus: CorpusConfig
    spice: SpiceConfig
    # prompt lengths the sampler is compiled for, in tokens, ascending; the last must hold the longest prompt
    prompt_buckets: tuple[int, ...]
    # row slots of the sampler, most responses written at the same time; a multiple of spice.group_size
    rows_per_call: int
    # share of the row slots that must be free before waiting samples are put into them
    refill: float = 0.125
    # tokens each part of the mesh prefills at once; longer prompts are prefilled in pieces
    prefill_chunk: int = 512
    # precision of the sampler's KV entries: compute = model.dtype; int8 carries a scale for each token and head
    kv_cache: Literal["compute", "float32", "bfloat16", "int8"] = "compute"
    # the sampler's copy of the weights: compute = in model.dtype; int8 = the matrices of attention and MLP with a scale
    # for each output channel (needs qwix). The learner's importance weights then correct the mismatch: learner.tis_cap
    sampler_weights: WeightChoice = "compute"
    # most tokens whose KV entries the sampler holds at once, those of prompts and of responses; rows_per_call is cut to
    # what they allow, for each kind of prompt by itself. 0 = no bound
    kv_tokens: int = 0
    # share of a chip's memory that may be in use while sampling: kv_tokens is at most what this leaves beside weights
    # and optimizer. 0 = no such bound; ignored on a CPU
    sampler_memory: float = 0.0
    sampler: SamplerConfig = SamplerConfig()
    learner: LearnerConfig = LearnerConfig()
    mesh: MeshConfig = MeshConfig()
    # layout of the sampler's copy of the weights, over the same devices; none = that of the learner
    sampler_mesh: MeshConfig | None = None
    eval: EvalConfig = EvalConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    # makes the embedded nano model and its world first; only spice_nano has it
    nano: NanoConfig | None = None
    # training iterations in all [T]
    iterations: int = 640
    # seed of everything random in the run
    seed: int = 0
    # iterations between printed sample tasks; 0 = never
    show_every: int = 10

    @property
    def keeps_initial(self) -> bool:
        """Whether the initial policy is kept beside the trained one."""
        return self.spice.fixed_challenger or self.eval.probe_documents > 0 or self.learner.kl_coef > 0

    def buckets(self) -> Buckets:
        """The sampler's shapes."""
        return Buckets(
            prompt=self.prompt_buckets,
            rows=self.rows_per_call,
            refill=self.refill,
            prefill_chunk=self.prefill_chunk,
            cache=self.kv_cache,
            kv_tokens=self.kv_tokens,
        )

    def __post_init__(self) -> None:
        self.buckets()  # says what is wrong with them
        if self.rows_per_call % self.spice.group_size:
            raise ValueError(
                f"rows_per_call={self.rows_per_call} must be a multiple of spice.group_size={self.spice.group_size}"
            )
        if self.rows_per_call % self.eval.probe_group:
            raise ValueError(
                f"rows_per_call={self.rows_per_call} must be a multiple of eval.probe_group={self.eval.probe_group}"
            )
        response = max(self.spice.challenger_max_new, self.spice.reasoner_max_new)
        if obstacle := self.learner.shapes[-1].too_short(self.prompt_buckets[-1], response):
            raise ValueError(f"{obstacle}; raise it or lower prompt_buckets or spice.*_max_new")
        for field in ("sampler_weights", "kv_cache"):
            if getattr(self, field) == "int8" and not self.learner.tis_cap:
                raise ValueError(
                    f"{field}=int8 samples from another policy than the one trained; learner.tis_cap corrects it: "
                    "give a positive value (2.0 is usual)"
                )
        if not 0 <= self.sampler_memory <= 1:
            raise ValueError(f"sampler_memory={self.sampler_memory}: give a share of a chip's memory, 0 to 1")
        if self.iterations < 1:
            raise ValueError(f"iterations={self.iterations}: must be at least 1")


def with_world(cfg: RunConfig) -> RunConfig:
    """The configuration with model, corpus and held-out set of its nano world, made where it is not yet."""
    if cfg.nano is None:
        return cfg
    made = nano.prepare(cfg.nano, cfg.seed)
    return dataclasses.replace(
        cfg,
        model=dataclasses.replace(cfg.model, path=str(made.model)),
        corpus=dataclasses.replace(cfg.corpus, source=cfg.corpus.source or str(made.corpus)),
        eval=dataclasses.replace(cfg.eval, tasks=cfg.eval.tasks or str(made.held_out)),
    )


def arranged(cfg: RunConfig, kv_heads: int, devices: int) -> RunConfig:
    """The configuration with `mesh.tensor` chosen where it is 0.

    Each part of data x fsdp needs a row of its own, and an optimizer step has only so many: on a larger slice the heads
    of a row are split, by powers of two that divide the kv heads.
    """
    if cfg.mesh.tensor:
        return cfg
    ways = 1
    while devices // ways > cfg.learner.rows and devices % (2 * ways) == 0 and kv_heads % (2 * ways) == 0:
        ways *= 2
    return dataclasses.replace(cfg, mesh=dataclasses.replace(cfg.mesh, tensor=ways))


def fitted(cfg: RunConfig, mesh: Mesh, speaking: Mesh) -> RunConfig:
    """Rows rounded up to what the learner's and the sampler's mesh divide: more rows at a time, the same iteration.

    Rows that do not divide would be computed whole on every chip.
    """
    ways, groups = sharding.ways(mesh, 0), sharding.ways(speaking, 0) * cfg.spice.group_size
    return dataclasses.replace(
        cfg,
        learner=dataclasses.replace(cfg.learner, rows=math.ceil(cfg.learner.rows / ways) * ways),
        rows_per_call=math.ceil(cfg.rows_per_call / groups) * groups,
    )
