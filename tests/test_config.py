"""Configuration trees: overrides, what is said of wrong ones, JSON there and back, differences, help."""

import dataclasses
import math
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spicejax import config
from spicejax.fields import ConfigError, nearest


@dataclasses.dataclass(frozen=True)
class Search:
    """Retrieval."""

    top_k: int = 3  # passages a query
    # Where the index is.
    # Two lines of it.
    path: str = ""  # empty = none


@dataclasses.dataclass(frozen=True)
class Spice:
    """The game."""

    # rollouts per document
    group_size: int = 8
    penalty: float = -0.1

    # (a comment that belongs to nothing)

    reward: Literal["gaussian", "threshold"] = "gaussian"
    level: Literal[0, 1, 2] = 0
    balanced: bool = True
    types: tuple[Literal["MCQ", "Integer"], ...] = ("MCQ",)
    betas: tuple[float, float] = (0.9, 0.95)
    seed: int | None = None
    limit: float | None = 2.0

    def __post_init__(self):
        if self.group_size < 2:
            raise ValueError(f"group_size={self.group_size}: at least 2")


@dataclasses.dataclass(frozen=True)
class Needs:
    size: int


@dataclasses.dataclass(frozen=True)
class Run:
    name: str  # of the run
    spice: Spice = Spice()
    search: Search | None = None
    needs: Needs | None = None
    game: Spice | Search = Search()
    iterations: int = 640

    def __post_init__(self):
        if self.iterations % self.spice.group_size:
            raise ValueError(
                f"iterations={self.iterations} must be a multiple of spice.group_size={self.spice.group_size}"
            )


RUN = Run("r")


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        (["spice.group_size=4"], "spice.group_size", 4),
        (["--spice.group_size=4"], "spice.group_size", 4),
        (["--spice.group_size", "4"], "spice.group_size", 4),
        (["--spice.group-size=4"], "spice.group_size", 4),
        (["spice.group_size=5", "spice.group_size=4"], "spice.group_size", 4),
        (["iterations=1_600"], "iterations", 1600),
        (["iterations=1.6e3"], "iterations", 1600),
        (["spice.penalty=1e-6"], "spice.penalty", 1e-6),
        (["spice.penalty=-2"], "spice.penalty", -2.0),
        (["--spice.penalty", "-2"], "spice.penalty", -2.0),
        (["spice.reward=threshold"], "spice.reward", "threshold"),
        (["spice.level=0"], "spice.level", 0),
        (["spice.level=2"], "spice.level", 2),
        (["spice.balanced=false"], "spice.balanced", False),
        (["spice.balanced=True"], "spice.balanced", True),
        (["--spice.balanced"], "spice.balanced", True),
        (["spice.types=Integer,MCQ"], "spice.types", ("Integer", "MCQ")),
        (["spice.types=(Integer, MCQ)"], "spice.types", ("Integer", "MCQ")),
        (["spice.types=['Integer']"], "spice.types", ("Integer",)),
        (["spice.types="], "spice.types", ()),
        (["spice.betas=0.5,1"], "spice.betas", (0.5, 1.0)),
        (["spice.betas=(0.5, 1)"], "spice.betas", (0.5, 1.0)),
        (["spice.seed=3"], "spice.seed", 3),
        (["spice.limit=none"], "spice.limit", None),
        (["spice.limit=3"], "spice.limit", 3.0),
        (["name=a=b c"], "name", "a=b c"),
        (["name="], "name", ""),
        (["name=none"], "name", "none"),
        (["search.top_k=5"], "search", Search(5)),
        (["search.top_k=5", "search.path=x"], "search", Search(5, "x")),
        (["search=none"], "search", None),
        (["game.top_k=9"], "game", Search(9)),
    ],
)
def test_override(words, path, value):
    found = config.parse(RUN, words)
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value and type(found) is type(value)
    changed = [p for p, _, _ in config.diff(RUN, config.parse(RUN, words))]
    assert all(p.startswith(path) for p in changed)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["spice.grup_size=3"], "unknown field `spice.grup_size`; did you mean `spice.group_size`?"),
        (["--spice.grup-size", "3"], "unknown field `spice.grup_size`; did you mean `spice.group_size`?"),
        (["group_size=3"], "unknown field `group_size`; did you mean `spice.group_size`?"),
        (["spice.group_size.x=3"], "unknown field `spice.group_size.x`; did you mean `spice.group_size`?"),
        (["zzzzzzzzzzzzzz=3"], "unknown field `zzzzzzzzzzzzzz`; --help lists all"),
        (["spice.group_size=x"], "bad value for `spice.group_size`: 'x'; allowed: whole number"),
        (["spice.group_size=1.5"], "bad value for `spice.group_size`: '1.5'; allowed: whole number"),
        (["spice.group_size=1e999"], "bad value for `spice.group_size`: '1e999'; allowed: whole number"),
        (["spice.group_size="], "bad value for `spice.group_size`: ''; allowed: whole number"),
        (["spice.penalty=nan"], "bad value for `spice.penalty`: 'nan'; allowed: number"),
        (["spice.balanced=maybe"], "bad value for `spice.balanced`: 'maybe'; allowed: true | false"),
        (["spice.reward=gaussain"], "bad value for `spice.reward`: 'gaussain'; allowed: gaussian | threshold"),
        (["spice.level=3"], "bad value for `spice.level`: '3'; allowed: 0 | 1 | 2"),
        (["spice.types=MCQ,Int"], "bad value for `spice.types`: 'Int'; allowed: MCQ | Integer"),
        (["spice.betas=1"], "bad value for `spice.betas`: '1'; allowed: comma-separated list of number, number"),
        (["spice.betas=(1, 'x')"], "bad value for `spice.betas[1]`: 'x'; allowed: number"),
        (["spice.seed=x"], "bad value for `spice.seed`: 'x'; allowed: whole number or none"),
        (["spice=x"], "`spice` is a section, not a field; its fields are spice.group_size, "),
        (["needs.size=3"], "`needs` is None by default and Needs has no default to start from"),
        (["oops"], "cannot read `oops`: write section.field=value"),
        (["--iterations"], "`--iterations` has no value: write --iterations=value"),
        (["--iteration", "3"], "unknown field `iteration`; did you mean `iterations`?"),
        (["spice.group_size=1"], "spice: group_size=1: at least 2"),
        (["spice.group_size=3"], "iterations=640 must be a multiple of spice.group_size=3"),
    ],
)
def test_wrong_words_exit_2(words, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        config.parse(RUN, words, prog="train")
    out, err = capsys.readouterr()
    assert stopped.value.code == 2 and out == "" and err.startswith(f"train: {message}") and err.count("\n") == 1


def test_validation_waits_for_all_words():
    assert config.parse(RUN, ["spice.group_size=3", "iterations=6"]).iterations == 6


KEYS = [path for path, _ in config.leaves(RUN)]


def edits(key: str):
    """Every deletion, swap of neighbours, doubling and substitution of one character."""
    for i in range(len(key)):
        yield key[:i] + key[i + 1 :]
        yield key[:i] + key[i + 1 : i + 2] + key[i] + key[i + 2 :]
        yield key[:i] + key[i] + key[i:]
        yield key[:i] + "q" + key[i + 1 :]


@pytest.mark.parametrize("key", KEYS)
def test_every_typo_names_the_key(key):
    for typo in set(edits(key)) - set(KEYS):
        assert key in nearest(typo, KEYS), typo


def test_json_round_trip():
    run = Run("x", Spice(seed=3, types=("Integer", "MCQ")), Search(2), Needs(1), Spice(betas=(0.0, 1.0)), 16)
    for each in (RUN, run):
        assert config.from_json(Run, config.to_json(each)) == each
    assert config.to_json(run)["game"]["type"] == "test_config.Spice"


@given(
    st.builds(
        Spice,
        group_size=st.integers(2),
        penalty=st.floats(allow_nan=False, allow_infinity=False),
        reward=st.sampled_from(["gaussian", "threshold"]),
        level=st.sampled_from([0, 1, 2]),
        balanced=st.booleans(),
        types=st.lists(st.sampled_from(["MCQ", "Integer"])).map(tuple),
        seed=st.none() | st.integers(),
        limit=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_text_of_a_value_reads_back(spice):
    """What --help shows as a default can be given as a word."""
    import json

    assert config.from_json(Spice, json.loads(json.dumps(config.to_json(spice)))) == spice
    words = {}
    for path, _ in config.leaves(spice):
        value = getattr(spice, path)
        words[path] = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    assert config.override(Spice(), words) == spice


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("name"), "missing field `name` of Run; it takes text"),
        (lambda d: d["spice"].pop("seed"), "missing field `spice.seed` of Spice; it takes whole number or none"),
        (lambda d: d["spice"].update(grup_size=3), "unknown field `spice.grup_size`; did you mean `spice.group_size`?"),
        (lambda d: d["spice"].update(group_size="8"), "bad value for `spice.group_size`: '8'; allowed: whole number"),
        (lambda d: d["spice"].update(group_size=True), "bad value for `spice.group_size`: True; allowed: whole number"),
        (lambda d: d["spice"].update(level=False), "bad value for `spice.level`: False; allowed: 0 | 1 | 2"),
        (lambda d: d["spice"].update(balanced=1), "bad value for `spice.balanced`: 1; allowed: true | false"),
        (lambda d: d["spice"].update(betas=[1.0]), r"bad value for `spice.betas`: \[1.0\]"),
        (lambda d: d["spice"].update(types="MCQ"), "bad value for `spice.types`: 'MCQ'"),
        (lambda d: d["spice"].update(penalty=math.inf), "bad value for `spice.penalty`: inf; allowed: number"),
        (lambda d: d["spice"].update(group_size=1), "spice: group_size=1: at least 2"),
        (lambda d: d.update(spice=None), "bad value for `spice`: None; allowed: Spice"),
        (lambda d: d["game"].update(type="Ssp"), "bad value for `game.type`: 'Ssp'; allowed: test_config.Spice"),
        (lambda d: d["game"].pop("type"), "bad value for `game.type`: None"),
    ],
)
def test_wrong_json_is_refused(change, message):
    data = config.to_json(RUN)
    change(data)
    with pytest.raises(ConfigError, match=message):
        config.from_json(Run, data)


def test_diff():
    other = dataclasses.replace(RUN, spice=Spice(group_size=4, level=1), search=Search(), iterations=641 - 1)
    assert config.diff(RUN, RUN) == []
    assert config.diff(RUN, other) == [
        ("spice.group_size", 8, 4),
        ("spice.level", 0, 1),
        ("search", None, config.ABSENT),
        ("search.top_k", config.ABSENT, 3),
        ("search.path", config.ABSENT, ""),
    ]
    saved = config.to_json(RUN)
    saved["spice"].pop("seed")
    assert config.diff(saved, RUN) == [("spice.seed", config.ABSENT, None)]


def test_help_tells_every_field(capsys):
    with pytest.raises(SystemExit) as stopped:
        config.parse(RUN, ["--help", "nonsense"], prog="train")
    text = capsys.readouterr().out
    assert stopped.value.code == 0
    for line in (
        "usage: train [section.field=value ...]",
        "spice: The game.",
        "  spice.group_size=8    [whole number]\n      rollouts per document\n",
        "  spice.penalty=-0.1    [number]\n  spice.reward=gaussian    [gaussian | threshold]\n",
        "  spice.balanced=true    [true | false]",
        "  spice.types=MCQ    [comma-separated list of MCQ | Integer]",
        "  spice.betas=0.9,0.95    [comma-separated list of number, number]",
        "  spice.seed=none    [whole number or none]",
        "  name=r    [text]\n      of the run\n",
        "  search=none    [Search or none]",
        "  game.path=    [text]\n      Where the index is. Two lines of it. empty = none",
    ):
        assert line in text
    shown = {line.split("=")[0].strip() for line in text.splitlines() if line.startswith("  ") and "=" in line}
    assert {p for p in KEYS if not p.startswith("search")} <= shown


def test_shipped_configs_read_back():
    """Every recipe survives JSON, and every one of its fields has a place in --help."""
    configs = pytest.importorskip("spicejax.configs")
    for name in configs.names():
        shipped = configs.load(name)
        assert config.from_json(type(shipped), config.to_json(shipped)) == shipped
        text = config.describe(shipped)
        assert all(f"{path}" in text for path, _ in config.leaves(shipped))
