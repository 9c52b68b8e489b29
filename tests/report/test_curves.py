"""What a picture shows of runs of any length."""

import re

import pytest
from matplotlib import pyplot

from spicejax.games.game import Panel
from spicejax.report import curves

PANEL = Panel("Rewards", (("reward", "reward"),), limits=(0, 1))


@pytest.fixture
def axis():
    figure, axis = pyplot.subplots()
    yield axis
    pyplot.close(figure)


@pytest.mark.parametrize(
    ("rewards", "limits"), [([0.2, 0.5], (0, 1)), ([-0.1, 0.5], (-0.1, 1)), ([float("nan")], (0, 1))]
)
def test_nothing_measured_is_outside(axis, rewards, limits):
    rows = [{"iteration": i, "reward": reward} for i, reward in enumerate(rewards)]
    curves.plot(axis, PANEL, [curves.Curves(rows, [])])
    assert axis.get_ylim() == limits
    assert all(tick == int(tick) for tick in axis.get_xticks())


def test_without_limits_the_axis_spans_what_was_measured(axis):
    rows = [{"iteration": i, "reward": reward} for i, reward in enumerate((-0.1, 40.0))]
    curves.plot(axis, PANEL._replace(limits=None), [curves.Curves(rows, [])])
    low, high = axis.get_ylim()
    assert low <= -0.1 and high >= 40


def test_one_iteration_is_seen(axis):
    row = {"iteration": 0, "reward": 0.5, "right": 3.0, "wrong": 1.0}
    curves.plot(axis, PANEL, [curves.Curves([row], [])])
    assert any(line.get_marker() == "o" and len(line.get_xdata()) == 1 for line in axis.lines)
    drawn = curves.shares_svg([row], ["right", "wrong"], ["right", "wrong"], "tasks")
    _, _, area = drawn.partition('PolyCollection_1">')  # from matplotlib 3.10 on FillBetween...
    corners = re.findall(r"[ML] ([\d.]+) ", area.partition("</g>")[0])
    assert len(set(corners)) > 1, "it has a width"
