"""GPUs: names, numbers of cards, links, what the compiler is told."""

import re

import pytest

from spicejax import memory
from spicejax.flight import cards, chips


def test_every_card_of_the_table_is_found_as_hosts_of_cards():
    for name, card in cards.known().items():
        one = chips.find(f"{name}:1")
        assert (one.chips, one.chip) == (1, card)
    both = chips.find("h100:2x8")
    assert (both.chips, both.name) == (16, "h100:2x8")


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ("h100:3", "choose from h100:1 h100:2 h100:4 h100:8 h100:2x8"),
        ("rtx4090:2x8", "choose from rtx4090:1 .*rtx4090:8$"),
        ("h100", "choose from h100:1"),
        ("h900:8", "unknown chip 'h900'.*v5e.*h100"),
    ],
)
def test_a_wrong_number_of_cards_is_named_with_the_choices(topology, message):
    with pytest.raises(ValueError, match=message):
        chips.find(topology)


def test_links_by_hand():
    """Eight ports of 50 GB/s carry what leaves a host: as much as a ring through all its cards sends."""
    host, hosts = chips.find("h100:8"), chips.find("h100:2x8")
    assert host.link_bandwidth(8) == hosts.link_bandwidth(8) == 450e9
    assert hosts.link_bandwidth(16) == 400e9
    assert chips.find("a100-80g:2x8").link_bandwidth(16) == 200e9


def test_programs_get_the_share_of_memory_that_jax_takes(monkeypatch):
    for name in (memory.FRACTION, memory.OLD_FRACTION):
        monkeypatch.delenv(name, raising=False)
    card = chips.find("h200:1")
    assert card.usable == memory.SHARE * card.chip.hbm
    for name in (memory.OLD_FRACTION, memory.FRACTION):
        monkeypatch.setenv(name, "0.5")
        assert card.usable == 0.5 * card.chip.hbm


def test_the_compiler_is_told_the_card():
    text = chips.find("h100:1").chip.target
    for wanted in ("core_count: 132", "device_memory_size: 84942979072", "memory_bandwidth: 3352000000000"):
        assert wanted in text
    assert "cuda_compute_capability { major: 9 feature_extension: ACCELERATED_FEATURES }" in text
    assert text.count("{") == text.count("}") and not re.search(r"[^ ]\{", text)
