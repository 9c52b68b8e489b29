"""No text becomes code, and no file an object, in this process: docs/security.md, as a law of the source."""

import ast
import fnmatch
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# What is never named, called or not: builtins, and members of modules.
FORBIDDEN = (
    *("eval", "exec", "compile", "__import__", "builtins.*", "code.*", "codeop.*", "runpy.*", "importlib.import_*"),
    *("importlib.util.spec_from_*", "importlib.util.module_from_*", "importlib.machinery.*"),
    *("pickle.*", "_pickle.*", "dill.*", "cloudpickle.*", "marshal.*", "shelve.*", "joblib.*", "multiprocessing.conn*"),
    *("yaml.*", "ruamel.*", "torch.load", "torch.hub.*", "torch.jit.*", "pandas.*"),
    *("os.system", "os.popen", "os.exec*", "os.spawn*", "os.posix_spawn*", "posix.*", "pty.*"),
    *("subprocess.getoutput", "subprocess.getstatusoutput", "asyncio.create_subprocess_shell"),
    # these hand text to Python's eval
    *("sympy.sympify", "sympy.S", "sympy.parse_expr", "sympy.parsing.*", "sympy.core.sympify.*", "sympy.lambdify"),
    *("math_verify.parse", "math_verify.parser.*"),
    *("jinja2.Environment", "jinja2.Template", "jinja2.environment.*", "jinja2.nativetypes.*"),
)
FALSE = ("shell", "allow_pickle", "trust_remote_code")  # arguments that are never anything else
# Where one of these stands after all, and why.
_OUTSIDE = "code that the user's configuration names, or a recipe of their own"
_INSIDE = "the exception: inside the sandbox, in an interpreter of its own"
ALLOWED = {
    ("spicejax/score/program.py", "compile"): _INSIDE,
    ("spicejax/score/program.py", "exec"): _INSIDE,
    ("spicejax/memory.py", "os.execv"): "starts this very command again",
    ("spicejax/report/page.py", "jinja2.Environment"): "of the page's own templates",
    ("spicejax/commands/__init__.py", "importlib.import_module"): "of one of COMMANDS",
    ("configs/__init__.py", "importlib.import_module"): "of one of the recipes that are there",
    ("spicejax/games/catalogue.py", "importlib.import_module"): "of one of the games that are there",
    ("spicejax/outside.py", "importlib.import_module"): _OUTSIDE,
    ("spicejax/outside.py", "importlib.util.spec_from_loader"): _OUTSIDE,
    ("spicejax/outside.py", "importlib.util.module_from_spec"): _OUTSIDE,
    ("spicejax/outside.py", "importlib.machinery.SourceFileLoader"): _OUTSIDE,
}


def sources() -> list[Path]:
    """Every source file once: spicejax/models and spicejax/configs are links."""
    found = (path for room in ("spicejax", "models", "configs", "launch") for path in (ROOT / room).rglob("*.py"))
    return sorted({path.resolve() for path in found})


def _origins(tree: ast.AST) -> dict[str, str]:
    """What each imported name stands for, dotted."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                found[each.asname or each.name.split(".")[0]] = each.name if each.asname else each.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return found


def _named(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Dotted names that a source names, with their lines."""
    origins = _origins(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            parts: list[str] = []
            inner: ast.AST = node
            while isinstance(inner, ast.Attribute):
                parts.insert(0, inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name) and (not parts or inner.id in origins):
                yield ".".join([origins.get(inner.id, inner.id), *parts]), node.lineno


def _forbidden(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in FORBIDDEN)


def faults(source: str) -> list[tuple[str, int]]:
    """What a source has of FORBIDDEN and FALSE, with its lines."""
    tree = ast.parse(source)
    found = {(name, line) for name, line in _named(tree) if _forbidden(name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in FALSE:
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                found.add((str(node.arg), node.value.lineno))
    return sorted(found)


def test_no_text_becomes_code():
    found = {}
    for path in sources():
        for name, line in faults(path.read_text()):
            found[path.relative_to(ROOT).as_posix(), name] = line
    assert not [f"{file}:{line}: {name}" for (file, name), line in found.items() if (file, name) not in ALLOWED]
    assert set(ALLOWED) <= set(found), "no longer there: take it from ALLOWED"


@pytest.mark.parametrize(
    "source, names",
    [
        ("eval(text)", ["eval"]),
        ("list(map(exec, texts))", ["exec"]),
        ("class Config:\n    eval: int = 1\nconfig.eval = model.eval()", []),
        ("import pickle as p\np.loads(text)", ["pickle.loads"]),
        ("def f():\n    from pickle import load\n    return load(file)", ["pickle.load"]),
        ("import yaml\nyaml.load(file)", ["yaml.load"]),
        ("import os\nos.system(text)\nos.popen(text)", ["os.popen", "os.system"]),
        ("import os.path\nos.execvp('sh', [])\nos.path.join()", ["os.execvp"]),
        ("import subprocess\nsubprocess.run(text, shell=True)", ["shell"]),
        ("import subprocess\nsubprocess.run(words, shell=False)", []),
        ("from sympy import Set, sympify\nSet(sympify(text))", ["sympy.sympify"]),
        (
            "from sympy.parsing import latex as l\nl.parse_latex(text)",
            ["sympy.parsing.latex", "sympy.parsing.latex.parse_latex"],
        ),
        ("import torch\ntorch.load(file)\nmodel.load(file)", ["torch.load"]),
        ("import numpy as np\nnp.load(file, allow_pickle=kind)", ["allow_pickle"]),
        ("import jinja2, jinja2.sandbox\njinja2.sandbox.ImmutableSandboxedEnvironment()", []),
        ("re.compile(text)", []),
    ],
)
def test_the_law_sees(source, names):
    assert [name for name, _ in faults(source)] == names
