"""Owns the process that runs Math-Verify: one JSON request per line in, one verdict per line out.

Started by file path, it imports neither jax nor anything of spicejax. It imports sympy once and then forks a child for
every pair, so that a pair sees the same fresh state whatever came before it, and takes down nothing but itself. The
child's CPU time is limited by the kernel (a profiling timer whose signal kills), because sympy can spend minutes in one
call that no Python handler interrupts; CPU time, not wall time, so that a loaded machine gives the same verdicts.

Request:  {"gold": str, "answer": str, "cpu": seconds, "wall": seconds}
Verdict:  {"how": "math_verify" | "timeout" | "crashed", "correct": bool}
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

Check = Callable[[str, str], bool]

_MEMORY_BYTES = 1 << 30  # address space that one pair may use, sympy's own included

_WORDS = (
    "arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|log|ln|exp|pi|infty|alpha|beta|gamma|delta|epsilon|theta"
    "|lambda|mu|sigma|omega|phi|rho|tau"
)
_BARE_WORD = re.compile(rf"(?<![\\A-Za-z])({_WORDS})(?![A-Za-z])")
_BARE_POWER = re.compile(r"\^\s*(-?[0-9]+(?:\.[0-9]+)?|\((?:[^()]*)\))")


def to_latex(text: str) -> str:
    """Turn keyboard notation into LaTeX: x**10 -> x^{10}, sin(x) -> \\sin(x), pi -> \\pi, <= -> \\le."""
    text = text.strip().replace("**", "^").replace("\u2212", "-").replace("√", "\\sqrt").replace("π", "\\pi ")
    text = text.replace("<=", "\\le ").replace(">=", "\\ge ").replace("$", "")
    text = re.sub(r"(?<![\\A-Za-z])(?:infinity|inf|oo)(?![A-Za-z])", r"\\infty", text)
    text = _BARE_WORD.sub(r"\\\1 ", text)
    return _BARE_POWER.sub(lambda m: "^{" + m[1] + "}", text)


def load_check() -> Check:
    """Import Math-Verify and return check(gold, answer); warms the parser's tables, which children then inherit."""
    from math_verify import LatexExtractionConfig, parse, verify

    logging.disable(logging.CRITICAL)  # it would log every disabled timeout
    # LaTeX only: the plain-expression reader hands model text to sympy's parse_expr, which is Python's eval.
    config = [LatexExtractionConfig(boxed_match_priority=-1)]

    def read(text: str) -> list:
        return parse(f"${to_latex(text)}$", config, fallback_mode="no_fallback", parsing_timeout=None)  # pyright: ignore

    def check(gold: str, answer: str) -> bool:
        wanted = read(gold)
        return bool(wanted) and bool(verify(wanted, read(answer), timeout_seconds=None))

    for pair in (("x^2+2x+1", "(x+1)^2"), ("\\{1,2\\}", "\\{2,1\\}"), ("\\frac12", "0.5"), ("\\sqrt{8}", "2\\sqrt2")):
        check(*pair)
    return check


def _limit(cpu: float) -> None:
    """Bound this process: CPU seconds, address space, no files, no further processes."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def _child(check: Check, request: dict, out: int) -> None:
    """Judge one pair, write one byte and leave; never returns."""
    byte = b"!"
    try:
        _limit(request["cpu"])
        byte = b"1" if check(request["gold"], request["answer"]) else b"0"
    except (MemoryError, RecursionError):
        pass
    finally:
        os.write(out, byte)
        os._exit(0)


def judge(check: Check, request: dict) -> dict:
    """Judge one pair in a forked child under its limits."""
    inward, outward = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(check, request, outward)
    os.close(outward)
    ready, _, _ = select.select([inward], [], [], request["wall"])
    byte = os.read(inward, 1) if ready else b""
    os.close(inward)
    os.kill(pid, signal.SIGKILL)  # it may be stuck without using CPU; where it has ended, this changes nothing
    _, status = os.waitpid(pid, 0)
    if byte in (b"0", b"1"):
        return {"how": "math_verify", "correct": byte == b"1"}
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    late = not ready or ended_by == signal.SIGPROF
    return {"how": "timeout" if late else "crashed", "correct": False}


def main() -> None:
    """Serve requests from stdin until it closes."""
    out = os.dup(1)
    os.dup2(2, 1)  # nothing that a library prints may reach the protocol
    try:
        check = load_check()
    except ImportError as error:
        os.write(out, json.dumps({"fatal": str(error)}).encode() + b"\n")
        return
    gc.freeze()  # keeps the children from copying pages just to mark them
    os.write(out, b'{"ready": true}\n')
    for line in sys.stdin.buffer:
        os.write(out, json.dumps(judge(check, json.loads(line))).encode() + b"\n")


if __name__ == "__main__":
    main()
