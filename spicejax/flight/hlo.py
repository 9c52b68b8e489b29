"""What an optimised HLO module costs on one device: FLOPs, HBM bytes and collectives, loops multiplied by their trips.

XLA's own `cost_analysis` counts the body of a loop once, which makes it useless for a model whose layers are scanned.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

# FLOPs of one call of a hand-written kernel, from its name and its operands' dimensions; None = not known.
KernelFlops = Callable[[str, Sequence[tuple[int, ...]]], float | None]

_ARRAY = re.compile(r"([a-z]\w*)\[([\d,]*)\](\{[^{}]*\})?")
_HEADER = re.compile(r"^(?:ENTRY )?%(\S+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%(\S+) = (.*)$")
_PARENTHESIS = re.compile(r"[()]")
_OPCODE = re.compile(r" ?([a-z][\w\-]*)\(")

# Moves nothing, or what it moves is counted by the instruction that produced or will read it.
_FREE = frozenset(
    """parameter constant tuple get-tuple-element bitcast after-all partition-id replica-id iota copy-done slice-done
    async-done async-update all-gather-done all-reduce-done collective-permute-done reduce-scatter-done all-to-all-done
    collective-broadcast-done optimization-barrier add-dependency opt-barrier""".split()
)
COLLECTIVES = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast")
# Custom calls that are kernels of Pallas, on TPU and by JAX's version on GPU.
_KERNELS = ("tpu_custom_call", "__gpu$xla.gpu.triton", "triton_kernel_call", "triton_kernel_call_ffi")
_SLICES = ("dynamic-slice", "slice", "gather")


class Shape(NamedTuple):
    """One array: its size and where it lives."""

    dims: tuple[int, ...]
    bytes: float
    on_chip: bool  # in vector or scalar memory instead of HBM


class Collective(NamedTuple):
    """One collective instruction."""

    kind: str
    group: int  # devices that take part in one exchange
    shape: tuple[int, ...]  # of its largest result on a device


@dataclasses.dataclass
class Cost:
    """Of one run on one device."""

    flops: float = 0.0  # of matrix multiplications
    bytes: float = 0.0  # read from and written to HBM
    wire: collections.Counter[Collective] = dataclasses.field(default_factory=collections.Counter)  # bytes sent
    unknown: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)  # kernels without a cost

    def add(self, other: Cost, times: float = 1) -> None:
        self.flops += times * other.flops
        self.bytes += times * other.bytes
        for mine, theirs in ((self.wire, other.wire), (self.unknown, other.unknown)):
            for key, value in theirs.items():
                mine[key] += times * value  # pyright: ignore[reportArgumentType]  # counters hold floats too


@dataclasses.dataclass(frozen=True)
class _Instruction:
    name: str
    opcode: str
    type: str  # as it is printed
    shapes: tuple[Shape, ...]  # one, or those of a tuple
    operands: tuple[str, ...]
    attributes: str
    arguments: str
    root: bool

    def called(self, key: str) -> str:
        return self.attribute(rf"\b{key}=%([^,\s)]+)") or ""

    def attribute(self, pattern: str) -> str | None:
        """What the first group of `pattern` finds in the attributes."""
        found = re.search(pattern, self.attributes)
        return found and found.group(1)

    @property
    def library(self) -> bool:
        """Whether this is a matrix product of cuBLAS."""
        return self.opcode == "custom-call" and 'custom_call_target="__cublas$' in self.attributes

    @property
    def bytes(self) -> float:
        return sum(s.bytes for s in self.shapes)

    @property
    def hbm(self) -> float:
        return sum(s.bytes for s in self.shapes if not s.on_chip)


Computation = dict[str, _Instruction]


def _root(computation: Computation) -> _Instruction:
    return next(i for i in computation.values() if i.root)


def _number(instructions: Iterable[_Instruction]) -> int | None:
    """The one whole number among constants; None for none or several."""
    found = [int(i.arguments) for i in instructions if i.opcode == "constant" and i.arguments.isdigit()]
    return found[0] if len(found) == 1 else None


def _shapes(text: str) -> tuple[Shape, ...]:
    shapes = []
    for dtype, dims, layout in _ARRAY.findall(text):
        digits = re.search(r"\d+", dtype)  # pred has none and takes a byte
        bits = int(digits.group()) if digits else 8 * (dtype not in ("token", "opaque"))
        sizes = tuple(int(d) for d in dims.split(",") if d)
        shapes.append(Shape(sizes, math.prod(sizes) * bits / 8, "S(" in layout))
    return tuple(shapes)


def _closing(text: str, start: int) -> int:
    """Index of the parenthesis that closes the one at `start`."""
    depth = 0
    for found in _PARENTHESIS.finditer(text, start):
        depth += 1 if found.group() == "(" else -1
        if depth == 0:
            return found.start()
    raise ValueError(f"unbalanced parentheses in HLO: {text[:120]}")


def _element(scope: Computation, name: str) -> _Instruction:
    """What newer texts (jax 0.12) write as `%tuple#1` and older ones as an instruction, get-tuple-element."""
    source, _, index = name.rpartition("#")
    if source not in scope:
        scope[source] = _element(scope, source)
    text, depth, starts = scope[source].type, 0, []
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if (letter == "(" and depth == 1) or (letter == "," and depth == 1):
            starts.append(at + 1)
    part = text[starts[int(index)] : [*starts[1:], len(text)][int(index)] - 1].strip()
    return _Instruction(
        name, "get-tuple-element", part, _shapes(part), (source,), f", index={index}", f"%{source}", False
    )


def parse(text: str) -> tuple[dict[str, Computation], str]:
    """Computations by name, and the name of the entry."""
    computations: dict[str, Computation] = {}
    entry, current = "", None
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header:
            current = computations[header.group(1)] = {}
            entry = header.group(1) if line.startswith("ENTRY") else entry
        elif (found := _INSTRUCTION.match(line)) and current is not None:
            root, name, rest = found.groups()
            split = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
            opcode = _OPCODE.match(rest, split)
            if opcode is None:
                raise ValueError(f"cannot read HLO instruction: {line[:200]}")
            end = _closing(rest, opcode.end() - 1)
            arguments = rest[opcode.end() : end]
            operands = tuple(re.findall(r"%([^,\s)]+)", arguments))
            for operand in operands:
                if "#" in operand and operand not in current:
                    current[operand] = _element(current, operand)
            current[name] = _Instruction(
                name,
                opcode.group(1),
                rest[:split],
                _shapes(rest[:split]),
                operands,
                rest[end + 1 :],
                arguments,
                bool(root),
            )
    if not entry:
        raise ValueError("no ENTRY computation in this HLO text")
    return computations, entry


def cost(text: str, *, dynamic_trips: Sequence[float] = (1,), kernels: KernelFlops | None = None) -> Cost:
    """Cost of a module after optimisation and partitioning.

    Args:
      dynamic_trips: trips of loops whose bound is not a constant: of the outermost, of those inside it, and so on;
        the last number also counts for loops that are nested deeper.
      kernels: what hand-written kernels cost, where they do not say it themselves; XLA cannot see inside.
    """
    computations, entry = parse(text)
    return _Counter(computations, dynamic_trips, kernels or (lambda *_: None)).computation(entry)


@dataclasses.dataclass(eq=False)
class _Counter:
    """One module under count."""

    all: dict[str, Computation]
    dynamic_trips: Sequence[float]
    kernels: KernelFlops
    done: dict[tuple[str, int], Cost] = dataclasses.field(default_factory=dict)

    def computation(self, name: str, depth: int = 0) -> Cost:
        """One run of a computation that lies inside `depth` loops whose bound is not a constant."""
        if (name, depth) not in self.done:
            total = self.done[name, depth] = Cost()
            for instruction in self.all[name].values():
                total.add(self.instruction(name, instruction, depth))
        return self.done[name, depth]

    def instruction(self, where: str, it: _Instruction, depth: int) -> Cost:
        total = Cost()
        if it.opcode == "while":
            constant = self.trips(it)
            dynamic = self.dynamic_trips[min(depth, len(self.dynamic_trips) - 1)]
            trips = dynamic if constant is None else constant
            total.add(self.computation(it.called("body"), depth + (constant is None)), trips)
        elif it.opcode == "conditional":
            names = it.attribute(r"branch_computations=\{([^}]*)\}") or "%" + it.called("true_computation")
            costs = [self.computation(name, depth) for name in re.findall(r"%([^,\s]+)", names)]
            total.add(max(costs, key=lambda c: (c.flops, c.bytes)))
        elif it.opcode in ("call", "async-start"):
            total.add(self.computation(it.called("to_apply") or it.called("calls"), depth))
        elif it.opcode == "fusion":
            inner = self.computation(it.called("calls"), depth)
            total.add(Cost(inner.flops, self.fusion_bytes(where, it), inner.wire, inner.unknown))
        elif it.opcode not in _FREE:
            if it.opcode.removesuffix("-start") in COLLECTIVES:
                self.collective(where, it, total)
            elif it.opcode in ("convolution", "dot") or it.library:
                total.flops += self.matmul_flops(where, it)
            elif it.opcode == "custom-call":
                self.kernel(where, it, total)
            total.bytes += self.plain_bytes(where, it)
        return total

    def trips(self, loop: _Instruction) -> int | None:
        """Trips of a loop that counts from 0 to a constant; None where its condition has none."""
        condition = self.all[loop.called("condition")]
        scopes = [condition, *(self.all[i.called("calls")] for i in condition.values() if i.opcode == "fusion")]
        parts = [i for scope in scopes for i in scope.values()]
        compares, bound = [i for i in parts if i.opcode == "compare"], _number(parts)
        if bound is not None and len(compares) == 1 and "direction=LT" in compares[0].attributes:
            return math.ceil(bound / self.stride(loop, condition))
        return None

    def stride(self, loop: _Instruction, condition: Computation) -> int:
        """By how much a trip advances the counter: loops of overlapped collectives are unrolled by 2."""
        counter = next(i for i in condition.values() if i.opcode == "get-tuple-element" and i.shapes[0].dims == ())
        index = counter.attribute(r"index=(\d+)")
        body = self.all[loop.called("body")]
        root = _root(body)
        if index is None or root.opcode != "tuple":
            return 1
        step = body[root.operands[int(index)]]
        while step.opcode in ("copy", "bitcast"):
            step = body[step.operands[0]]
        scope = self.all[step.called("calls")] if step.opcode == "fusion" else {}
        return _number([*(body[o] for o in step.operands), *scope.values()]) or 1

    def plain_bytes(self, where: str, it: _Instruction) -> float:
        """HBM traffic of an instruction that is no fusion; slices move the slice alone, updates the update alone."""
        scope = self.all[where]
        if it.opcode in _SLICES:
            return 2 * it.hbm
        if it.opcode == "dynamic-update-slice":
            return 2 * scope[it.operands[1]].hbm
        if it.opcode in ("copy-start", "slice-start"):  # (destination, source, ...): both have the slice's size
            size = min(s.bytes for s in it.shapes[:2])
            return sum(size for s in it.shapes[:2] if not s.on_chip)
        written = it.shapes[0].bytes if it.library else it.hbm  # of a product alone, not the room it works in
        return written + sum(scope[o].hbm for o in it.operands)

    def fusion_bytes(self, where: str, it: _Instruction) -> float:
        inner = it.called("calls")
        operands = [self.all[where][name] for name in it.operands]
        total = sum(min(self.read(inner, k), operand.bytes) for k, operand in enumerate(operands) if operand.hbm)
        root = _root(self.all[inner])
        outputs = root.operands if root.opcode == "tuple" else (root.name,)
        for name, shape in zip(outputs, it.shapes, strict=False):
            if not shape.on_chip:
                total += min(self.written(inner, name), shape.bytes)
        return total

    @functools.cache  # noqa: B019  # lives as long as the counter
    def read(self, name: str, index: int) -> float:
        """Bytes that the fused computation `name` reads of its parameter `index`."""
        scope = self.all[name]
        parameter = next(i for i in scope.values() if i.opcode == "parameter" and i.arguments == str(index))
        root, whole = _root(scope).name, parameter.bytes
        entry = whole / max(1, sum(math.prod(s.dims) for s in parameter.shapes))
        total, pending, seen = 0.0, [parameter.name], set()
        while pending:
            source = pending.pop()
            if source == root:
                return whole
            for user in scope.values():
                if source not in user.operands or (user.name, source) in seen:
                    continue
                seen.add((user.name, source))
                if user.opcode in _SLICES and user.operands[0] == source:
                    total += entry * sum(math.prod(s.dims) for s in user.shapes)
                elif user.opcode == "dynamic-update-slice" and user.operands[0] == source:
                    continue  # updated in place
                elif user.opcode in ("bitcast", "convert") or (user.opcode == "fusion" and self.passes(user, source)):
                    pending.append(user.name)  # element by element: what is sliced of it later is all that is read
                elif user.opcode == "fusion":
                    total += sum(self.read(user.called("calls"), k) for k, o in enumerate(user.operands) if o == source)
                else:
                    return whole
        return min(total, whole)

    def passes(self, fusion: _Instruction, operand: str) -> bool:
        """Whether a fusion inside a fusion only renames the elements of `operand`: other type, shape or tiles."""
        scope = self.all[fusion.called("calls")]
        renames = {"bitcast", "convert"} | ({"copy"} if "output_to_operand_aliasing" in fusion.attributes else set())
        it = _root(scope)
        while it.opcode in renames or (it.opcode == "fusion" and self.passes(it, it.operands[0])):
            it = scope[it.operands[0]]
        return it.opcode == "parameter" and fusion.operands[int(it.arguments)] == operand

    def written(self, name: str, value: str) -> float:
        """Bytes that the fused computation `name` writes for its result `value`."""
        scope = self.all[name]
        it = scope[value]
        while it.opcode == "bitcast":
            it = scope[it.operands[0]]
        if it.opcode == "dynamic-update-slice":
            return scope[it.operands[1]].bytes
        if it.opcode == "fusion":
            inner = it.called("calls")
            root = _root(self.all[inner])
            if root.opcode != "tuple":
                return self.written(inner, root.name)
        return it.bytes

    def matmul_flops(self, where: str, it: _Instruction) -> float:
        left, right = (self.all[where][o].shapes[0].dims for o in it.operands[:2])
        out = it.shapes[0].dims
        if it.opcode == "convolution":
            return _convolution_flops(left, right, out, it.attributes)
        named = r'"lhs_contracting_dimensions":\[([^\]]*)\]' if it.library else r"lhs_contracting_dims=\{([\d,]*)\}"
        contracted = re.findall(r"\d+", it.attribute(named) or "")
        return 2.0 * math.prod(out) * math.prod(left[int(d)] for d in contracted)

    def collective(self, where: str, it: _Instruction, total: Cost) -> None:
        scope = self.all[where]
        if it.attribute(r'chain_id="(\d+)"') and not any(
            "AsyncCollectiveStart" in i.attributes for i in scope.values()
        ):
            return  # the same exchange, seen again in the fusions that run while it is under way
        kind = it.opcode.removesuffix("-start")
        if where.startswith("all-reduce-scatter"):
            kind = "reduce-scatter"
        group = _group_size(it.attributes)
        share = (group - 1) / group
        size = sum(scope[o].bytes for o in it.operands)
        if kind == "all-gather":
            started = it.opcode.endswith("-start") and len(it.shapes) > 1  # a tuple of operands and results
            size = sum(s.bytes for s in it.shapes[len(it.shapes) // 2 * started :])
        sent = size * {"all-reduce": 2 * share, "collective-permute": 1}.get(kind, share)
        largest = max(it.shapes, key=lambda s: s.bytes)
        total.wire[Collective(kind, group, largest.dims)] += sent  # pyright: ignore[reportArgumentType]

    def kernel(self, where: str, it: _Instruction, total: Cost) -> None:
        """A custom call: a kernel says itself what it costs, or `kernels` does, or it is reported as unknown."""
        target, called = it.attribute(r'custom_call_target="([^"]+)"'), it.attribute(r'op_name="([^"]+)"') or it.name
        if target not in _KERNELS and "fmha" not in (target or ""):
            return
        stated = it.attribute(r'"cost_estimate":\{[^}]*"flops":"?(\d+)')
        operands = [self.all[where][o].shapes[0].dims for o in it.operands]
        flops = float(stated) if stated else self.kernels(it.name if target == "tpu_custom_call" else called, operands)
        if flops is None:
            total.unknown[called] += 1
        else:
            total.flops += flops


def _group_size(attributes: str) -> int:
    """Devices of one group, from any of XLA's three spellings of replica_groups (or the pairs of a permute)."""
    if found := re.search(r"replica_groups=mesh\[([^\]]*)\] ?\{([^}]*)\}", attributes):
        sizes = dict(re.findall(r"'([^']+)'=(\d+)", found.group(1)))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'([^']+)'", found.group(2)))
    if found := re.search(r"replica_groups=\[(\d+),(\d+)\]<=", attributes):
        return int(found.group(2))
    if found := re.search(r"replica_groups=\{\{([\d,]*)\}", attributes):
        return len(found.group(1).split(","))
    return 2


def _convolution_flops(left: tuple[int, ...], right: tuple[int, ...], out: tuple[int, ...], attributes: str) -> float:
    """2 x multiply-adds of a convolution, without those that meet padding or a hole of a dilation.

    XLA:TPU writes matrix multiplications as convolutions, and batch dimensions as dilated spatial ones.
    """
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", attributes)
    if labels is None:
        raise ValueError(f"convolution without dim_labels: {attributes[:120]}")
    inputs, kernel, outputs = labels.groups()
    window = re.search(r"window=\{([^}]*)\}", attributes)
    fields = dict(part.split("=") for part in window.group(1).split()) if window else {}
    spatial = sorted(c for c in outputs if c.isdigit())
    total = 2.0 * out[outputs.index("b")] * out[outputs.index("f")] * right[kernel.index("i")]
    for axis, label in enumerate(spatial):
        stride, dilation, hole = (
            int(fields[name].split("x")[axis]) if name in fields else 1
            for name in ("stride", "rhs_dilate", "lhs_dilate")
        )
        low = int(fields["pad"].split("x")[axis].split("_")[0]) if "pad" in fields else 0
        # Where each pair (output, kernel) of this axis meets the input, and whether an element is there.
        starts = stride * np.arange(out[outputs.index(label)])
        at = starts[:, None] + dilation * np.arange(right[kernel.index(label)]) - low
        limit = (left[inputs.index(label)] - 1) * hole
        total *= int(((at >= 0) & (at <= limit) & (at % hole == 0)).sum())
    return total
