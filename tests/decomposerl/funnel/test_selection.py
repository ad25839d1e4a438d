"""The selection: quotas, cells, selectors, and the study that compares selectors."""

import itertools
import math
from collections import Counter
from functools import partial
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from decomposerl import schemas
from decomposerl.claims.catalogue import PAPER_TOTAL
from decomposerl.funnel.catalogue import select_diverse
from decomposerl.funnel.selection import label_source_cells, quotas
from decomposerl.funnel.selector_comparison import (
    BINS,
    MOST_ISOLATED,
    NEIGHBOURS,
    PAPER_BUDGET,
    PAPER_POOL,
    Pool,
    SelectorComparison,
    compare_selectors,
    grid_bins,
    isolation,
    principal_plane,
)
from decomposerl.funnel.settings import SelectionSettings, SelectorStudySettings
from decomposerl.reports.stage_page import cells_markdown, selection_totals
from fakes import BagOfWordsEmbedder
from strategies import FRAME_LAW, LAW, example_row, frame_of, frames

counts = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2), st.integers(0, 5_000))
budgets = st.integers(0, 3_000)
OTHERS = ["facility_location", "k_means", "farthest_point", "random"]
"""Without apricot, which compiles its loops for every cell."""


@LAW
@given(counts, budgets)
def test_quotas_sum_to_the_budget_or_to_all_there_is(available: dict[str, int], budget: int):
    """Nothing is left over while some source still has rows, and nobody gives more than it has."""
    given_rows = quotas(available, budget)
    assert min(budget, sum(available.values())) == sum(given_rows.values())
    assert all(0 <= given_rows[source] <= rows for source, rows in available.items())
    assert list(available) == list(given_rows)


@LAW
@given(counts, budgets)
def test_a_larger_source_never_gives_less(available: dict[str, int], budget: int):
    """Quotas are monotone in the counts; equal counts differ by one at most."""
    pairs = sorted(
        (rows, quota)
        for rows, quota in zip(available.values(), quotas(available, budget).values(), strict=True)
    )
    for (rows, quota), (more_rows, more_quota) in pairwise(pairs):
        assert quota <= more_quota + (rows == more_rows)


@LAW
@given(counts, budgets)
def test_sources_that_keep_rows_back_share_by_square_root(available: dict[str, int], budget: int):
    """Among the sources that are not exhausted a quota is its share of the rest, within one."""
    given_rows = quotas(available, budget)
    sharing = {s: rows for s, rows in available.items() if given_rows[s] < rows}
    rest = sum(given_rows[source] for source in sharing)
    total = sum(math.sqrt(rows) for rows in sharing.values())
    for source, rows in sharing.items():
        # A source exhausted by rounding up takes at most one row from each share.
        assert abs(given_rows[source] - rest * math.sqrt(rows) / total) <= 1 + len(available)


def test_quotas_by_example():
    """Square roots, a cap with the rest redistributed, ties by name, nothing to give."""
    assert {"a": 10, "b": 20} == quotas({"a": 100, "b": 400}, 30)
    assert {"a": 4, "b": 40, "c": 20} == quotas({"a": 4, "b": 400, "c": 100}, 64)
    assert {"a": 4, "b": 49, "c": 24} == quotas({"a": 4, "b": 400, "c": 100}, 77)
    assert {"a": 2, "b": 1, "c": 1} == quotas({"a": 9, "b": 9, "c": 9}, 4)
    assert {"a": 5, "b": 0} == quotas({"a": 5, "b": 0}, 50)
    assert {"a": 0, "b": 0} == quotas({"a": 5, "b": 7}, 0)
    assert {} == quotas({}, 10)


@FRAME_LAW
@given(frames(schemas.SILVER_DECOMPOSED, 20), st.integers(0, 6))
def test_selection_fills_each_label_and_orders_each_cell(frame: pl.DataFrame, budget: int):
    """Kept rows stay in order and fill each label; a cell's gains never grow and sum to f(S)."""
    chosen = select_diverse(frame, SelectionSettings(budget_per_label=budget), BagOfWordsEmbedder())
    kept = schemas.DIVERSITY_SELECTED.conform(chosen.kept)
    ids = set(kept["claim_id"])
    assert [i for i in frame["claim_id"] if i in ids] == kept["claim_id"].to_list()
    for (label,), part in frame.group_by("label"):
        assert min(budget, part.height) == kept.filter(pl.col("label") == label).height
    for cell in schemas.SELECTION_CELLS.conform(chosen.cells).iter_rows(named=True):
        rows = kept.filter(pl.col("bucket") == cell["bucket"]).sort("selection_rank")
        assert cell["budget"] == cell["selected"] == rows.height <= cell["available"]
        assert list(range(rows.height)) == rows["selection_rank"].to_list()
        gains = rows["selection_gain"].to_list()
        assert all(later <= earlier + 1e-6 for earlier, later in pairwise(gains))
        assert pytest.approx(cell["objective"]) == sum(gains)
        shares = [cell[f"within_0_{near}"] for near in (9, 7, 5)]
        assert rows.height / cell["available"] - 1e-9 <= shares[0]
        assert sorted(shares) == shares
        assert cell["mean_cover"] <= 1 + 1e-6


def mixed_frame() -> pl.DataFrame:
    """Three sources of two labels with 5 to 40 claims, similar and dissimilar ones."""
    sizes = {"hover": 40, "wice": 17, "scitab": 5}
    return frame_of(
        schemas.SILVER_DECOMPOSED,
        [
            example_row(claim=f"claim {index} of {index % 7}", source=source, label=label)
            for label in ("Supported", "Refuted")
            for source, rows in sizes.items()
            for index in range(rows)
        ],
    )


@pytest.mark.parametrize("selector", OTHERS)
def test_every_selector_keeps_the_quotas_whatever_the_threads(selector: str):
    """It changes who is chosen, never how many; engines are asked once; threads change nothing."""
    embedders = BagOfWordsEmbedder(), BagOfWordsEmbedder()
    one, four = (
        select_diverse(
            mixed_frame(),
            SelectionSettings(budget_per_label=20, selector=selector, threads=threads),
            embedder,
        )
        for threads, embedder in zip((1, 4), embedders, strict=True)
    )
    assert [10, 4, 6] * 2 == one.cells["selected"].to_list()
    assert [[124], [124]] == [embedder.asked for embedder in embedders]
    assert one.kept.equals(four.kept)
    assert one.cells.equals(four.cells)


def test_a_cell_says_how_near_its_claims_are_to_the_selection():
    """Shares within a cosine are those of a search over all pairs."""
    frame, embedder = mixed_frame(), BagOfWordsEmbedder()
    chosen = select_diverse(frame, SelectionSettings(budget_per_label=12), embedder)
    for cell in chosen.cells.iter_rows(named=True):
        part = frame.filter(label=cell["label"], source=cell["source"])
        picked = chosen.kept.filter(bucket=cell["bucket"])
        cosines = (
            embedder.embed(part["claim"].to_list()) @ embedder.embed(picked["claim"].to_list()).T
        )
        best = cosines.max(axis=1).astype(float)
        for near in (0.5, 0.7, 0.9):
            share = cell[f"within_{near}".replace(".", "_")]
            assert (best >= near + 1e-5).mean() <= share <= (best >= near - 1e-5).mean()
        assert pytest.approx(best.clip(min=0).mean(), abs=1e-5) == cell["mean_cover"]


def test_the_totals_weigh_each_cell_by_its_claims():
    """The largest cell's matrix, shares over all claims, and a line a cell in the table."""
    chosen = SelectionSettings(budget_per_label=20)
    cells = select_diverse(mixed_frame(), chosen, BagOfWordsEmbedder()).cells
    totals = selection_totals(cells)
    assert 40 == totals["largest_cell"]
    assert round(40 * 40 * 4 / 1e6, 4) == totals["largest_cell_matrix_mb"]
    assert pytest.approx(cells["objective"].sum(), abs=1e-3) == totals["objective"]
    assert pytest.approx(totals["objective"] / 124, abs=1e-3) == totals["mean_cover"]
    assert cells["evaluations"].sum() == totals["evaluations"]
    assert cells.height + 2 == len(cells_markdown(cells).splitlines())


def test_no_rows_give_no_cells():
    """An empty pool selects nothing, makes no call, and its totals are 0."""
    embedder = BagOfWordsEmbedder()
    chosen = select_diverse(schemas.SILVER_DECOMPOSED.empty(), SelectionSettings(), embedder)
    assert schemas.DIVERSITY_SELECTED.schema == chosen.kept.schema
    assert (0, 0, []) == (chosen.kept.height, chosen.cells.height, embedder.asked)
    assert {0} == set(selection_totals(chosen.cells).values())


def clustered(rows: int, seed: int = 3, dimensions: int = 12) -> NDArray[np.float32]:
    """Twelve clusters; every fiftieth row is in none."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(12, dimensions)) + 1
    vectors = centres[np.arange(rows) % 12] + 0.6 * rng.normal(size=(rows, dimensions))
    vectors[::50] = 5 * rng.normal(size=(len(vectors[::50]), dimensions))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


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


def test_every_measure_equals_a_plain_loop():
    """Bins, distances of the sample, share of isolated picks and entropy, pick by pick."""
    vectors, sources = clustered(240), claims(240)["source"].to_list()
    pool = Pool.of(vectors, sources, sample=90, seed=5)
    picks = np.random.default_rng(1).permutation(240)[:40]
    found = pool.measures(picks, pool.distances(picks))
    chosen, sample = picks.tolist(), pool.sample.tolist()
    assert 90 == len(set(sample))

    exact = vectors.astype(np.float64)
    distances = [min(1 - float(exact[row] @ exact[pick]) for pick in chosen) for row in sample]
    assert pytest.approx(distances, abs=1e-6) == pool.distances(picks).tolist()
    assert pytest.approx(float(np.median(distances)), abs=1e-6) == found.distance_median
    assert pytest.approx(float(np.percentile(distances, 95)), abs=1e-6) == found.distance_95

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


def test_the_same_quotas_hold_for_every_selector():
    """Equal numbers from every cell, so equal entropy; the table conforms."""
    done = compared()
    here = schemas.SELECTOR_STUDY.conform(done.table).filter(origin="here")
    budget = round(PAPER_BUDGET / PAPER_POOL * 150)
    cells = label_source_cells(claims(300), budget)
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


def test_seconds_are_those_of_the_selection():
    """Each clock is read just before and after all cells, and again for the largest cell."""
    here = compared(60).table.filter(origin="here")
    for prefix in ("", "largest_"):
        assert {1.0} == set(here[f"{prefix}seconds"])
        assert {10.0} == set(here[f"{prefix}core_seconds"])
    assert {15} == set(here["largest_cell"])


def test_a_budget_replaces_the_papers_share_and_a_small_pool_is_no_trouble():
    """Fewer claims than bins, neighbours or cells: rows without numbers, and no warning."""
    for rows, budget, selected in ((0, 1, 0), (1, 1, 1), (2, 1, 2), (7, 1, 2), (200, 20, 40)):
        table = schemas.SELECTOR_STUDY.conform(compared(rows, budget_per_label=budget).table)
        assert {selected} == set(table.filter(origin="here")["selected"])


def test_an_unknown_selector_is_refused():
    """By name, before anything runs."""
    with pytest.raises(ValidationError, match="medoids"):
        SelectorStudySettings(selectors=["random", "medoids"])
