"""Files of items, prompts and documents, damaged at random: each is read, or refused in one line.

SPICEJAX_DAMAGES=1000 SPICEJAX_SEED=1 pytest tests/data/test_damaged_files.py tries so many of each kind;
what fails is told with its number and seed, and comes again by them.
"""

import os

import apart
import pytest
import whole

SEED = int(os.environ.get("SPICEJAX_SEED", "0"))


@pytest.mark.parametrize("count", [8, pytest.param(120, marks=pytest.mark.slow)])  # of each kind
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path, count):
    count = int(os.environ.get("SPICEJAX_DAMAGES", count))
    outcomes, wrong = apart.tried(list(whole.DATA), SEED, count, tmp_path)
    assert not wrong, "\n".join([f"{len(wrong)} of them, such as", *wrong[:9]])
    assert outcomes["loaded"] + outcomes["refused"] == count * len(whole.DATA), outcomes
    assert outcomes["refused"] > outcomes["loaded"] // 4, outcomes
