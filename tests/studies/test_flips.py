"""600 flipped bits over all kinds of stored files."""

from pathlib import Path

from flipped import flips, kinds

_FLIPS = 600


def test_no_flipped_bit_of_600_is_read_as_other_data(tmp_path: Path):
    """Each kind has an equal share of the flips."""
    every = kinds(tmp_path)
    share = -(-_FLIPS // len(every))
    outcomes = [flip for kind in every for flip in flips(kind, share, seed=2)]
    assert len(outcomes) >= _FLIPS
    assert [] == [flip for flip in outcomes if "silent" in flip]
