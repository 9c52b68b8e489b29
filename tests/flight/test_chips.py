"""Slices: names, sizes, links."""

import pytest

from spicejax.flight import chips


def test_every_slice_of_the_table_is_found_and_has_its_chips():
    assert chips.find("v5e:4x4").chips == 16
    assert chips.find("v5p:2x2x1").chips == 4
    for name, chip in chips.CHIPS.items():
        for extent in chip.slices:
            assert chips.find(f"{name}:{extent}").name == f"{name}:{extent}"


@pytest.mark.parametrize(
    ("topology", "message"),
    [("v9:4x4", "unknown chip 'v9'.*v5e"), ("v5e:3x5", "v5e:4x4"), ("v5p:4x4", "v5p:2x2x2"), ("", "unknown chip ''")],
)
def test_a_wrong_slice_is_named_with_the_choices(topology, message):
    with pytest.raises(ValueError, match=message):
        chips.find(topology)


def test_links_by_hand():
    """v5e: 400 GB/s over 4 links both ways = 50 GB/s a link and way. Rings only at 16; one axis for a smaller group."""
    assert chips.find("v5e:4x4").link_bandwidth(16) == 100e9
    assert chips.find("v5e:4x4").link_bandwidth(4) == 50e9
    assert chips.find("v5e:16x16").link_bandwidth(256) == 200e9
    assert chips.find("v5e:8x16").link_bandwidth(16) == 100e9
    assert chips.find("v5p:2x2x1").link_bandwidth(4) == 200e9  # two axes of two chips, 100 GB/s each
    assert chips.find("v5p:4x4x4").link_bandwidth(64) == 600e9
