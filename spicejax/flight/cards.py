"""The GPUs a flight check knows: published peaks, memory and links, and what XLA:GPU asks of a card it compiles for.

The numbers and their sources stand in cards.toml. Without a card nothing is autotuned: products are cuBLAS's, and
fusions that XLA writes with cuDNN or Triton after trying them on a card are not in the program.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import tomllib
from pathlib import Path
from typing import Any

from spicejax import memory

# Of every card, and of the libraries that jax[cuda12] brings.
_DEVICE = {
    "threads_per_block_limit": 1024,
    "threads_per_warp": 32,
    "shared_memory_per_block": 49_152,
    "block_dim_limit_x": 2**31 - 1,
    "block_dim_limit_y": 65_535,
    "block_dim_limit_z": 65_535,
    "thread_dim_limit_x": 1024,
    "thread_dim_limit_y": 1024,
    "thread_dim_limit_z": 64,
    "registers_per_core_limit": 65_536,
    "registers_per_block_limit": 65_536,
}
_LIBRARIES = (
    'platform_name: "CUDA" dnn_version_info { major: 9 minor: 10 patch: 0 } runtime_version { major: 12 minor: 8 }'
)


@dataclasses.dataclass(frozen=True)
class Card:
    """One kind of card, every number per card; bandwidths in bytes/s, one way."""

    kind: str  # as CUDA names it
    flops: float  # peak bfloat16 multiply-adds, in FLOP/s
    memory: int  # bytes
    bandwidth: float  # of the memory
    link: float  # to the cards of the same host
    network: float  # to other hosts; 0 = no card of another host
    host: int  # cards of a host
    device: dict[str, Any]  # fields of XLA's description

    @property
    def hbm(self) -> int:
        return self.memory

    @property
    def hbm_bandwidth(self) -> float:
        return self.bandwidth

    @property
    def target(self) -> str:
        """XLA's GpuTargetConfigProto, as text."""
        fields = _DEVICE | self.device | {"memory_bandwidth": int(self.bandwidth), "device_memory_size": self.memory}
        joined = " ".join(
            f"{name} {value}" if str(value).startswith("{") else f"{name}: {value}" for name, value in fields.items()
        )
        return f'gpu_device_info {{ {joined} }} {_LIBRARIES} device_description_str: "{self.kind}"'


@functools.cache
def known() -> dict[str, Card]:
    """The cards of cards.toml, by name."""
    table = tomllib.loads(Path(__file__).with_name("cards.toml").read_text())
    return {name: Card(**fields) for name, fields in table.items()}


@dataclasses.dataclass(frozen=True)
class Hosts:
    """Cards of one host or of several: `name` is the card and how many there are, such as h100:8 or h100:2x8."""

    name: str
    chip: Card
    hosts: int
    each: int  # cards of a host

    # What is found out by trying on a card is off; a product in Triton without its tile sizes ends the compiler.
    options = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}

    @property
    def chips(self) -> int:
        return self.hosts * self.each

    @property
    def usable(self) -> float:
        """Bytes that programs get."""
        return memory.gpu_share() * self.chip.memory

    def link_bandwidth(self, group: int) -> float:
        """Bytes/s a card can send in a collective of `group` cards.

        A group that fits a host is taken to lie in one, which is not so with mesh.data > 1 over several hosts. In a
        larger one all ports of a host share what leaves it, as in NCCL's rings, so that the network gives a card as
        much as the host's ports together.
        """
        link = self.chip.link
        return link if group <= self.each else min(link, self.each * self.chip.network)

    def devices(self) -> list[Any]:
        """These cards, described by JAX's CUDA plugin. Raises: ModuleNotFoundError without it."""
        if not installed():
            raise ModuleNotFoundError(
                f"--topology={self.name} compiles with JAX's CUDA plugin, which is not installed here: pip install "
                "'spicejax[gpu]' (no card is needed)"
            )
        from jax.experimental import topologies

        extent = f"1x{self.hosts}x{self.each}"
        described = topologies.get_topology_desc(
            platform="cuda", topology_name=self.chip.kind, topology=extent, target_config=self.chip.target
        )
        return list(described.devices)


def installed() -> bool:
    """Whether JAX's CUDA plugin is here."""
    return any(importlib.util.find_spec(f"jax_cuda{n}_plugin") is not None for n in (12, 13))


def find(topology: str) -> Hosts:
    """The cards called `topology`; ValueError listing the choices if there are none such."""
    name, _, extent = topology.partition(":")
    card = known()[name]
    choices = {str(each): (1, each) for each in (1, 2, 4, 8) if each <= card.host}
    if card.network:
        choices |= {f"{hosts}x{card.host}": (hosts, card.host) for hosts in (2, 4, 8, 16, 32)}
    if extent not in choices:
        listed = " ".join(f"{name}:{each}" for each in choices)
        raise ValueError(f"--topology={topology}: no such number of cards; choose from {listed}")
    return Hosts(topology, card, *choices[extent])
