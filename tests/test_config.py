"""Configuration trees: overrides, what is said of wrong ones, JSON there and back, differences, help."""

import dataclasses
import json
import math
from typing import Any, Literal

import pytest

from spicejax import config, configs, outside
from spicejax.fields import ConfigError, unknown_key


@dataclasses.dataclass(frozen=True)
class ChessConfig:
    """Chess."""

    # plies a game
    plies: int = 80


@dataclasses.dataclass(frozen=True)
class GoConfig:
    size: int = 19
    komi: float = 6.5


def found(data):
    known = {config.key_of(cls): cls for cls in (ChessConfig, GoConfig)}
    if data.get("game", "").partition(":")[0] not in ("", __name__):
        raise ConfigError(f"{data['game']} is not known")
    return next((cls for key, cls in known.items() if key in data), ChessConfig)


OPEN = config.Open(found, ("chess", "go"))


@dataclasses.dataclass(frozen=True)
class Search:
    """Retrieval."""

    top_k: int = 3  # passages a query
    # Where the index is.
    # Two lines of it.
    path: str = ""  # empty = none


@dataclasses.dataclass(frozen=True)
class Learn:
    """The learner."""

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
    learn: Learn = Learn()
    search: Search | None = None
    needs: Needs | None = None
    game: Any = dataclasses.field(default=ChessConfig(), metadata={config.OPEN: OPEN})
    # who plays
    seats: dict[str, str] = dataclasses.field(default_factory=dict)
    iterations: int = 640

    def __post_init__(self):
        if self.iterations % self.learn.group_size:
            raise ValueError(f"iterations={self.iterations}: not a multiple of {self.learn.group_size}")


RUN = Run("r")
GO = Run("g", Learn(seed=3, types=("Integer", "MCQ")), Search(2), Needs(1), GoConfig(9), {"black": "a"}, 16)


@pytest.mark.parametrize(("words", "path", "value"), [
    (["learn.group_size=4"], "learn.group_size", 4), (["--learn.group_size=4"], "learn.group_size", 4),
    (["--learn.group_size", "4"], "learn.group_size", 4), (["--learn.group-size=4"], "learn.group_size", 4),
    (["learn.group_size=5", "learn.group_size=4"], "learn.group_size", 4), (["iterations=1.6e3"], "iterations", 1600),
    (["learn.penalty=1e-6"], "learn.penalty", 1e-6), (["--learn.penalty", "-2"], "learn.penalty", -2.0),
    (["learn.reward=threshold"], "learn.reward", "threshold"), (["learn.level=2"], "learn.level", 2),
    (["learn.balanced=False"], "learn.balanced", False), (["--learn.balanced"], "learn.balanced", True),
    (["learn.types=Integer,MCQ"], "learn.types", ("Integer", "MCQ")),
    (["learn.types=(Integer, MCQ)"], "learn.types", ("Integer", "MCQ")),
    (["learn.types=['Integer']"], "learn.types", ("Integer",)), (["learn.types="], "learn.types", ()),
    (["learn.betas=(0.5, 1)"], "learn.betas", (0.5, 1.0)), (["learn.seed=3"], "learn.seed", 3),
    (["learn.limit=none"], "learn.limit", None), (["learn.limit=3"], "learn.limit", 3.0),
    (["name=a=b c"], "name", "a=b c"), (["name="], "name", ""), (["name=none"], "name", "none"),
    (["name=3"], "name", "3"), (["search.top_k=5", "search.path=x"], "search", Search(5, "x")),
    (["search=null"], "search", None), (["chess.plies=9"], "game", ChessConfig(9)),
    (["seats.white=a b", "--seats.black", "c"], "seats", {"white": "a b", "black": "c"}),
])  # fmt: skip
def test_override(words, path, value):
    parsed = found = config.parse(RUN, words)
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value and type(found) is type(value)
    assert all(p.startswith(path.replace("game", "chess")) for p, _, _ in config.diff(RUN, parsed))


def test_the_section_that_is_there_is_overridden():
    parsed = config.parse(GO, ["go.komi=0", "search=none", "seats.black=b", "needs.size=2"])
    assert parsed == dataclasses.replace(
        GO, game=GoConfig(9, 0.0), search=None, seats={"black": "b"}, needs=Needs(2)
    ) and GO.seats == {"black": "a"}


def test_validation_waits_for_all_words():
    assert config.parse(RUN, ["learn.group_size=3", "iterations=6"]).iterations == 6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["learn.grup_size=3"], "unknown field `learn.grup_size`; did you mean `learn.group_size`?"),
        (["--learn.grup-size", "3"], "unknown field `learn.grup_size`; did you mean `learn.group_size`?"),
        (["group_size=3"], "unknown field `group_size`; did you mean `learn.group_size`?"),
        (["learn.group_size.x=3"], "unknown field `learn.group_size.x`; did you mean `learn.group_size`?"),
        (["zzzzzzzzzzzzzz=3"], "unknown field `zzzzzzzzzzzzzz`; --help=all lists all"),
        (["needs.size=3"], "unknown field `needs.size`"),
        (["search=x"], "bad value for `search`: 'x'; allowed: Search or none"),
        (["learn=x"], "unknown field `learn`; did you mean `learn.group_size` or `learn.penalty` or"),
        (["go.size=9"], "unknown field `go.size`; start from a configuration with a section `go`"),
        (["game.plies=9"], "unknown field `game.plies`; did you mean `chess.plies`?"),
        (["--iterations"], "`--iterations` has no value: write --iterations=value"),
        (["learn.group_size=x"], "bad value for `learn.group_size`: 'x'; allowed: whole number"),
        (["learn.group_size=1.5"], "bad value for `learn.group_size`: '1.5'; allowed: whole number"),
        (["learn.penalty=nan"], "bad value for `learn.penalty`: 'nan'; allowed: number"),
        (["learn.balanced=maybe"], "bad value for `learn.balanced`: 'maybe'; allowed: true | false"),
        (["learn.reward=gaussain"], "bad value for `learn.reward`: 'gaussain'; allowed: gaussian | threshold"),
        (["learn.level=3"], "bad value for `learn.level`: '3'; allowed: 0 | 1 | 2"),
        (["learn.types=MCQ,Int"], "bad value for `learn.types`: 'MCQ,Int'; allowed: comma-separated list of MCQ"),
        (["learn.betas=1"], "bad value for `learn.betas`: '1'; allowed: comma-separated list of number, number"),
        (["learn.seed=x"], "bad value for `learn.seed`: 'x'; allowed: whole number or none"),
        (["learn.group_size=1"], "learn: group_size=1: at least 2"),
        (["learn.group_size=3"], "iterations=640: not a multiple of 3"),
    ],
)
def test_wrong_words_are_refused_in_one_line(words, message):
    with pytest.raises(ConfigError) as error:
        config.parse(RUN, words)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


KEYS = [path for path, _ in config.leaves(RUN)]


@pytest.mark.parametrize("key", KEYS)
def test_every_typo_names_the_key(key):
    """Every deletion, swap of neighbours, doubling and substitution of one character."""
    for i in range(len(key)):
        head, tail = key[:i], key[i + 1 :]
        for typo in {head + tail, head + tail[:1] + key[i] + tail[1:], head + key[i] * 2 + tail, f"{head}q{tail}"}:
            assert typo in KEYS or f"`{key}`" in unknown_key(typo, KEYS).partition(";")[2]


@pytest.mark.parametrize("run", [RUN, GO])
def test_json_round_trip(run):
    data = json.loads(json.dumps(config.to_json(run)))
    assert config.from_json(Run, data) == run and config.diff(data, run) == []
    assert data["game"] == f"{__name__}:{type(run.game).__name__}" and ("go" in data) == isinstance(run.game, GoConfig)
    data["game"] = "elsewhere:GoConfig"
    assert config.from_json(run, data) == run  # whose class is known, is not looked for
    with pytest.raises(ConfigError, match="elsewhere:GoConfig is not known"):
        config.from_json(Run, data)


def test_a_class_from_outside_has_a_name():
    mine = type("Mine", (), {"__module__": "/home/me/games/mine.py"})
    assert config.outside(mine) == "mine.py:Mine" and config.outside(config.Open) == ""


def test_a_key_names_one_field():
    fields = [("go", int), ("game", Any, dataclasses.field(metadata={config.OPEN: OPEN}))]
    with pytest.raises(ConfigError, match="GoConfig: `go` would name two fields; give the class another name"):
        config.to_json(dataclasses.make_dataclass("Two", fields)(1, GoConfig()))


def put(path, value):
    def change(data):
        *sections, last = path.split(".")
        for name in sections:
            data = data[name]
        data[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("name"), "missing field `name` of Run; it takes text"),
        (lambda d: d["learn"].pop("seed"), "missing field `learn.seed` of Learn; it takes whole number or none"),
        (lambda d: d.pop("chess"), "missing field `chess` of Run"),
        (put("go", {"size": 9, "komi": 0.5}), "unknown field `go`"),
        (put("learn.grup_size", 3), "unknown field `learn.grup_size`; did you mean `learn.group_size`?"),
        (put("learn.group_size", "8"), "bad value for `learn.group_size`: '8'; allowed: whole number"),
        (put("learn.group_size", True), "bad value for `learn.group_size`: True; allowed: whole number"),
        (put("learn.group_size", 8.0), "bad value for `learn.group_size`: 8.0; allowed: whole number"),
        (put("learn.level", False), "bad value for `learn.level`: False; allowed: 0 | 1 | 2"),
        (put("learn.balanced", 1), "bad value for `learn.balanced`: 1; allowed: true | false"),
        (put("learn.betas", [1.0]), r"bad value for `learn.betas`: [1.0]"),
        (put("learn.types", "MCQ"), "bad value for `learn.types`: 'MCQ'"),
        (put("learn.penalty", math.inf), "bad value for `learn.penalty`: inf; allowed: number"),
        (put("learn.penalty", 10**400), "bad value for `learn.penalty`: 1000"),
        (put("learn.group_size", 1), "learn: group_size=1: at least 2"),
        (put("learn", None), "bad value for `learn`: None; allowed: Learn"),
        (put("seats.white", 1), "bad value for `seats`: {'white': 1}; allowed: NAME=TEXT"),
    ],
)
def test_wrong_json_is_refused(change, message):
    data = config.to_json(RUN)
    change(data)
    with pytest.raises(ConfigError) as refused:
        config.from_json(Run, data)
    assert str(refused.value).startswith(message)


def test_diff():
    other = dataclasses.replace(
        RUN, learn=Learn(group_size=4, level=1), search=Search(), game=GoConfig(), seats={"a": "b"}
    )
    assert config.diff(RUN, other) == [
        ("learn.group_size", 8, 4),
        ("learn.level", 0, 1),
        ("search", None, config.ABSENT),
        ("game", f"{__name__}:ChessConfig", f"{__name__}:GoConfig"),
        ("chess.plies", 80, config.ABSENT),
        ("search.top_k", config.ABSENT, 3),
        ("search.path", config.ABSENT, ""),
        ("go.size", config.ABSENT, 19),
        ("go.komi", config.ABSENT, 6.5),
        ("seats.a", config.ABSENT, "b"),
    ]
    assert config.diff({"a": [True]}, {"a": [1]}) == [("a", [True], [1])]


@dataclasses.dataclass(frozen=True)
class Inner:
    size: int = dataclasses.field(default=3, metadata={"formerly": "width"})


@dataclasses.dataclass(frozen=True)
class Newer:
    name: str
    inner: Inner = Inner()
    plain: int = 1  # older runs did as with its default
    stricter: bool = dataclasses.field(default=True, metadata={"before": False})
    seats: dict[str, str] = dataclasses.field(default_factory=dict)


def test_what_an_older_version_wrote_is_read_as_it_was_meant():
    old = {"name": "a", "inner": {"width": 8}, "gone": 7}
    meant = {"name": "a", "inner": {"size": 8}, "plain": 1, "stricter": False, "seats": {}}
    assert config.readable(Newer, old) == meant
    assert config.readable(Newer, old, unknown=True) == meant | {"gone": 7}
    assert config.from_json(Newer, meant) == Newer("a", Inner(8), stricter=False)
    today = config.to_json(Newer("a"))
    assert config.readable(Newer, today, unknown=True) == today and old["inner"] == {"width": 8}


def test_help_tells_every_field():
    text = config.describe(RUN)
    for line in (
        "fields: [section.field=value ...]",
        "learn: The learner.",
        "  learn.group_size=8    [whole number]\n      rollouts per document\n",
        "  learn.penalty=-0.1    [number]\n  learn.reward=gaussian    [gaussian | threshold]\n",
        "  learn.balanced=true    [true | false]",
        "  learn.types=MCQ    [comma-separated list of MCQ | Integer]",
        "  learn.betas=0.9,0.95    [comma-separated list of number, number]",
        "  learn.seed=none    [whole number or none]",
        "  name=r    [text]\n      of the run\n",
        "  search=none    [Search or none]",
        "  search.path=    [text]\n      Where the index is. Two lines of it. empty = none",
        "\nchess: Chess.\n  chess.plies=80    [whole number]\n      plies a game",
        "  seats.NAME=TEXT    [text]\n      who plays",
    ):
        assert line in text
    assert all(f"  {path}=" in text for path in KEYS)
    assert "  seats.black=a    [text]" in config.describe(GO) and "\ngo\n" in config.describe(GO)
    few = config.describe(RUN, ["learn.group_size", "name", "no.such"])
    assert [line for line in few.splitlines() if "=" in line.partition("    ")[0]] == [
        "fields: [section.field=value ...]",
        "  name=r    [text]",
        "  learn.group_size=8    [whole number]",
        f"{len(config.leaves(RUN)) - 2} more fields: --help=all",
    ]
    assert "chess" not in few


@pytest.mark.parametrize("name", configs.names())
def test_shipped_configs_read_back(name):
    """Every recipe survives JSON, and what --help shows as a value can be given as a word."""
    for shipped in configs.stages(name):
        data = json.loads(json.dumps(config.to_json(shipped)))
        assert config.from_json(type(shipped), data) == shipped
        text = config.describe(shipped)
        assert all(f"  {path}=" in text for path, _ in config.leaves(shipped))
        lines = [line.strip() for line in text.splitlines() if "    [" in line]
        shown = {line.partition("=")[0]: line.partition("    [")[0] for line in lines}
        words = [shown[path] for path, value in config.flat(data).items() if path in shown and value is not None]
        assert len(words) > 60 and config.diff(config.parse(shipped, words), shipped) == []


@dataclasses.dataclass(frozen=True)
class Rules:
    # who judges
    verifier: Literal["text", "mathematics"] | outside.OUTSIDE = "text"

    def __post_init__(self):
        object.__setattr__(self, "verifier", outside.name_of(self.verifier, "verifier", ["text", "mathematics"]))


def near(text, task):
    """A function of a user."""


def test_a_function_is_kept_by_its_name():
    told = f"{__name__}:near"
    assert Rules(near) == Rules(told) == config.parse(Rules(), [f"verifier={told}"]) != Rules("mathematics")
    assert config.to_json(Rules(near)) == {"verifier": told}
    assert config.from_json(Rules, {"verifier": told}) == Rules(near)
    assert outside.load(told, "verifier") is near
    assert "verifier=text    [text | mathematics | module:function]" in config.describe(Rules())
    for wrong in ("maths", 3, None):
        with pytest.raises(ConfigError, match=r"allowed: text \| mathematics \| module:function"):
            config.from_json(Rules, {"verifier": wrong})
    with pytest.raises(ConfigError, match="verifier=a b:: give text, mathematics, module:name, or FILE.py:name"):
        config.from_json(Rules, {"verifier": "a b:"})
