"""A stop machine that is given more strings stops where one made with all of them does."""

import numpy as np
import pytest

from spicejax.generate.stops import ACCEPT, also, stop_machine

BYTES = [b"a", b"b", b"c", b"ab", b"bc", b"cab", b""]  # and a row of the model without bytes, which is stop token 7


@pytest.mark.parametrize("before", [(), ("ca",), ("ca", "bb")])
@pytest.mark.parametrize("more", [("abc",), ("abc", "cc"), ("ab",)])
def test_more_strings(before, more):
    machine = stop_machine(8, [7], before, BYTES)
    longer, whole = also(machine, more), stop_machine(8, [7], before + more, BYTES)
    np.testing.assert_array_equal(longer.transitions, whole.transitions)
    assert longer.strings == before + more and also(machine, more) is longer
    assert np.all(longer.transitions[7] == ACCEPT) and machine.strings == before


def test_a_machine_without_bytes_takes_no_strings():
    with pytest.raises(ValueError, match="need the bytes of the tokens"):
        also(stop_machine(8, [7]), ("abc",))
