"""The measures of the selector study against plain loops, and the comparison itself."""

import itertools
import math
from collections import Counter
from functools import partial

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from decomposerl.claims.paper_counts import PAPER_TOTAL
from decomposerl.funnel.selection import label_source_cells
from decomposerl.funnel.selector_comparison import (
    BINS,
    MOST_ISOLATED,
    NEIGHBOURS,
    PAPER_BUDGET,
    PAPER_POOL,
    Pool,
    SelectorComparison,
    compare_selectors,
    entropy_bits,
    grid_bins,
    isolation,
    principal_plane,
)
from decomposerl.funnel.settings import SelectorStudySettings
from decomposerl.schemas import SELECTOR_STUDY

OTHERS = ["facility_location", "k_means", "farthest_point", "random"]
"""Without apricot, which compiles its loops for every cell."""


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def clustered(rows: int, seed: int = 3, dimensions: int = 12) -> NDArray[np.float32]:
    """Twelve clusters; every fiftieth row is in none."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(12, dimensions)) + 1
    vectors = centres[np.arange(rows) % 12] + 0.6 * rng.normal(size=(rows, dimensions))
    vectors[::50] = 5 * rng.normal(size=(len(vectors[::50]), dimensions))
    return unit(vectors)


def claims(rows: int) -> pl.DataFrame:
    """Both labels of three sources of unequal size."""
    sources = ["a", "a", "a", "b", "b", "c"]
    labels = ["Supported", "Refuted"]
    return pl.DataFrame(
        {
            "label": [labels[row % 2] for row in range(rows)],
            "source": [sources[row // 2 % 6] for row in range(rows)],
        }
    )


def compared(rows: int = 300, **settings: object) -> SelectorComparison:
    """A clock's reading is 1 (wall) or 10 (cores) more each time it is read."""
    ticks = {"seconds": itertools.count(0, 1), "core_seconds": itertools.count(0, 10)}
    chosen = SelectorStudySettings.model_validate(
        {"selectors": OTHERS, "seeds": 2, "threads": 1, **settings}
    )
    clocks = {name: partial(next, counted) for name, counted in ticks.items()}
    return compare_selectors(clustered(rows), claims(rows), chosen, "made up", clocks)


def nearest_distances(
    vectors: NDArray[np.float32], rows: list[int], picks: list[int]
) -> list[float]:
    exact = vectors.astype(np.float64)
    return [min(1 - float(exact[row] @ exact[pick]) for pick in picks) for row in rows]


def test_every_measure_equals_a_plain_loop():
    """Bins, distances of the sample, share of isolated picks and entropy, pick by pick."""
    vectors, sources = clustered(240), claims(240)["source"].to_list()
    pool = Pool.of(vectors, sources, sample=90, seed=5)
    picks = np.random.default_rng(1).permutation(240)[:40]
    found = pool.measures(picks, pool.distances(picks))
    chosen, sample = picks.tolist(), pool.sample.tolist()
    assert 90 == len(set(sample))

    distances = nearest_distances(vectors, sample, chosen)
    assert pytest.approx(distances, abs=1e-6) == pool.distances(picks).tolist()
    assert pytest.approx(float(np.median(distances)), abs=1e-6) == found.distance_median
    assert pytest.approx(float(np.percentile(distances, 95)), abs=1e-6) == found.distance_95

    exact = vectors.astype(np.float64)
    far = [
        sum(sorted(1 - float(exact[i] @ exact[j]) for j in range(240) if j != i)[:NEIGHBOURS])
        for i in range(240)
    ]
    outer = sorted(range(240), key=lambda row: -far[row])[: round(MOST_ISOLATED * 240)]
    assert pytest.approx([one / NEIGHBOURS for one in far], abs=1e-6) == isolation(vectors).tolist()
    assert {*outer} == {*np.flatnonzero(pool.isolated).tolist()}
    assert pytest.approx(100 * len({*outer} & {*chosen}) / 40) == found.isolated

    places = pool.bins.tolist()
    covered = {places[pick] for pick in chosen}
    assert pytest.approx(100 * len(covered) / len(set(places))) == found.bins

    counts = Counter(sources[pick] for pick in chosen).values()
    bits = sum(n / 40 * math.log2(40 / n) for n in counts)
    assert pytest.approx(bits) == found.source_entropy


def test_the_plane_is_that_of_the_singular_vectors():
    """The first two principal components, up to their signs."""
    vectors = clustered(200)
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    for found, expected in zip(principal_plane(vectors).T, axes[:2] @ centred.T, strict=True):
        sign = np.sign(found @ expected)
        assert pytest.approx(expected.tolist(), abs=1e-4) == (sign * found).tolist()


def test_a_grid_has_fifty_bins_a_side():
    """Equal widths between least and greatest value, the greatest in the last bin."""
    line = np.linspace(-3, 5, 1_000)
    plane = np.stack((line, line[::-1]), axis=1).astype(np.float32)
    rows = [divmod(one, BINS) for one in grid_bins(plane).tolist()]
    expected = [min(int((x + 3) / 8 * BINS + 1e-6), BINS - 1) for x in line]
    apart = [abs(column - other) for (column, _), other in zip(rows, expected, strict=True)]
    assert max(apart) <= 1  # a border, rounded
    assert sum(apart) < 5
    assert {*range(BINS)} == {column for column, _ in rows} == {line for _, line in rows}
    assert (0, BINS - 1) == rows[0]
    assert (BINS - 1, 0) == rows[-1]


@pytest.mark.parametrize(("names", "bits"), [([], 0), ("aaa", 0), ("abab", 1), ("abcd", 2)])
def test_entropy_is_in_bits(names: str, bits: float):
    """Of n equally frequent names, log2 n."""
    assert pytest.approx(bits) == entropy_bits(list(names))


def test_the_same_quotas_hold_for_every_selector():
    """Equal numbers from every cell, so equal entropy; the table conforms."""
    done = compared()
    here = SELECTOR_STUDY.conform(done.table).filter(origin="here")
    cells = label_source_cells(claims(300), round(PAPER_BUDGET / PAPER_POOL * 150))
    budgets = {(one["label"], one["source"]): one["budget"] for one in cells.to_dicts()}
    for picks in done.picks.values():
        assert budgets == Counter(claims(300)[picks].select("label", "source").iter_rows())
    assert 1 == here["source_entropy"].round(9).n_unique()
    assert {sum(budgets.values())} == set(here["selected"])
    assert [None, 42, 43, None, 42, 43] == here["seed"].to_list()


def test_the_papers_rows_are_as_printed():
    """They stand last, under the engine of the paper, with what the paper does not have as null."""
    paper = compared(60).table.filter(origin="paper")
    assert [
        ("facility_location", 66.6, 0.467, 0.653, 7.6, 3.28, 23.7, None),
        ("k_means", 68.3, 0.473, 0.659, 7.0, 3.28, 103.2, None),
        ("farthest_point", 56.6, 0.531, 0.667, 12.5, 3.28, 0.1, None),
    ] == paper.select(
        "selector", "bins", "distance_median", "distance_95", "isolated", "source_entropy",
        "largest_seconds", "seconds",
    ).rows()  # fmt: skip
    assert {"text-embedding-3-large"} == set(paper["engine"])
    assert PAPER_TOTAL.deduplicated == PAPER_POOL


def test_isolated_claims_attract_farthest_point_alone():
    """On clusters with rows in none: the paper's finding, and the best f(S) and median distance."""
    here = compared(600).table.filter(origin="here").unique("selector", keep="first")
    rows = {one["selector"]: one for one in here.to_dicts()}
    facility, farthest = rows["facility_location"], rows["farthest_point"]
    assert farthest["isolated"] > max(5.0, facility["isolated"])
    assert min(rows, key=lambda name: rows[name]["distance_median"]) == "facility_location"
    assert max(rows, key=lambda name: rows[name]["mean_cover"]) == "facility_location"
    assert 100 == facility["shared"] > rows["random"]["shared"]


def test_seconds_are_those_of_the_selection():
    """Each clock is read just before and after all cells, and again for the largest cell."""
    here = compared(60).table.filter(origin="here")
    for prefix in ("", "largest_"):
        assert {1.0} == set(here[f"{prefix}seconds"])
        assert {10.0} == set(here[f"{prefix}core_seconds"])
    assert {15} == set(here["largest_cell"])


@pytest.mark.parametrize("rows", [0, 1, 2, 7])
def test_a_small_pool_is_no_trouble(rows: int):
    """Fewer claims than bins, neighbours or cells: rows without numbers, and no warning."""
    table = SELECTOR_STUDY.conform(compared(rows, budget_per_label=1).table)
    assert {min(rows, 2)} == set(table.filter(origin="here")["selected"])


def test_a_budget_replaces_the_papers_share():
    """Claims of each label."""
    assert {40} == set(compared(200, budget_per_label=20).table.filter(origin="here")["selected"])


def test_an_unknown_selector_is_refused():
    """By name, before anything runs."""
    with pytest.raises(ValidationError, match="no selector is called medoids"):
        SelectorStudySettings(selectors=["random", "medoids"])
