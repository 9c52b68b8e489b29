"""The configuration of a run: one frozen tree, each part defined beside the code that reads it."""

from __future__ import annotations

import dataclasses
import datetime
import math
from typing import Literal, get_args

from spicejax import config as configuration
from spicejax import outside
from spicejax.games import catalogue, contract
from spicejax.games.game import Ask, GameConfig
from spicejax.generate import weights
from spicejax.generate.endpoint import EndpointConfig
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn.advantages import OF_GROUP
from spicejax.learn.learner import LearnerConfig
from spicejax.models.attention import AttentionKernel
from spicejax.models.lora import LoraConfig
from spicejax.models.transformer import TransformerConfig
from spicejax.retrieval.source import RetrievalConfig
from spicejax.run.store import track
from spicejax.score import verifiers
from spicejax.sharding import MeshConfig
from spicejax.text.render import Template
from spicejax.types import Estimator
from spicejax.worlds.nano.maker import NanoConfig

# bfloat16 keeps 8 bits of a number, so AdamW's step, as large as the learning rate, is rounded away where a parameter
# is 512 times larger. At 1e-4 a sixth of SmolLM2's parameters still move, at 1e-6 0.4 % (docs/log/2026-11-22.md).
_LEAST_BFLOAT16_RATE = 1e-4
# what a game's lessons are called, and the losses that take them
_LESSONS = {
    "scored": ("scored replies", "ppo_clip (gspo, cispo)"),
    "given": ("replies to be imitated", "supervised"),
    "pair": ("pairs of a better and a worse reply", "dpo (ipo, simpo)"),
}


# the fields that most runs choose, beside the first of their game: what --help shows; --help=all shows all
_CHOSEN = (
    *("iterations", "seed", "show_every", "tracker", "model.path", "model.dtype", "model.lora.rank", "corpus.source"),
    *("corpus.max_tokens", "retrieval.index", "retrieval.encoder", "retrieval.url", "buckets.prompt", "buckets.rows"),
    *("sampler.temperature", "learner.learning_rate", "learner.rows", "mesh.data", "eval.tasks", "eval.every"),
    *("checkpoint.every", "checkpoint.session_hours"),
)
_GAMES_CHOSEN = 3


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The policy that is trained."""

    # where its weights and tokenizer come from: a Hugging Face folder, ORG/NAME of the Hugging Face Hub, a .gguf file,
    # or package:NAME for an installed package that carries one .gguf
    path: str
    # shape of the model, for plans made without its weights (--dry_run); the weights' own config wins
    architecture: TransformerConfig | None = None
    # precision of the forward and backward pass
    dtype: Literal["float32", "bfloat16"] = "float32"
    # precision of the stored parameters and of the optimizer's moments; bfloat16 loses the small steps of fine-tuning
    param_dtype: Literal["float32", "bfloat16"] = "float32"
    # what the backward pass computes again instead of keeping
    remat: Literal["none", "layer", "dots"] = "none"
    # write the layers of the training pass out instead of looping over them: a tenth faster on CPU for a few layers,
    # longer to compile
    unroll_layers: bool = False
    # kernel of attention: auto = splash on TPU, for prompts too, cudnn on GPU in bfloat16 for packed rows, else xla;
    # flash, on GPUs, decodes too
    attention: AttentionKernel = "auto"
    # train low-rank adapters instead of all parameters; unset = all. model.lora.rank=16 sets it
    lora: LoraConfig | None = None
    # how messages become a prompt: the chat template of the model's folder, or a plain conversation for base models
    template: Template = "chat"
    # date that a chat template writes as today's (Llama 3.2's does), YYYY-MM-DD; empty = that of the run's first start,
    # which is kept with the run
    date: str = ""

    def __post_init__(self) -> None:
        try:
            datetime.date.fromisoformat(self.date or "2024-07-26")
        except ValueError:
            raise ValueError(f"model.date={self.date}: give a day as 2024-07-26, or nothing") from None


@dataclasses.dataclass(frozen=True)
class CorpusConfig:
    """The items a game reads: documents, questions with answers, or examples."""

    # documents: jsonl, parquet, folder of .txt/.md, ArrayRecord, tfds:NAME, facts (short texts that ship with the
    # package; facts:countries,.. for some of them), sentences (each of those facts by itself), problems (worked word
    # problems that ship with it); several with commas. questions: jsonl or a set as for eval.tasks. examples: jsonl
    source: str
    # longest document segment, in tokens (SPICE: 5,992)
    max_tokens: int = 5992
    # documents shorter than this many characters are skipped
    min_chars: int = 32
    # key or column of a document's text; empty = text or contents
    text_field: str = ""
    # of a folder: take what links out of it lead to; false = they are skipped and counted
    follow_links: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens={self.max_tokens}: must be at least 1")


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """What is measured while training."""

    # iterations between evaluations; the start and the end are always evaluated; 0 = only these
    every: int = 20
    # held-out questions with answers: jsonl, or a set that ships with the package: facts:corpus (what the documents of
    # --corpus=facts tell), facts:unseen (what none of them tells), facts:plain (plain instructions, asked without a
    # box). Several with commas: the first gives the run's accuracy, the others are reported as eval/NAME; empty =
    # none, in a nano world its own; `none` = none there either
    tasks: str = ""
    # most held-out questions used, the first of each file; 0 = all
    max_tasks: int = 0
    # longest answer, in tokens; 0 = that of the game
    max_new: int = 0
    # documents of the probes, in which today's policy plays against the first one (SPICE, figure 3); 0 = no probes.
    # Each of the three pairings costs about an iteration on so many documents; the first policy is read from model.path
    probe_documents: int = 0
    # samples of each prompt in a probe
    probe_group: int = 4


@dataclasses.dataclass(frozen=True)
class CheckpointConfig:
    """When the run is saved."""

    # iterations between checkpoints; the end and an interruption always save
    every: int = 20
    # newest checkpoints kept
    keep: int = 2
    # steps that are a multiple of it are kept beside the newest `keep`; 0 = none
    keep_period: int = 0
    # the run stops, saved, before the session has lasted so long: what the place allows less what comes after the run
    # (8.25 of Kaggle's 9). It counts from SPICEJAX_SESSION_START, seconds since the epoch, else from this command's
    # start, through all runs of a chain. The same command goes on in the next session. 0 = no limit
    session_hours: float = 0.0

    def __post_init__(self) -> None:
        if self.session_hours < 0:
            raise ValueError(f"session_hours={self.session_hours}: hours of a session, or 0 for no limit")


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """One training run. `launch/tpu_run.py --config=NAME a.b=c` changes any field."""

    name: str
    model: ModelConfig
    corpus: CorpusConfig
    # the game that is played, one of ours or yours; its section has its own name
    game: GameConfig = dataclasses.field(metadata={configuration.OPEN: catalogue.OPEN})
    # the sampler's shapes
    buckets: Buckets
    # where the game's searches go, if it searches
    retrieval: RetrievalConfig | None = None
    # the sampler's copy of the weights: compute = in model.dtype; int8 = the matrices of attention and MLP with a scale
    # for each output channel (needs qwix). The learner's importance weights then correct the mismatch: learner.tis_cap
    sampler_weights: weights.Precision = "compute"
    # share of a chip's memory that may be in use while sampling: buckets.kv_tokens is at most what this leaves beside
    # weights and optimizer. 0 = no such bound; ignored on a CPU
    sampler_memory: float = 0.0
    sampler: SamplerConfig = SamplerConfig()
    learner: LearnerConfig = LearnerConfig()
    mesh: MeshConfig = MeshConfig()
    # layout of the sampler's copy of the weights, over the same devices; none = that of the learner
    sampler_mesh: MeshConfig | None = None
    # roles that another, frozen model plays: seats.challenger=FOLDER (as model.path; it brings its tokenizer and chat
    # template), in a chain also stage:N, the policy of its run N. Nothing is learnt from what it writes
    seats: dict[str, str] = dataclasses.field(default_factory=dict)
    # in a chain: the run whose policy this one starts from; 0 = none, but model.path; -1 = the one before
    from_stage: int = -1
    # server whose model judges answers where a game asks for a judge; without one the seat `judge` does
    judge: EndpointConfig = EndpointConfig()
    # who says whether an answer is right, in evaluations and in games that ask it: math_verify = rules for texts, and
    # Math-Verify; or a function of yours, module:function or FILE.py:function, (text, task) -> bool (docs/own_game.md)
    verifier: Literal["math_verify"] | outside.OUTSIDE = "math_verify"
    # processes of each host that judge mathematical answers (Math-Verify; about 100 MB each), or in which a verifier of
    # yours runs; 0 = one for each core that this process may use
    verifier_workers: int = 0
    eval: EvalConfig = EvalConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    # makes the embedded nano model and its world first
    nano: NanoConfig | None = None
    # training iterations in all [T]
    iterations: int = 640
    # seed of everything random in the run
    seed: int = 0
    # iterations between printed examples of what was generated; 0 = never
    show_every: int = 10
    # where metrics go beside metrics.jsonl: tensorboard (WORKDIR/tensorboard), wandb or trackio, extras of these names
    tracker: track.Name = "none"

    @property
    def asks(self) -> list[Ask]:
        """What the game asks, by who sits where: the policy alone is trained."""
        asked = self.game.game.demand(self.game)
        mine = [ask.player == "policy" and (ask.seat or ask.role) not in self.seats for ask in asked]
        return [ask if own else dataclasses.replace(ask, trained=0) for ask, own in zip(asked, mine, strict=True)]

    @property
    def folders_of_seats(self) -> dict[str, str]:
        """The seats whose models are there before a chain begins."""
        return {role: path for role, path in self.seats.items() if not stage_of(path)}

    @property
    def chosen(self) -> list[str]:
        """Paths of the fields that most runs choose."""
        game = next(rows for _, cls, rows in configuration.walk(self) if cls is type(self.game))
        searching = _CHOSEN if self.searches else [path for path in _CHOSEN if not path.startswith("retrieval.")]
        return [*searching, *(path for path, *_ in game[:_GAMES_CHOSEN])]

    @property
    def searches(self) -> bool:
        """Whether a role searches, or the game for it; in training, or in evaluations alone."""
        evaluates = self.eval.tasks != "none" and bool(self.eval.tasks or self.nano)
        sampled = any((ask.turn_limits or ask.finds) and ask.samples for ask in self.asks)
        return sampled or (evaluates and self.game.game.exam(self.game).searches)

    @property
    def programs(self) -> Literal["off", "sandbox", "accept"]:
        """Whether the game runs what a role has programmed."""
        found = {ask.programs for ask in self.asks}
        return "accept" if "accept" in found else "sandbox" if "sandbox" in found else "off"

    @property
    def initial_plays(self) -> bool:
        """Whether the game seats the initial policy, so that the sampler keeps a copy of it."""
        seated = [ask for ask in self.asks if (ask.seat or ask.role) not in self.seats]
        return any(ask.player == "initial" or ask.off_policy for ask in seated)

    @property
    def warnings(self) -> list[str]:
        """Settings that a run can have and hardly anybody wants, each with its consequence."""
        sampled = [ask for ask in self.asks if ask.trained and ask.samples]
        compared = [ask for ask in sampled if ask.estimator in OF_GROUP]
        found = []
        if compared and self.sampler.temperature == 0:
            found.append(
                "sampler.temperature=0: the responses of a group are all the same, so that nothing is learnt from "
                "them; 1.0 is usual"
            )
        if sampled and self.sampler.filtered:
            found.append(
                "sampler.top_k, top_p or min_p cuts tokens off while training: what is cut is never tried, and the "
                "loss takes the rest as drawn from the whole distribution; 0, 1 and 0 cut nothing"
            )
        if self.retrieval is not None and not self.searches:
            found.append("retrieval.*: nothing in this game searches, so that it is never asked")
        return found

    def __post_init__(self) -> None:
        object.__setattr__(self, "verifier", outside.name_of(self.verifier, "verifier", [verifiers.BUILT_IN]))
        contract.require_game(self.game)
        asks = self.asks
        samples = {self.eval.probe_group: "eval.probe_group's"} if self.eval.probe_documents else {}
        samples |= {ask.samples: f"the {ask.role}'s" for ask in asks}
        for number, whose in samples.items():
            if number and self.buckets.rows % number:
                step = math.lcm(*filter(None, samples))
                rows = -(-self.buckets.rows // step) * step
                raise ValueError(
                    f"buckets.rows={self.buckets.rows} must be a multiple of {whose} {number} samples to a prompt; "
                    f"take {rows}, or another number of samples"
                )
        roles = sorted({ask.seat or ask.role for ask in asks})
        if unknown := set(self.seats) - set(roles):
            raise ValueError(f"seats.{min(unknown)}: this game has no such role; choose from {', '.join(roles)}")
        if not any(ask.trained for ask in asks):
            raise ValueError("nothing is trained: every role is played by another model; give one back (seats)")
        order, trained = self.learner.role_order, {ask.role for ask in asks if ask.trained}
        if order and set(order) != trained:
            raise ValueError(f"learner.role_order={order}: name each trained role: {', '.join(sorted(trained))}")
        for ask in (ask for ask in asks if ask.trained):
            alone = (ask.compared or ask.group or ask.samples) == 1
            if ask.samples and alone and ask.estimator in OF_GROUP:
                raise ValueError(
                    f"{ask.role}: estimator {ask.estimator} with groups of one response compares each with itself, so "
                    "that nothing is learnt; take more samples (group_size, ..._samples), or the estimator none"
                )
            if ask.estimator not in get_args(Estimator):
                raise ValueError(f"{ask.role}: estimator {ask.estimator}: one of {', '.join(get_args(Estimator))}")
            if ask.lesson != self.learner.lesson:
                what, loss = _LESSONS[ask.lesson]
                raise ValueError(f"learner.loss={self.learner.loss}: this game's lessons are {what}; take {loss}")
            prompt = self.buckets.prompt[-1] - ask.behind
            responses = (ask.max_new,) * (2 if ask.lesson == "pair" else 1)
            if obstacle := self.learner.shapes[-1].too_short(max(prompt, 1), *responses):
                raise ValueError(f"{obstacle}; raise it, or lower buckets.prompt or the game's longest response")
        if self.eval.probe_documents and self.game.game.probe is None:
            raise ValueError(f"eval.probe_documents={self.eval.probe_documents}: this game has no probes; set it to 0")
        int8 = {"sampler_weights": self.sampler_weights, "buckets.cache": self.buckets.cache}
        for field, choice in int8.items():
            if choice == "int8" and not self.learner.tis_cap:
                raise ValueError(
                    f"{field}=int8 samples from another policy than the one trained; learner.tis_cap corrects it: "
                    "give a positive value (2.0 is usual)"
                )
        if (
            self.model.param_dtype == "bfloat16"
            and self.model.lora is None
            and self.learner.learning_rate < _LEAST_BFLOAT16_RATE
        ):
            raise ValueError(
                f"model.param_dtype=bfloat16 with learner.learning_rate={self.learner.learning_rate:g}: hardly a "
                "parameter would move, since smaller steps are rounded away; take model.param_dtype=float32 "
                f"(model.dtype may stay bfloat16), adapters (model.lora.rank=16), or {_LEAST_BFLOAT16_RATE:g} and more"
            )
        if not 0 <= self.sampler_memory <= 1:
            raise ValueError(f"sampler_memory={self.sampler_memory}: give a share of a chip's memory, 0 to 1")
        if self.verifier_workers < 0:
            raise ValueError(
                f"verifier_workers={self.verifier_workers}: give a number of processes, or 0 for one a core"
            )
        if self.iterations < 1:
            raise ValueError(f"iterations={self.iterations}: must be at least 1")
        if self.from_stage < -1:
            raise ValueError(
                f"from_stage={self.from_stage}: a run of the chain, or 0 = model.path, -1 = the one before"
            )


def stage_of(seat: str) -> int:
    """The run of a chain whose policy has a seat (`stage:N`); 0 where the seat names a model."""
    head, _, number = seat.partition(":")
    return int(number) if head == "stage" and number.isdecimal() else 0


def with_precision(cfg: ModelConfig, architecture: TransformerConfig) -> TransformerConfig:
    """The architecture with precision, remat, kernel and adapters of the run."""
    return dataclasses.replace(
        architecture,
        dtype=cfg.dtype,
        param_dtype=cfg.param_dtype,
        remat=cfg.remat,
        unroll_layers=cfg.unroll_layers,
        attention=cfg.attention,
        lora=cfg.lora,
    )
