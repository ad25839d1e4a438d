"""The approximate search: never a wrong removal, and a recall that is what it says."""

import numpy as np
import pytest

from decomposerl.kernels.approximate_cosine import Recall, keep_first_approximate
from decomposerl.kernels.cosine_filter import best_cross_cosine, keep_first_cosine
from decomposerl.kernels.cosine_parts import VectorBlocks
from decomposerl.kernels.matches import Matches
from decomposerl.ports import Tasks
from exact_cosines import exact_cosines
from fakes import MemoryArrays, ShuffledMapper
from perf.inputs import clustered_vectors

THRESHOLD = 0.7
VECTORS = clustered_vectors(3_000, 64)


def found(size: int, probes: int, *, sample: int = 3_000) -> tuple[Matches, Recall]:
    tasks = Tasks(ShuffledMapper(), MemoryArrays(), threads=1)
    split = [VECTORS[start : start + size] for start in range(0, len(VECTORS), size)]
    blocks = VectorBlocks.write(tasks.arrays, "vectors", split)
    return keep_first_approximate(blocks, THRESHOLD, tasks, probes=probes, sample=sample)


@pytest.mark.parametrize("probes", [1, 4])
def test_a_removed_row_has_a_kept_row_near_it(probes: int):
    """Matches name an earlier kept row and the exact cosine with it, at least the threshold."""
    matches, _ = found(500, probes)
    rows = np.flatnonzero(matches.is_matched)
    kept = matches.matched[rows]
    assert len(rows) > 500
    assert (kept < rows).all()
    assert not matches.is_matched[kept].any()
    assert np.array_equal(exact_cosines(VECTORS[rows], VECTORS[kept]), matches.similarity[rows])
    assert (matches.similarity[rows] >= THRESHOLD).all()


def test_recall_on_all_rows_is_the_share_of_duplicates_that_were_removed():
    """Against a plain search of every row among the rows kept before it."""
    matches, recall = found(500, 1)
    kept = ~matches.is_matched
    missed = sum(
        bool(best_cross_cosine(VECTORS[[row]], VECTORS[:row][kept[:row]], THRESHOLD).is_matched[0])
        for row in np.flatnonzero(kept)
    )
    removed = int(matches.is_matched.sum())
    assert missed > 0
    assert (removed, removed + missed) == (recall.found, recall.duplicates)
    assert recall.low < removed / (removed + missed) < recall.high


def test_all_lists_probed_is_nearly_the_exact_search():
    """What is left are rows whose nearest are not among the eight that the index returns."""
    matches, recall = found(500, 1_000)
    assert recall.found / recall.duplicates > 0.99
    agree = matches.is_matched == keep_first_cosine(VECTORS, THRESHOLD).is_matched
    assert agree.mean() > 0.99


def test_a_single_block_is_the_exact_search():
    """Within a block nothing is approximate."""
    matches, recall = found(3_000, 1)
    exact = keep_first_cosine(VECTORS, THRESHOLD)
    assert np.array_equal(exact.matched, matches.matched)
    assert recall.found == recall.duplicates


def test_a_recall_says_what_it_was_measured_on():
    """The share with Wilson's interval; without duplicates nothing is claimed."""
    assert str(Recall.of(95, 100, 400)) == (
        "0.9500 (95 % interval 0.8882 to 0.9785; 100 duplicates among 400 sampled rows)"
    )
    assert str(Recall.of(0, 0, 400)) == "not known: no duplicates among 400 sampled rows"
