"""Counts against counts by hand."""

from spicejax.generate.tally import Tally


def test_drafts_end_where_they_are_not_worth_it():
    """Over one pass in four, from 200 passes on; the share is of four tokens a pass."""
    tally = Tally()
    assert tally.close(4) == {} and not tally.off
    for passes, accepted, off in ((199, 0, False), (200, 50, False), (200, 49, True), (400, 400, True)):
        tally.passes, tally.accepted = passes, accepted
        assert tally.close(4) == {"sampler/accepted": accepted / (4 * passes)} and tally.off == off


def test_padding_is_of_what_was_computed_since_the_last_time():
    tally = Tally(computed=8, held=6)
    assert tally.close(0) == {"sampler/padding": 0.25} and tally.close(0) == {}
