"""The TPUs a flight check knows: published peaks, memory, interconnect, and the slices one can rent.

Sources, read in November 2026: docs.cloud.google.com/tpu/docs/{v3,v4,v5e,v5p,v6e,tpu7x} for compute, HBM and the valid
slices, and for the interconnect of v5e and later; arXiv:2304.01433, table 4, for the links of v3 and v4 (70 and 50
GB/s each way). Published peaks are upper bounds that no program reaches.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import os
from typing import Any, ClassVar

from spicejax.flight import cards

GIB = 2**30

# Share of a chip's memory that programs get; XLA says 15.75 of v5e's 16 GiB.
USABLE = 0.984

# libtpu asks the machine it runs on for its slice unless told these; any slice name will do.
_ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # no chip is used, so several checks may run at once
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
}

_FLAT = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_CUBES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16", "8x16x16", "16x16x16")


@dataclasses.dataclass(frozen=True)
class Chip:
    """One kind of TPU chip, every number per chip."""

    flops: float  # peak bfloat16 multiply-adds, in FLOP/s
    hbm: float  # memory, in bytes
    hbm_bandwidth: float  # bytes/s
    ici_bandwidth: float  # all links, both directions together, in bytes/s
    ports: int  # links to neighbours: 4 in a plane, 6 in space
    wraps_at: int  # an axis of the slice closes to a ring where its length is a multiple of this
    slices: tuple[str, ...]  # rentable topologies


CHIPS: dict[str, Chip] = {
    "v3": Chip(123e12, 32 * GIB, 900e9, 560e9, 4, 32, ("2x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32")),
    "v4": Chip(275e12, 32 * GIB, 1200e9, 600e9, 6, 4, _CUBES),
    "v5e": Chip(197e12, 16 * GIB, 819e9, 400e9, 4, 16, _FLAT),
    "v5p": Chip(459e12, 95 * GIB, 2765e9, 1200e9, 6, 4, _CUBES),
    "v6e": Chip(918e12, 32 * GIB, 1640e9, 800e9, 4, 16, _FLAT),
    "tpu7x": Chip(2307e12, 192 * GIB, 7380e9, 1200e9, 6, 4, _CUBES),
}


@dataclasses.dataclass(frozen=True)
class Slice:
    """A rentable slice: `name` is the chip and its extent, such as v5e:4x4."""

    name: str
    chip: Chip
    extent: tuple[int, ...]  # chips along each axis
    options: ClassVar[dict[str, Any]] = {}  # of the compiler

    @property
    def chips(self) -> int:
        return math.prod(self.extent)

    @property
    def usable(self) -> float:
        """Bytes of a chip that programs get."""
        return USABLE * self.chip.hbm

    def link_bandwidth(self, group: int) -> float:
        """Bytes/s a chip can send in a collective of `group` chips.

        All chips together use every axis of the slice, a smaller group one axis. An axis gives two links where it
        closes to a ring and one where it does not, since the chips at its ends have only one.
        """
        one_way = self.chip.ici_bandwidth / 2 / self.chip.ports
        links = [2 if size % self.chip.wraps_at == 0 else 1 for size in self.extent if size > 1]
        if not links:
            return one_way
        return one_way * (sum(links) if group >= self.chips else max(links))

    def devices(self) -> list[Any]:
        """The slice's devices, described by libtpu. Raises: ModuleNotFoundError without it."""
        if not installed():
            raise ModuleNotFoundError(
                f"--topology={self.name} compiles with libtpu, which is not installed here: pip install 'spicejax[tpu]'"
            )
        from jax.experimental import topologies

        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        return list(topologies.get_topology_desc(platform="tpu", topology_name=self.name).devices)


def installed() -> bool:
    """Whether libtpu is here."""
    return importlib.util.find_spec("libtpu") is not None


def find(topology: str) -> Slice | cards.Hosts:
    """The slice, or the cards, called `topology`; ValueError listing the choices if there is none."""
    name, _, extent = topology.partition(":")
    if name in cards.known():
        return cards.find(topology)
    chip = CHIPS.get(name)
    if chip is None:
        raise ValueError(
            f"--topology={topology}: unknown chip {name!r}; write TPU:EXTENT, TPU one of {list(CHIPS)}, or GPU:COUNT, "
            f"GPU one of {list(cards.known())}"
        )
    if extent not in chip.slices:
        choices = " ".join(f"{name}:{each}" for each in chip.slices)
        raise ValueError(f"--topology={topology}: no such slice; choose from {choices}")
    return Slice(topology, chip, tuple(int(size) for size in extent.split("x")))
