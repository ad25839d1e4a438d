"""Laws of every stage of the funnel, also where its searches are split into tasks."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from assets.checks import conservation_errors
from decomposerl import schemas
from decomposerl.errors import ConservationError
from decomposerl.funnel import catalogue, settings
from decomposerl.funnel.lineage import BEFORE, column_origins
from decomposerl.funnel.settings import (
    DecontaminationSettings,
    DedupSettings,
    SelectionSettings,
    TaskSettings,
)
from decomposerl.funnel.step import StageResult, with_decided
from decomposerl.ports import Tasks
from decomposerl.schemas import DEDUPLICATED, SILVER_DECOMPOSED
from decomposerl.table import Table
from fakes import (
    BagOfWordsEmbedder,
    CapitalisedWords,
    MemoryArrays,
    ScriptedDecomposer,
    ScriptedVerifier,
    ShuffledMapper,
    WordCounter,
)
from perf.frames import band_frame, benchmark_frame
from perf.inputs import synthetic_claims
from strategies import FRAME_LAW, example_row, frame_of, frames

ENGINES_ASKED = (
    "token_budget entities difficulty lexical_duplicates semantic_duplicates lexical_match "
    "semantic_match silver"
).split()
RULES = settings.RuleSettings(min_tokens=6, max_tokens=25, min_entities=1)
HOLDOUTS = schemas.BENCHMARK_CLAIMS.conform(
    frame_of(
        schemas.CLAIMS,
        [
            example_row(claim="Ilva opened the bridge", source="fever"),
            example_row(claim="in 1921 the river", source="wice"),
        ],
    )
)


BUDGET = settings.SelectionSettings(budget_per_label=3)
LONG = settings.TrainingSettings(long_evidence_tokens=20)


def training(frame: pl.DataFrame) -> StageResult:
    chosen = catalogue.select_diverse(frame, BUDGET, BagOfWordsEmbedder()).kept
    return catalogue.assemble_training(frame, chosen, LONG, WordCounter(slack=5))


@dataclass(frozen=True)
class Stage:
    """A stage with its engines; where it is idempotent, its own survivors survive it again."""

    reads: Table
    fills: Table
    reasons: str
    run: Callable[[pl.DataFrame], StageResult]
    idempotent: bool = True


STAGES = {
    "rule_filtered": Stage(
        schemas.CLAIMS,
        schemas.RULE_FILTERED,
        "too_few_passages too_few_tokens too_many_tokens paraphrased_evidence too_few_entities",
        lambda frame: catalogue.rule_filter(frame, RULES, WordCounter(), CapitalisedWords()),
    ),
    "difficulty_band": Stage(
        schemas.RULE_FILTERED,
        schemas.DIFFICULTY_BAND,
        "too_easy likely_mislabelled",
        lambda frame: catalogue.difficulty_band(
            frame, settings.DifficultySettings(), ScriptedVerifier()
        ),
    ),
    "deduplicated": Stage(
        schemas.DIFFICULTY_BAND,
        schemas.DEDUPLICATED,
        "lexical_duplicate semantic_duplicate",
        lambda frame: catalogue.deduplicate(frame, settings.DedupSettings(), BagOfWordsEmbedder()),
    ),
    "decontaminated": Stage(
        schemas.DEDUPLICATED,
        schemas.DECONTAMINATED,
        "exact_match lexical_match semantic_match",
        lambda frame: catalogue.decontaminate(
            frame, HOLDOUTS, settings.DecontaminationSettings(), BagOfWordsEmbedder()
        ),
    ),
    "silver_decomposed": Stage(
        schemas.DECONTAMINATED,
        schemas.SILVER_DECOMPOSED,
        "no_silver_answer too_few_questions",
        lambda frame: catalogue.silver_decompose(
            frame, settings.SilverSettings(), ScriptedDecomposer()
        ),
    ),
    "training_claims": Stage(
        schemas.SILVER_DECOMPOSED,
        schemas.TRAINING_CLAIMS,
        "not_selected",
        training,
        idempotent=False,
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
def test_a_stage_keeps_or_drops_each_row_once_and_says_why(stage: Stage, data: st.DataObject):
    """Kept rows stay in order and unedited; a drop names stage, reason, number, bound, engine."""
    frame = data.draw(frames(stage.reads))
    result = stage.run(frame)
    assert [] == conservation_errors(frame, result.kept, result.drops)
    ids = result.kept["claim_id"].to_list()
    before = frame.filter(pl.col("claim_id").is_in(ids))
    kept = result.kept.select(frame.columns)
    if "evidence_tokens" in frame.columns:
        counted = before["evidence_tokens"].fill_null(kept["evidence_tokens"])
        before = before.with_columns(counted)
    assert_frame_equal(before, kept)
    drops = schemas.DROPS.conform(result.drops)
    assert set(drops["stage"]) <= {stage.fills.name}
    assert set(drops["reason"]) <= {*stage.reasons.split()}
    assert drops.filter(pl.col("threshold").is_null()).is_empty()
    judged = drops.filter(pl.col("reason") != "no_silver_answer")
    assert judged.filter(pl.col("value").is_null()).is_empty()
    assert drops["matched_claim_id"].is_null().equals(drops["matched_source"].is_null())
    asked = pl.col("step").is_in(ENGINES_ASKED)
    assert drops.filter(asked, pl.col("engine").fill_null("") == "").is_empty()
    if stage.idempotent:
        again = stage.run(result.kept.select(list(stage.reads.schema)))
        assert_frame_equal(result.kept, again.kept)


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
    for table in (schemas.CLAIMS, schemas.DIVERSITY_SELECTED):
        columns[table.name] = set(table.schema)
    for stage in BEFORE:
        origins = column_origins(stage)
        assert set(origins) == columns.get(stage, set(schemas.TRAINING_CLAIMS.schema))
        named = {one for pairs in origins.values() for one in pairs}
        assert set() == {(table, column) for table, column in named if column not in columns[table]}


@every_stage
def test_no_row_one_row_and_equal_rows_pass_the_law(stage: Stage):
    """An empty frame passes with the right columns; so does one claim, and copies of one."""
    result = stage.run(stage.reads.empty())
    assert_frame_equal(stage.fills.empty(), result.kept)
    assert_frame_equal(schemas.DROPS.empty(), result.drops)
    for rows in (1, 9):
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
@given(frames(schemas.SILVER_DECOMPOSED), st.integers(0, 8))
def test_the_training_set_may_be_assembled_in_batches(frame: pl.DataFrame, cut: int):
    """As of the whole pool; a selected claim that is in no batch is an error."""
    chosen = catalogue.select_diverse(frame, BUDGET, BagOfWordsEmbedder()).kept

    def assembled(batches: list[pl.DataFrame]) -> pl.DataFrame:
        selected = chosen.select(catalogue.SELECTION)
        done = catalogue.assemble_batches(batches, selected, LONG, WordCounter())
        return pl.concat([part.kept for _, part in done])

    whole = catalogue.assemble_training(frame, chosen, LONG, WordCounter()).kept
    assert_frame_equal(whole, assembled([frame[:cut], frame[cut:]]))
    if chosen.height:
        with pytest.raises(ConservationError, match="selected claims"):
            assembled([frame.clear()])


COMPARING = {
    "deduplicated": STAGES["deduplicated"],
    "decontaminated": STAGES["decontaminated"],
    "diversity_selected": Stage(
        schemas.SILVER_DECOMPOSED,
        schemas.DIVERSITY_SELECTED,
        "",
        lambda frame: StageResult(
            catalogue.select_diverse(frame, BUDGET, BagOfWordsEmbedder()).kept,
            schemas.DROPS.empty(),
        ),
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
    frame = frame_of(schemas.CLAIMS, [example_row(claim=claim) for claim in "abc"])
    with pytest.raises(ConservationError, match="1 kept rows"):
        list(with_decided([frame[:2]], frame))
    with pytest.raises(ConservationError, match="places"):
        list(with_decided([frame], frame.reverse()))


CLAIMS = synthetic_claims(1_600)
SMALL = {"task_memory_mb": 1}  # joins over 1,428 claims are split, vectors into blocks of 24


@dataclass
class CountedMapper:
    """A shuffled mapper that counts its batches."""

    engine: str = "counted"
    batches: int = 0

    def map(self, function, batches):  # noqa: ANN001 - the port's
        """As the port's."""
        every = [*batches]
        self.batches += len(every)
        return ShuffledMapper(len(every)).map(function, every)


def counted() -> tuple[Tasks, CountedMapper, MemoryArrays]:
    mapper, arrays = CountedMapper(), MemoryArrays()
    return Tasks(mapper, arrays), mapper, arrays


def frame(claims: list[str] = CLAIMS) -> pl.DataFrame:
    return band_frame(claims, [("hover", "wice")[row % 2] for row in range(len(claims))])


def deduplicated(settings: dict[str, object], tasks: Tasks | None) -> StageResult:
    given = DedupSettings.model_validate(settings)
    return catalogue.deduplicate(frame(), given, BagOfWordsEmbedder(), tasks)


def decontaminated(settings: dict[str, object], tasks: Tasks | None) -> StageResult:
    tests = benchmark_frame("tests", [*CLAIMS[40:80], *synthetic_claims(60, seed=8)])
    given = DecontaminationSettings.model_validate(settings)
    claims = DEDUPLICATED.conform(frame())
    return catalogue.decontaminate(claims, tests, given, BagOfWordsEmbedder(), tasks)


@pytest.mark.parametrize("stage", [deduplicated, decontaminated])
def test_a_split_stage_gives_the_same_frames(
    stage: Callable[[dict[str, object], Tasks | None], StageResult],
):
    """Kept rows, drops with matches and engines, and close decisions; nothing stays stored."""
    tasks, mapper, arrays = counted()
    whole, split = stage({}, None), stage(SMALL, tasks)
    assert_frame_equal(whole.kept, split.kept)
    assert_frame_equal(whole.drops, split.drops)
    assert (whole.engines, whole.close) == (split.engines, split.close)
    assert whole.drops["step"].n_unique() >= 2
    assert mapper.batches > 50
    assert arrays.groups == {}


def test_what_fits_is_not_split():
    """With the memory that is every stage's default the small pool is for one process."""
    tasks, mapper, _ = counted()
    deduplicated({}, tasks)
    decontaminated({}, tasks)
    assert mapper.batches == 0
    every = (DedupSettings, DecontaminationSettings, SelectionSettings)
    assert all(issubclass(one, TaskSettings) for one in every)
    assert TaskSettings().task_memory_mb == 8_000


def selected(settings: dict[str, object], tasks: Tasks | None) -> catalogue.SelectedClaims:
    silver = frame(CLAIMS[:400]).with_columns(
        questions=pl.lit(["Who?", "When?"]), n_star=pl.lit(2, dtype=pl.Int64())
    )
    given = SelectionSettings.model_validate({"budget_per_label": 60, **settings})
    rows = SILVER_DECOMPOSED.conform(silver)
    return catalogue.select_diverse(rows, given, BagOfWordsEmbedder(), tasks)


def test_cells_that_are_loaded_one_by_one_are_selected_alike():
    """Each cell's vectors alone are in memory; the picks do not change."""
    whole, split = selected({}, None), selected(SMALL, counted()[0])
    assert_frame_equal(whole.kept, split.kept)
    assert_frame_equal(whole.cells, split.cells)


def test_a_cell_above_exact_cell_is_picked_by_samples_alone_or_with_the_others():
    """Every budget is filled and f(S) is near the greedy's; smaller cells keep their picks."""
    whole, sampled = selected({}, None), selected({"exact_cell": 40}, None)
    assert_frame_equal(sampled.kept, selected({"exact_cell": 40, **SMALL}, counted()[0]).kept)
    assert whole.cells["selected"].equals(sampled.cells["selected"])
    ratios = sampled.cells["objective"] / whole.cells["objective"]
    assert 0.9 < ratios.min() < 1
    sizes = whole.cells["available"].sort().unique()
    above = selected({"exact_cell": sizes[-2]}, None)
    same = [a == b for a, b in zip(above.cells.rows(), whole.cells.rows(), strict=True)]
    assert (whole.cells["available"] <= sizes[-2]).to_list() == same
