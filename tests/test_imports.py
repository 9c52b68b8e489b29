"""The import law: imports point left, models stand alone, heavy optional libraries stay inside functions."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import processes
import pytest

from spicejax import config as configuration
from spicejax import configs
from spicejax.games import catalogue
from spicejax.models import presets
from spicejax.models.config import TransformerConfig

ROOT = Path(__file__).resolve().parent.parent

# Room -> the rooms of spicejax it may import, itself included. "foundation" is types.py, config.py, sharding.py, ...
ALLOWED: dict[str, set[str]] = {
    "foundation": set(),
    "models": set(),
    "text": {"foundation", "models"},  # files.py: a tokenizer lies where its model lies
    "data": {"foundation", "models", "text"},  # files.py: how a file of JSON is read
    "retrieval": {"foundation", "models", "text", "data"},
    "score": {"foundation"},  # text in, numbers out: no network
    "generate": {"foundation", "models"},
    "learn": {"foundation", "models"},
    "games": {"foundation", "models", "text", "data", "retrieval", "score", "generate"},  # nothing of gradients
    "worlds": {"foundation", "models", "text", "data", "learn"},
}
ALLOWED["evaluation"] = ALLOWED["games"] | {"games"}
ALLOWED["report"] = ALLOWED["games"] | {"games"}
ALLOWED["run"] = {"evaluation", *ALLOWED}
ALLOWED["flight"] = {"run", *ALLOWED}
ALLOWED["lab"] = {"configs", "run", *ALLOWED["run"]}
ALLOWED["endurance"] = {"run", *ALLOWED["run"]}
ALLOWED["commands"] = {"configs", *ALLOWED}
ALLOWED["door"] = {"configs", *ALLOWED}  # spicejax/__init__.py, when it is called, and __main__.py
for room, others in ALLOWED.items():
    others.add(room)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def packages(requirements: list[str]) -> set[str]:
    """Their names without versions and extras, as modules are called."""
    return {re.split(r"[^\w-]", text)[0].replace("-", "_") for text in requirements}


# What only some need, and what nobody needs here but the tests: jax is there anyway, and imports libtpu by itself.
EXTRAS = {name: packages(found) for name, found in PROJECT["optional-dependencies"].items() if name != "dev"}
HEAVY = {"torch", "transformers", "peft", "ray"} | set().union(*EXTRAS.values()) - {"jax"}

# These modules are the extras `serve` and `eval`: their commands alone import them, inside a function.
WHOLE = {ROOT / "spicejax" / "retrieval" / "serve.py", ROOT / "spicejax" / "evaluation" / "harness.py"}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).glob("**/*.py") if path.is_file())


def library_files() -> list[Path]:
    """Every source file once: the symlinks spicejax/models and spicejax/configs are read where they point."""
    inner = [p for p in python_files("spicejax") if p.relative_to(ROOT).parts[1] not in ("models", "configs")]
    return inner + python_files("models")


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    if parts[0] == "models":
        return "models"
    if parts in (("spicejax", "__init__.py"), ("spicejax", "__main__.py")):
        return "door"
    return parts[1] if len(parts) > 2 else "foundation"


def imported(tree: ast.AST, package: tuple[str, ...] = ()) -> Iterator[tuple[str, int]]:
    """Dotted names that `tree` imports, relative ones resolved against `package`; a from-import yields module.name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            yield from ((f"{module}.{alias.name}", node.lineno) for alias in node.names)


def package_of(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(ROOT).parts[:-1]
    return ("spicejax", *parts) if parts[:1] in (("models",), ("configs",)) else parts


def left_violations(source: str, path: Path) -> list[str]:
    """Imports of `path` that point right, as "file:line room imports name"."""
    room, found = room_of(path), []
    for name, line in imported(ast.parse(source), package_of(path)):
        parts = name.split(".")
        if parts[0] != "spicejax" or len(parts) < 2:
            continue
        target = parts[1] if parts[1] in {*ALLOWED, "configs"} else "foundation"
        if target not in ALLOWED[room]:
            found.append(f"{path.relative_to(ROOT)}:{line}: {room}/ imports {name}")
    return found


def test_every_room_is_in_the_law():
    rooms = {room_of(path) for path in library_files()}
    assert rooms <= set(ALLOWED), f"say in ALLOWED what {sorted(rooms - set(ALLOWED))} may import"


def test_imports_point_left():
    bad = [line for path in library_files() for line in left_violations(path.read_text(), path)]
    assert not bad, "\n".join(bad)


def texts_of(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The strings of a source that are no docstrings, with their lines."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value, node.lineno


def names_of_games() -> tuple[set[str], set[str]]:
    """Sections of the games, and the roles and seats that their recipes ask; what is also a common word is left out."""
    stages = [cfg for name in configs.names() for cfg in configs.stages(name)]
    roles = {name for cfg in stages for ask in cfg.asks for name in (ask.role, ask.seat) if name}
    assert {configuration.key_of(type(cfg.game)) for cfg in stages} == set(catalogue.GAMES)
    return set(catalogue.GAMES) - {"supervised"}, roles - {"judge", "verifier"}  # a loss, seats


def test_no_room_but_games_names_a_game():
    """Only `games/catalogue.py` and commands import games, a game no other; no room above knows a role or a section."""
    folders = {path.name for path in (ROOT / "spicejax" / "games").iterdir() if (path / "game.py").exists()}
    sections, roles = names_of_games()
    assert {"challenger", "solver", "decomposer"} <= roles and len(sections) > 4 and folders
    bad = []
    for path in library_files():
        own = path.relative_to(ROOT / "spicejax").parts[1] if path.is_relative_to(ROOT / "spicejax" / "games") else ""
        tree = ast.parse(path.read_text())
        named = {name.split(".")[2] for name, _ in imported(tree) if name.startswith("spicejax.games.")}
        if (others := (named & folders) - {own}) and path.name != "catalogue.py" and room_of(path) != "commands":
            bad.append(f"{path.relative_to(ROOT)} imports {sorted(others)}")
        if room_of(path) in ("run", "report", "flight", "learn", "generate", "evaluation", "retrieval", "score"):
            known = re.compile(rf"^({'|'.join(roles)})(/|$)|^({'|'.join(sections)})(\.|$)")
            bad += [f"{path.relative_to(ROOT)}:{line}: {text!r}" for text, line in texts_of(tree) if known.match(text)]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    ("file", "source", "count"),
    [
        ("models/x.py", "from spicejax.types import Task", 1),
        ("models/x.py", "from .layers import f", 0),
        ("models/x.py", "import jax", 0),
        ("spicejax/data/x.py", "from spicejax.types import Task", 0),
        ("spicejax/data/x.py", "from spicejax import generate", 1),
        ("spicejax/data/x.py", "def f():\n    from spicejax.run.train import train", 1),
        ("spicejax/score/x.py", "from ..types import Task", 0),
        ("spicejax/score/x.py", "from ..games import spice", 1),
        ("spicejax/learn/x.py", "import spicejax.models.transformer", 0),
        ("spicejax/learn/x.py", "import spicejax.text.tokens", 1),
        ("spicejax/run/x.py", "from spicejax.games import world\nfrom spicejax.learn import learner", 0),
        ("spicejax/run/x.py", "import spicejax.configs.spice_nano", 1),
        ("spicejax/config.py", "from spicejax.run import train", 1),
    ],
)
def test_the_law_sees(file, source, count):
    assert len(left_violations(source, ROOT / file)) == count


def test_only_configs_launch_and_tests_name_a_model():
    named = {name for name, value in vars(presets).items() if isinstance(value, TransformerConfig)}
    assert len(named) > 5
    bad = []
    for path in (path for path in library_files() if room_of(path) != "models"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = {ast.Name: "id", ast.Attribute: "attr", ast.alias: "name"}.get(type(node))
            if name and getattr(node, name) in named:
                bad.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: names {getattr(node, name)}")
    assert not bad, "\n".join(bad)


def test_the_command_alone_imports_no_jax():
    """Nor does `spicejax --help`, nor anything that not everybody has."""
    code = f"""
        import sys, spicejax
        from spicejax import __main__, commands
        commands.run()
        print(sorted(set(sys.modules) & {HEAVY | {"jax"}!r}))
    """
    assert processes.python(code).endswith("\n[]")


def test_no_module_touches_a_device_or_a_heavy_library_on_import():
    """Heavy libraries are imported inside functions, also by recipes and scripts."""
    files = [p for p in library_files() if p.stem not in ("__init__", "__main__") and p not in WHOLE]
    names = [".".join((*package_of(p), p.stem)) for p in (*files, *python_files("configs"))]
    code = f"""
        import importlib, runpy, sys
        for name in {names!r}: importlib.import_module(name)
        for path in {list(map(str, python_files("launch")))!r}: runpy.run_path(path)
        from jax._src import xla_bridge
        print(bool(xla_bridge._backends), sorted(set(sys.modules) & {HEAVY!r}))
    """
    assert processes.python(code) == "False []"


def test_what_everybody_installs_has_no_second_framework():
    core = packages(PROJECT["dependencies"])
    assert {"jax", "numpy", "orbax_checkpoint"} <= core and len(EXTRAS) > 8
    assert not core & HEAVY
    others = ("torch", "tensorflow", "transformers", "ray")
    assert not [name for name in core for other in others if name.lower().startswith(other)]


def test_models_resolve_through_the_symlinks():
    for room in ("models", "configs"):
        link = ROOT / "spicejax" / room
        assert link.is_symlink() and link.readlink() == Path("..") / room
