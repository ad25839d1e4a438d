import math
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.funnel.catalogue import select_diverse
from decomposerl.funnel.selection import quotas
from decomposerl.funnel.settings import SelectionSettings
from decomposerl.reports.stage_page import cells_markdown, selection_totals
from decomposerl.schemas import DIVERSITY_SELECTED, SELECTION_CELLS, SILVER_DECOMPOSED
from fakes import BagOfWordsEmbedder
from strategies import FRAME_LAW, LAW, example_row, frame_of, frames

counts = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2), st.integers(0, 5_000))
budgets = st.integers(0, 3_000)
# half of the paper's pool before selection, as if labels were even (Table "Per-source …")
PAPER_POOL = {
    "llm_aggrefact": 2_137,
    "ex_fever": 1_858,
    "foolmetwice": 1_342,
    "pubhealth": 1_178,
    "hover": 1_053,
    "feverous": 393,
    "faviq_a": 179,
    "wice": 114,
    "pubhealthtab": 95,
    "scitab": 92,
    "ambifc": 88,
    "pubmedclaim": 59,
    "scifact": 53,
    "claimdecomp": 20,
}


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


@pytest.mark.parametrize(
    ("available", "budget", "expected"),
    [
        ({"a": 100, "b": 400}, 30, {"a": 10, "b": 20}),
        ({"a": 4, "b": 400, "c": 100}, 64, {"a": 4, "b": 40, "c": 20}),
        ({"a": 9, "b": 9, "c": 9}, 4, {"a": 2, "b": 1, "c": 1}),
        ({"a": 5, "b": 0}, 50, {"a": 5, "b": 0}),
        ({"a": 5, "b": 7}, 0, {"a": 0, "b": 0}),
        ({}, 10, {}),
    ],
)
def test_quotas_by_example(available: dict[str, int], budget: int, expected: dict[str, int]):
    """Square roots, a cap with the rest redistributed, ties by name, nothing to give."""
    assert expected == quotas(available, budget)


def test_quotas_at_the_size_of_the_paper():
    """Small sources give all they have, large ones are damped, the sum is the budget."""
    given_rows = quotas(PAPER_POOL, 2_500)
    assert sum(given_rows.values()) == 2_500
    exhausted = {source for source, rows in PAPER_POOL.items() if given_rows[source] == rows}
    assert {"claimdecomp", "scifact", "pubmedclaim"} == exhausted
    share = given_rows["llm_aggrefact"] / 2_500
    assert share < PAPER_POOL["llm_aggrefact"] / sum(PAPER_POOL.values())


@FRAME_LAW
@given(frames(SILVER_DECOMPOSED, 20), st.integers(0, 6))
def test_selection_fills_each_label_and_orders_each_cell(frame: pl.DataFrame, budget: int):
    """Kept rows conform, stay in order, and fill min(budget, available) of each label.

    Within a cell the ranks count from 0, gains never grow along them and sum to f(S).
    """
    chosen = select_diverse(frame, SelectionSettings(budget_per_label=budget), BagOfWordsEmbedder())
    kept = DIVERSITY_SELECTED.conform(chosen.kept)
    ids = set(kept["claim_id"])
    assert [i for i in frame["claim_id"] if i in ids] == kept["claim_id"].to_list()
    for (label,), part in frame.group_by("label"):
        assert min(budget, part.height) == kept.filter(pl.col("label") == label).height
    for cell in SELECTION_CELLS.conform(chosen.cells).iter_rows(named=True):
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


@pytest.mark.parametrize("selector", ["facility_location", "k_means", "farthest_point", "random"])
def test_every_selector_keeps_the_quotas(selector: str):
    """The selector changes who is chosen, never how many; engines are asked once."""
    frame = frame_of(
        SILVER_DECOMPOSED,
        [
            example_row(claim=f"claim {index} {index % 7}", source=source, label=label)
            for index in range(24)
            for source in ("hover", "wice")
            for label in ("Supported", "Refuted")
        ],
    )
    embedder = BagOfWordsEmbedder()
    settings = SelectionSettings(budget_per_label=11, selector=selector)
    cells = select_diverse(frame, settings, embedder).cells
    assert [6, 5, 6, 5] == cells["selected"].to_list()
    assert [24 * 4] == embedder.asked


def mixed_frame() -> pl.DataFrame:
    """Three sources of two labels with 5 to 40 claims, similar and dissimilar ones."""
    sizes = {"hover": 40, "wice": 17, "scitab": 5}
    return frame_of(
        SILVER_DECOMPOSED,
        [
            example_row(claim=f"claim {index} of {index % 7}", source=source, label=label)
            for label in ("Supported", "Refuted")
            for source, rows in sizes.items()
            for index in range(rows)
        ],
    )


@pytest.mark.parametrize("selector", ["facility_location", "k_means", "farthest_point", "random"])
def test_the_selection_does_not_depend_on_threads(selector: str):
    """One thread and four select the same rows with the same gains, cell by cell."""
    one, four = (
        select_diverse(
            mixed_frame(),
            SelectionSettings(budget_per_label=20, selector=selector, threads=threads),
            BagOfWordsEmbedder(),
        )
        for threads in (1, 4)
    )
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
    cells = select_diverse(
        mixed_frame(), SelectionSettings(budget_per_label=20), BagOfWordsEmbedder()
    ).cells
    totals = selection_totals(cells)
    assert (40, round(40 * 40 * 4 / 1e6, 4)) == (
        totals["largest_cell"],
        totals["largest_cell_matrix_mb"],
    )
    assert pytest.approx(cells["objective"].sum(), abs=1e-3) == totals["objective"]
    assert pytest.approx(totals["objective"] / 124, abs=1e-3) == totals["mean_cover"]
    assert cells["evaluations"].sum() == totals["evaluations"]
    assert cells.height + 2 == len(cells_markdown(cells).splitlines())


def test_no_rows_give_no_cells():
    """An empty pool selects nothing, makes no call, and its totals are 0."""
    embedder = BagOfWordsEmbedder()
    chosen = select_diverse(SILVER_DECOMPOSED.empty(), SelectionSettings(), embedder)
    assert DIVERSITY_SELECTED.schema == chosen.kept.schema
    assert (0, 0, []) == (chosen.kept.height, chosen.cells.height, embedder.asked)
    assert {0} == set(selection_totals(chosen.cells).values())
