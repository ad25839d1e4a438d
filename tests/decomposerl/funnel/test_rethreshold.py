"""Asking the deduplication stage again: the replay from pairs is the stage run afresh."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from decomposerl.errors import ConfigError
from decomposerl.funnel import catalogue
from decomposerl.funnel.settings import DedupSettings
from decomposerl.kernels.matches import Pairs, exact_threshold, keep_first_of_pairs
from decomposerl.kernels.text_scan import words
from decomposerl.reports.rethreshold import (
    DedupDecision,
    DedupRun,
    Thresholds,
    decide_again,
    disagreements,
    rethreshold_text,
    rethresholded,
)
from decomposerl.schemas import DIFFICULTY_BAND, PAIRS
from exact_cosines import exact_cosines
from fakes import BagOfWordsEmbedder
from strategies import LAW, example_row, frame_of, frames

FLOORS = (0.3, 0.5, 0.6, 2 / 3, 0.6666667, 0.7)
HIGHER = (0.7, 0.714286, 5 / 7, 0.75, 0.8, 0.85, 0.9, 1.0)
EMBEDDER = BagOfWordsEmbedder(dimensions=3)  # few dimensions: many near pairs


def fresh(frame: pl.DataFrame, asked: Thresholds) -> pl.DataFrame:
    """What the stage's own steps remove at these thresholds: id, step, value and match."""
    ran = DedupSettings(lexical_engine="exact", jaccard=asked.lexical, cosine=asked.semantic)
    drops = catalogue.deduplicate(frame, ran, EMBEDDER).drops
    return drops.select("claim_id", "step", "value", "matched_claim_id")


def decided(frame: pl.DataFrame, answer: DedupDecision) -> pl.DataFrame:
    """The replay's removals in the same form."""
    ids = frame["claim_id"]
    parts = [
        pl.DataFrame(
            {
                "claim_id": ids.filter(pl.Series(found.is_matched)),
                "step": pl.Series([step] * int(found.is_matched.sum()), dtype=pl.String()),
                "value": found.similarity[found.is_matched],
                "matched_claim_id": ids.gather(found.matched[found.is_matched]),
            }
        )
        for step, found in (
            ("lexical_duplicates", answer.lexical),
            ("semantic_duplicates", answer.semantic),
        )
    ]
    return pl.concat(parts)


def run_of(frame: pl.DataFrame, floor: float, ran: Thresholds) -> DedupRun:
    """A run of the stage with its pairs."""
    settings = DedupSettings(
        lexical_engine="exact", jaccard=ran.lexical, cosine=ran.semantic, pairs_floor=floor
    )
    done = catalogue.deduplicate(frame, settings, EMBEDDER)
    assert done.pairs is not None
    rows = frame.select(
        "claim_id", "source", kept=pl.col("claim_id").is_in(done.kept["claim_id"].implode())
    )
    return DedupRun(rows, done.pairs, floor, ran)


@LAW
@given(
    frames(DIFFICULTY_BAND, max_size=12),
    st.sampled_from(FLOORS),
    st.sampled_from(HIGHER),
    st.data(),
)
def test_the_replay_is_the_stage_run_afresh(
    frame: pl.DataFrame, floor: float, ran: float, data: st.DataObject
):
    """At every pair of thresholds from the floor up: the same rows, steps, scores, matches."""
    run = run_of(frame, floor, Thresholds(ran, ran))
    assert 0 == disagreements(run)
    cosines = run.pairs.filter(kind="semantic")["similarity"].to_list()
    higher = [t for t in (*FLOORS, *HIGHER, *cosines) if floor <= t <= 1]
    asked = Thresholds(
        data.draw(st.sampled_from([t for t in higher if t not in cosines])),
        data.draw(st.sampled_from(higher)),
    )
    assert_frame_equal(fresh(frame, asked), decided(frame, decide_again(run, asked)))


@LAW
@given(frames(DIFFICULTY_BAND, max_size=12), st.sampled_from(FLOORS))
def test_the_pairs_are_all_pairs(frame: pl.DataFrame, floor: float):
    """Brute force over all rows that enter, kept or not: the same pairs, scores and order."""
    texts, ids = frame["claim"].to_list(), frame["claim_id"].to_list()
    bound, found = exact_threshold(floor), []
    sets = [frozenset(words(text)) or frozenset([""]) for text in texts]
    vectors = EMBEDDER.embed(texts) if texts else np.empty((0, 3), np.float32)
    for kind in ("lexical", "semantic"):
        for later in range(len(ids)):
            for earlier in range(later):
                if kind == "lexical":
                    shared = len(sets[earlier] & sets[later])
                    united = len(sets[earlier] | sets[later])
                    score = shared / united
                    near = shared * bound.denominator >= united * bound.numerator
                else:
                    pair = vectors[earlier : earlier + 1], vectors[later : later + 1]
                    score = float(exact_cosines(*pair)[0])
                    near = score >= floor
                if near:
                    found.append((kind, ids[earlier], ids[later], score, floor))
    pairs = run_of(frame, floor, Thresholds(0.7, 0.7)).pairs
    schema = pl.Schema(list(PAIRS.schema.items())[:-1])
    assert_frame_equal(pl.DataFrame(found, schema=schema, orient="row"), pairs.drop("engine"))


@LAW
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 1_000_000))
def test_floats_decide_as_whole_numbers_do(shared: int, more: int, millionths: int):
    """A stored Jaccard reaches the float of a threshold iff the fraction reaches the exact one."""
    united = shared + more
    for typed in (millionths / 1_000_000, shared / united, round(shared / united, 6)):
        exact = exact_threshold(typed)
        near = shared * exact.denominator >= united * exact.numerator
        pair = Pairs(*(np.array([row]) for row in (0, 1)), np.array([shared / united]))
        assert near == keep_first_of_pairs(2, pair, float(exact)).is_matched[1]


def known(*claims: str) -> pl.DataFrame:
    return frame_of(DIFFICULTY_BAND, [example_row(claim=claim) for claim in claims])


def test_a_longer_decimal_means_the_fraction_that_the_search_reads():
    """0.6666667 is read as 2/3 by the search, so the replay must not read it as more."""
    frame = known("a b c d e", "a b c d f")  # Jaccard 4/6
    run = run_of(frame, 0.5, Thresholds(0.7, 0.9))
    for typed in (2 / 3, 0.6666667, 0.666667):
        asked = Thresholds(typed, 1.0)
        assert_frame_equal(fresh(frame, asked), decided(frame, decide_again(run, asked)))


def test_the_table_counts_per_source_and_in_total():
    """Rows in, kept by the run, kept then, their difference, and what each search removes."""
    rows = [
        example_row(claim="a b c d", source="hover"),
        example_row(claim="a b c e", source="hover"),  # Jaccard 3/5
        example_row(claim="a b c d", source="wice"),
        example_row(claim="x y z", source="wice"),
    ]
    frame = frame_of(DIFFICULTY_BAND, rows)
    run = run_of(frame, 0.5, Thresholds(0.7, 1.0))
    table = rethresholded(run, Thresholds(0.6, 1.0))
    assert ["hover", "wice", "total"] == table["source"].to_list()
    assert (2, 2, 1, -1, 1, 0) == table.row(0)[1:]
    assert (2, 1, 1, 0, 1, 0) == table.row(1)[1:]
    assert (4, 3, 2, -1, 2, 0) == table.row(2)[1:]
    text = rethreshold_text(run, Thresholds(0.6, 1.0), table)
    assert "0.6 and 1.0" in text
    assert "of at least 0.5" in text
    assert text.count("\n") > 6


def test_an_approximate_run_is_told_apart_from_its_pairs():
    """Where the run kept a row that the exact search removes, the note counts it."""
    frame = known("a b c d", "a b c d", "x")
    run = run_of(frame, 0.5, Thresholds(0.7, 1.0))
    rows = run.rows.with_columns(kept=True)
    missed = DedupRun(rows, run.pairs, run.floor, run.ran, exact=False)
    assert 1 == disagreements(missed)
    asked = Thresholds(0.8, 1.0)
    assert "on 1 of 3 claims" in rethreshold_text(missed, asked, rethresholded(missed, asked))


def test_thresholds_that_the_pairs_cannot_answer_are_refused():
    """Outside (0, 1], or below the floor, which is named; such a floor is none of a run."""
    run = run_of(known("a", "b"), 0.5, Thresholds(0.7, 0.7))
    for wrong in (0.0, -1.0, 1.01, float("nan"), 0.49):
        with pytest.raises(ConfigError, match=r"lexical threshold.*(0\.5|at most 1)"):
            decide_again(run, Thresholds(wrong, 0.7))
        with pytest.raises(ConfigError, match=r"semantic threshold.*(0\.5|at most 1)"):
            decide_again(run, Thresholds(0.7, wrong))
    with pytest.raises(ValueError, match=r"0\.8.*0\.7"):
        DedupSettings(pairs_floor=0.8)


def test_the_embedder_is_asked_once_for_all_rows():
    """With pairs wanted, one call embeds every row that enters; without, the survivors.

    An empty stage asks no engine and gives the empty table.
    """
    frame = known("Ilva opened it", "Ilva opened it", "The bridge")
    for floor, asked in ((None, [2]), (0.6, [3])):
        embedder = BagOfWordsEmbedder()
        done = catalogue.deduplicate(frame, DedupSettings(pairs_floor=floor), embedder)
        assert asked == embedder.asked
        assert (done.pairs is None) == (floor is None)
    embedder, settings = BagOfWordsEmbedder(), DedupSettings(pairs_floor=0.6)
    done = catalogue.deduplicate(DIFFICULTY_BAND.empty(), settings, embedder)
    assert done.pairs is not None
    assert_frame_equal(PAIRS.empty(), done.pairs)
    assert [] == embedder.asked
