"""The process that runs Math-Verify, or a verifier of the user's own: one JSON request a line, one verdict a line.

Started by file path, it imports neither jax nor anything of spicejax, unless its argument names such a verifier. It
imports sympy, or the verifier's module, once and then forks a child for every pair. Each pair sees the same fresh
state and takes down nothing but itself. The child's CPU time is limited by the kernel (a
profiling timer whose signal kills), because sympy can spend minutes in one call that no Python handler interrupts; CPU
time, not wall time, so that a loaded machine gives the same verdicts.

Request:  {"claim": claim, "cpu": seconds, "wall": seconds}
Claim:    [gold, answer] are equal | ["all", claims] hold | ["match", rows of claims] pair each row with a column;
          with a verifier of the user's own [text, fields of the Task]
Verdict:  {"how": "math_verify" | "verifier" | "timeout" | "crashed" | "raised", "correct": bool, "why": str}
First line: {"ready": true} or {"fatal": str}
"""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import resource
import select
import signal
import sys
from collections.abc import Callable
from typing import Any

Check = Callable[[list], bool]

_MEMORY_BYTES = 1 << 30  # address space that one pair may use, sympy's own included, a user's own modules not
_LONGEST_ERROR = 300  # bytes

_WORDS = (
    "arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|log|ln|exp|pi|infty|alpha|beta|gamma|delta|epsilon|theta"
    "|lambda|mu|sigma|omega|phi|rho|tau"
)
_BARE_WORD = re.compile(rf"(?<![\\A-Za-z])({_WORDS})(?![A-Za-z])")
_IMAGINARY = re.compile(r"(?<![A-Za-z\\])i(?![A-Za-z_])(\s*\^)?")  # the parser knows it as I, and drops I's power
_INDEX = re.compile(r"_\{?\s*i(?![A-Za-z])")
_SLOPE = re.compile(r"\\[dt]?frac\s*\{\s*(?:d|\\partial)\s*([A-Za-z])\s*\}\s*\{\s*(?:d|\\partial)\s*([A-Za-z])\s*\}")
_CAPITAL_I = re.compile(r"\\[A-Za-z]+|(I)")
_BARE_POWER = re.compile(r"\^\s*(-?[0-9]+(?:\.[0-9]+)?|\((?:[^()]*)\))")


def to_latex(text: str) -> str:
    """Turn keyboard notation into LaTeX: x**10 -> x^{10}, sin(x) -> \\sin(x), pi -> \\pi, <= -> \\le."""
    text = text.strip().replace("**", "^").replace("\u2212", "-").replace("√", "\\sqrt").replace("π", "\\pi ")
    text = text.replace("<=", "\\le ").replace(">=", "\\ge ").replace("$", "")
    text = re.sub(r"(?<![\\A-Za-z])(?:infinity|inf|oo)(?![A-Za-z0-9])", r"\\infty", text)
    text = _CAPITAL_I.sub(lambda m: "\\text{I}" if m[1] else m[0], text)
    text = text if _INDEX.search(text) else _IMAGINARY.sub(lambda m: "{I}^" if m[1] else "I", text)
    text = _SLOPE.sub(r"D_{\1\2}", text)  # dy/dx would be carried out, to 0
    text = _BARE_WORD.sub(r"\\\1 ", text)
    return _BARE_POWER.sub(lambda m: "^{" + m[1] + "}", text)


def load_check() -> Check:
    """Import Math-Verify and return check(claim); warms the parser's tables, which children then inherit."""
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig, NormalizationConfig, latex2sympy, normalize_latex
    from math_verify.grader import should_treat_as_complex, verify

    logging.disable(logging.CRITICAL)  # it would log every disabled timeout
    # LaTeX only: a plain-expression reader hands model text to sympy's parse_expr, which is Python's eval. Units are
    # told apart before, and letters keep their case.
    clean = NormalizationConfig(units=False, malformed_operators=True, nits=True, boxed="none")
    convert = ConversionConfig(lowercase_symbols=False)

    def read(text: str, real: bool) -> Any:
        return latex2sympy(
            text, is_real=real, convert_degrees=True, normalization_config=None, conversion_config=convert
        )

    def equal(gold: str, answer: str) -> bool:
        texts = [normalize_latex(to_latex(text), clean) for text in (gold, answer)]
        real = not any(map(should_treat_as_complex, texts))  # one world for both, so that their symbols are equal
        try:
            pair = [read(text, real) for text in texts]
            return may_be_equal(*pair) and bool(verify(*pair, timeout_seconds=None))
        except Exception:  # whatever a parser and sympy's constructors raise at nonsense
            return False

    for pair in (("x^2+2x+1", "(x+1)^2"), ("\\{1,2\\}", "\\{2,1\\}"), ("\\frac12", "0.5"), ("\\sqrt{8}", "2\\sqrt2")):
        equal(*pair)
    return lambda claim: holds(claim, equal)


def load_function(name: str) -> Check:
    """Import a verifier of the user's own and return check(claim). Raises ValueError where there is none such."""
    import inspect

    from spicejax import outside
    from spicejax.types import Task

    function = outside.load(name, "verifier")
    signature = f"def {name.rpartition(':')[2]}(text: str, task: Task) -> bool"
    try:
        inspect.signature(function).bind("", None)
    except TypeError as error:
        raise ValueError(f"verifier={name}: {error}; define it as {signature}") from error

    def check(claim: list) -> bool:
        text, fields = claim
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
        verdict = function(text, Task(**fields))
        if not isinstance(verdict, bool):
            raise TypeError(f"it returned {verdict!r:.80}; return True or False")
        return verdict

    return check


def holds(claim: list, equal: Callable[[str, str], bool]) -> bool:
    """Say whether a claim holds, asking `equal` for as few pairs as that takes."""
    if isinstance(claim, bool):
        return claim
    if isinstance(claim[1], str):
        return equal(*claim)
    if claim[0] == "all":
        return all(holds(part, equal) for part in claim[1])
    free = list(range(len(claim[1])))
    for row in claim[1]:
        column = next((column for column in free if holds(row[column], equal)), None)
        if column is None:
            return False
        free.remove(column)
    return True


def may_be_equal(gold: Any, answer: Any) -> bool:
    """Say whether symbols agree in name and case, and numbers relative to their size; Math-Verify asks neither."""
    from sympy import Expr, Float, MatrixBase, Rational, Set, simplify
    from sympy.core.function import AppliedUndef

    if isinstance(gold, MatrixBase) and isinstance(answer, MatrixBase):
        return gold.shape == answer.shape and all(map(may_be_equal, gold.flat(), answer.flat()))
    if isinstance(answer, Set) and not isinstance(gold, Set):  # 1 < x < 2 is the interval (1, 2)
        return True
    names = [
        {str(s) for s in e.free_symbols} | {type(f).__name__ for f in e.atoms(AppliedUndef)} for e in (gold, answer)
    ]
    if names[0] != names[1]:
        return False
    if not isinstance(gold, Expr) or not isinstance(answer, Expr):
        return True
    # Symbols stand for some number here: 10^{-20} x is not 10^{-21} x.
    at = [(symbol, Rational(2 * i + 5, 7)) for i, symbol in enumerate(sorted(gold.free_symbols, key=str))]
    a, b = (expression.subs(at).evalf(50) for expression in (gold, answer))
    if a == b or at and not (a.is_number and b.is_number):
        return True
    if a.is_finite is False or b.is_finite is False:
        return False
    if a == 0 or b == 0:
        return simplify(gold - answer).is_zero is True
    return bool(abs(a - b) <= abs(a) * (1e-6 if gold.has(Float) or answer.has(Float) else 1e-40))


def _held() -> int:
    """Bytes of address space that this process holds; 0 where that is not told."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _limit(cpu: float, memory: int) -> None:
    """Bound this process: CPU seconds, address space, no files, no further processes."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def _child(check: Check, request: dict, memory: int, out: int) -> None:
    """Judge one pair, write one byte, behind a ? the error, and leave; never returns."""
    output = b"!"
    try:
        _limit(request["cpu"], memory)
        output = b"1" if check(request["claim"]) else b"0"
    except (MemoryError, RecursionError):
        pass
    except Exception as error:  # a verifier of the user's own
        output = f"?{type(error).__name__}: {' '.join(str(error).split())}".encode(errors="replace")[:_LONGEST_ERROR]
    finally:
        os.write(out, output)
        os._exit(0)


def judge(check: Check, request: dict, how: str = "math_verify", memory: int = _MEMORY_BYTES) -> dict:
    """Judge one pair in a forked child under its limits."""
    inward, outward = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(check, request, memory, outward)
    os.close(outward)
    ready, _, _ = select.select([inward], [], [], request["wall"])
    output = os.read(inward, _LONGEST_ERROR) if ready else b""
    os.close(inward)
    os.kill(pid, signal.SIGKILL)  # it may be stuck without using CPU; where it has ended, this changes nothing
    _, status = os.waitpid(pid, 0)
    if output in (b"0", b"1"):
        return {"how": how, "correct": output == b"1"}
    if output[:1] == b"?":
        return {"how": "raised", "correct": False, "why": output[1:].decode(errors="replace")}
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    late = not ready or ended_by == signal.SIGPROF
    return {"how": "timeout" if late else "crashed", "correct": False}


def main() -> None:
    """Serve requests from stdin until it closes."""
    out, name = os.dup(1), sys.argv[1] if len(sys.argv) > 1 else ""
    os.dup2(2, 1)  # nothing that a library prints may reach the protocol
    try:
        check = load_function(name) if name else load_check()
    except (ImportError, ValueError) as error:
        os.write(out, json.dumps({"fatal": str(error)}).encode() + b"\n")
        return
    limits = {"how": "verifier", "memory": _MEMORY_BYTES + _held()} if name else {}
    gc.freeze()  # keeps the children from copying pages just to mark them
    os.write(out, b'{"ready": true}\n')
    for line in sys.stdin.buffer:
        os.write(out, json.dumps(judge(check, json.loads(line), **limits)).encode() + b"\n")


if __name__ == "__main__":
    main()
