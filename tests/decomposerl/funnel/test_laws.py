"""Laws that every stage and step of the funnel's catalogue obeys, whatever the frame."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from decomposerl.errors import ConservationError
from decomposerl.funnel import catalogue
from decomposerl.funnel.conservation import conservation_errors
from decomposerl.funnel.lineage import BEFORE, column_origins
from decomposerl.funnel.settings import (
    DecontaminationSettings,
    DedupSettings,
    DifficultySettings,
    RuleSettings,
    SelectionSettings,
    SilverSettings,
    TrainingSettings,
)
from decomposerl.funnel.step import StageResult, with_decided
from decomposerl.schemas import (
    BENCHMARK_CLAIMS,
    CLAIMS,
    DECONTAMINATED,
    DEDUPLICATED,
    DIFFICULTY_BAND,
    DIVERSITY_SELECTED,
    DROPS,
    RULE_FILTERED,
    SILVER_DECOMPOSED,
    TRAINING_CLAIMS,
)
from decomposerl.table import Table
from fakes import (
    BagOfWordsEmbedder,
    CapitalisedWords,
    ScriptedDecomposer,
    ScriptedVerifier,
    WordCounter,
)
from strategies import FRAME_LAW, example_row, frame_of, frames

ENGINES_ASKED = (
    "token_budget",
    "entities",
    "difficulty",
    "lexical_duplicates",
    "semantic_duplicates",
    "lexical_match",
    "semantic_match",
    "silver",
)
RULES = RuleSettings(min_tokens=6, max_tokens=25, min_entities=1)
HOLDOUTS = BENCHMARK_CLAIMS.conform(
    frame_of(
        CLAIMS,
        [
            example_row(claim="Ilva opened the bridge", source="fever"),
            example_row(claim="in 1921 the river", source="wice"),
        ],
    )
)


def training(frame: pl.DataFrame) -> StageResult:
    chosen = catalogue.select_diverse(
        frame, SelectionSettings(budget_per_label=3), BagOfWordsEmbedder()
    )
    return catalogue.assemble_training(
        frame, chosen.kept, TrainingSettings(long_evidence_tokens=20), WordCounter(slack=5)
    )


@dataclass(frozen=True)
class Stage:
    """A stage with its engines: the table it reads, the one it fills, its drop reasons.

    ``idempotent`` says that its own survivors survive it again.
    """

    reads: Table
    fills: Table
    run: Callable[[pl.DataFrame], StageResult]
    reasons: frozenset[str]
    idempotent: bool = True


STAGES = {
    "rule_filtered": Stage(
        CLAIMS,
        RULE_FILTERED,
        lambda frame: catalogue.rule_filter(frame, RULES, WordCounter(), CapitalisedWords()),
        frozenset(
            {
                "too_few_passages",
                "too_few_tokens",
                "too_many_tokens",
                "paraphrased_evidence",
                "too_few_entities",
            }
        ),
    ),
    "difficulty_band": Stage(
        RULE_FILTERED,
        DIFFICULTY_BAND,
        lambda frame: catalogue.difficulty_band(frame, DifficultySettings(), ScriptedVerifier()),
        frozenset({"too_easy", "likely_mislabelled"}),
    ),
    "deduplicated": Stage(
        DIFFICULTY_BAND,
        DEDUPLICATED,
        lambda frame: catalogue.deduplicate(frame, DedupSettings(), BagOfWordsEmbedder()),
        frozenset({"lexical_duplicate", "semantic_duplicate"}),
    ),
    "decontaminated": Stage(
        DEDUPLICATED,
        DECONTAMINATED,
        lambda frame: catalogue.decontaminate(
            frame, HOLDOUTS, DecontaminationSettings(), BagOfWordsEmbedder()
        ),
        frozenset({"exact_match", "lexical_match", "semantic_match"}),
    ),
    "silver_decomposed": Stage(
        DECONTAMINATED,
        SILVER_DECOMPOSED,
        lambda frame: catalogue.silver_decompose(frame, SilverSettings(), ScriptedDecomposer()),
        frozenset({"no_silver_answer", "too_few_questions"}),
    ),
    "training_claims": Stage(
        SILVER_DECOMPOSED, TRAINING_CLAIMS, training, frozenset({"not_selected"}), idempotent=False
    ),
}
every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)


def test_every_stage_of_the_catalogue_is_under_the_laws():
    """A new stage must be listed here; the selection drops nobody and has its own tests."""
    assert [name for name in catalogue.STAGES if name != "diversity_selected"] == list(STAGES)
    assert list(STAGES) == [stage.fills.name for stage in STAGES.values()]


@every_stage
@FRAME_LAW
@given(st.data())
def test_each_row_is_kept_or_dropped_once(stage: Stage, data: st.DataObject):
    """Kept and dropped together are the rows that came in, and kept stay in order."""
    frame = data.draw(frames(stage.reads))
    result = stage.run(frame)
    assert [] == conservation_errors(frame, result.kept, result.drops)
    kept = set(result.kept["claim_id"])
    assert [i for i in frame["claim_id"] if i in kept] == result.kept["claim_id"].to_list()


@every_stage
@FRAME_LAW
@given(st.data())
def test_columns_that_came_in_are_left_as_they_were(stage: Stage, data: st.DataObject):
    """A stage adds columns and counts uncounted tokens; it edits nothing that it passes on."""
    frame = data.draw(frames(stage.reads))
    kept = stage.run(frame).kept.select(frame.columns)
    before = frame.filter(pl.col("claim_id").is_in(kept["claim_id"].to_list()))
    if "evidence_tokens" in frame.columns:
        counted = before["evidence_tokens"]
        before = before.with_columns(counted.fill_null(kept["evidence_tokens"]))
    assert_frame_equal(before, kept)


@every_stage
@FRAME_LAW
@given(st.data())
def test_a_column_depends_on_no_column_but_its_origins(stage: Stage, data: st.DataObject):
    """Where all other columns have another claim's values, a computed column is as before."""
    name = stage.fills.name
    computed = {
        column: {one for _, one in origins}
        for column, origins in column_origins(name).items()
        if origins != ((BEFORE[name], column),) and {t for t, _ in origins} <= {BEFORE[name]}
    }
    frame = data.draw(frames(stage.reads))
    kept = stage.run(frame).kept
    for column, origins in computed.items():
        same = {"claim_id", *origins} | ({"evidence_words"} if "evidence" in origins else set())
        others = [one for one in frame.columns if one not in same]
        other = stage.run(frame.with_columns(pl.col(others).reverse())).kept
        both = kept.join(other, on="claim_id", suffix="_other")
        assert both[column].equals(both[f"{column}_other"], null_equal=True), column


def test_every_origin_is_a_column_of_a_table_before():
    """Each stage of the funnel has origins for all its columns, and none is invented."""
    assert {*catalogue.STAGES, "training_claims_random"} == set(BEFORE)
    columns = {stage.fills.name: set(stage.fills.schema) for stage in STAGES.values()}
    columns |= {"claims": set(CLAIMS.schema), "diversity_selected": set(DIVERSITY_SELECTED.schema)}
    for stage in BEFORE:
        origins = column_origins(stage)
        assert set(origins) == columns.get(stage, set(TRAINING_CLAIMS.schema))
        named = {one for pairs in origins.values() for one in pairs}
        assert set() == {(table, column) for table, column in named if column not in columns[table]}


@every_stage
@FRAME_LAW
@given(st.data())
def test_drops_carry_the_stage_a_listed_reason_and_a_breach(stage: Stage, data: st.DataObject):
    """Each drop names the stage, a reason of its list, the number, the bound and the engine."""
    frame = data.draw(frames(stage.reads))
    drops = DROPS.conform(stage.run(frame).drops)
    assert set(drops["stage"]) <= {stage.fills.name}
    assert set(drops["reason"]) <= stage.reasons
    assert drops.filter(pl.col("threshold").is_null()).is_empty()
    judged = drops.filter(pl.col("reason") != "no_silver_answer")
    assert judged.filter(pl.col("value").is_null()).is_empty()
    assert drops["matched_claim_id"].is_null().equals(drops["matched_source"].is_null())
    asked = pl.col("step").is_in(ENGINES_ASKED)
    assert drops.filter(asked, pl.col("engine").fill_null("") == "").is_empty()


@every_stage
@FRAME_LAW
@given(st.data())
def test_survivors_survive_again(stage: Stage, data: st.DataObject):
    """Running a stage on its own survivors drops nothing."""
    if stage.idempotent:
        kept = stage.run(data.draw(frames(stage.reads))).kept
        again = stage.run(kept.select(list(stage.reads.schema)))
        assert_frame_equal(kept, again.kept)


@every_stage
def test_no_rows_in_give_no_rows_out(stage: Stage):
    """An empty frame passes with the right columns."""
    result = stage.run(stage.reads.empty())
    assert_frame_equal(stage.fills.empty(), result.kept)
    assert_frame_equal(DROPS.empty(), result.drops)


@every_stage
@pytest.mark.parametrize("rows", [1, 9])
def test_one_row_and_equal_rows_pass_the_law(stage: Stage, rows: int):
    """One claim, or copies of one under different ids."""
    frame = frame_of(stage.reads, [example_row()] * rows)
    result = stage.run(frame)
    assert rows == result.kept.height + result.drops.height
    assert [] == conservation_errors(frame, result.kept, result.drops)


BY_ROW = ("rule_filtered", "difficulty_band", "silver_decomposed")


@pytest.mark.parametrize("name", BY_ROW)
@FRAME_LAW
@given(st.data())
def test_a_stage_that_decides_by_row_may_take_its_rows_in_batches(name: str, data: st.DataObject):
    """Batches, cut anywhere, give the rows of the whole; and per step, its drops."""
    stage = STAGES[name]
    frame = data.draw(frames(stage.reads))
    cut = data.draw(st.integers(0, frame.height))
    whole, parts = stage.run(frame), [stage.run(frame[:cut]), stage.run(frame[cut:])]
    assert_frame_equal(whole.kept, pl.concat([part.kept for part in parts]))
    assert [whole.steps] * 2 == [part.steps for part in parts]
    arrived = pl.concat([part.drops for part in parts])
    in_steps = [arrived.filter(pl.col("step") == step) for step in whole.steps]
    assert_frame_equal(whole.drops, pl.concat(in_steps))


@FRAME_LAW
@given(frames(SILVER_DECOMPOSED), st.integers(0, 8))
def test_the_training_set_may_be_assembled_in_batches(frame: pl.DataFrame, cut: int):
    """As of the whole pool; a selected claim that is in no batch is an error."""
    settings = TrainingSettings(long_evidence_tokens=20)
    budget = SelectionSettings(budget_per_label=3)
    chosen = catalogue.select_diverse(frame, budget, BagOfWordsEmbedder()).kept

    def assembled(batches: list[pl.DataFrame]) -> pl.DataFrame:
        selected = chosen.select(catalogue.SELECTION)
        done = catalogue.assemble_batches(batches, selected, settings, WordCounter())
        return pl.concat([part.kept for _, part in done])

    whole = catalogue.assemble_training(frame, chosen, settings, WordCounter()).kept
    assert_frame_equal(whole, assembled([frame[:cut], frame[cut:]]))
    if chosen.height:
        with pytest.raises(ConservationError, match="selected claims are not silver-decomposed"):
            assembled([frame.clear()])


COMPARING = {
    "deduplicated": STAGES["deduplicated"],
    "decontaminated": STAGES["decontaminated"],
    "diversity_selected": Stage(
        SILVER_DECOMPOSED,
        DIVERSITY_SELECTED,
        lambda frame: StageResult(
            catalogue.select_diverse(
                frame, SelectionSettings(budget_per_label=3), BagOfWordsEmbedder()
            ).kept,
            DROPS.empty(),
        ),
        frozenset(),
    ),
}


@pytest.mark.parametrize("stage", COMPARING.values(), ids=COMPARING)
@FRAME_LAW
@given(st.data())
def test_a_stage_that_compares_claims_needs_few_of_their_columns(stage: Stage, data: st.DataObject):
    """It decides the same from ``COMPARED``, and batches of whole rows bring the rest back."""
    frame = data.draw(frames(stage.reads))
    size = data.draw(st.integers(1, 9))
    whole, narrow = stage.run(frame), stage.run(frame.select(catalogue.COMPARED))
    batches = [frame.clear(), *frame.iter_slices(size)]
    back = pl.concat(with_decided(batches, narrow.kept))
    assert_frame_equal(whole.kept, back)
    assert_frame_equal(whole.drops, narrow.drops)


def test_rows_that_a_stage_decided_about_must_come_back():
    """A row that is gone, or in another place, is an error and not a silent loss."""
    frame = frame_of(CLAIMS, [example_row(), example_row(claim="b"), example_row(claim="c")])
    with pytest.raises(ConservationError, match="1 kept rows are not among those"):
        list(with_decided([frame[:2]], frame))
    with pytest.raises(ConservationError, match="changed places"):
        list(with_decided([frame], frame.reverse()))
