"""Stages whose searches are split into tasks: the same frames as in one process."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from decomposerl.errors import ConfigError
from decomposerl.funnel import catalogue
from decomposerl.funnel.settings import (
    DecontaminationSettings,
    DedupSettings,
    SelectionSettings,
    TaskSettings,
)
from decomposerl.funnel.step import StageResult
from decomposerl.ports import Tasks
from decomposerl.schemas import DEDUPLICATED, SILVER_DECOMPOSED
from fakes import BagOfWordsEmbedder, MemoryArrays, ShuffledMapper
from perf.frames import band_frame, benchmark_frame
from perf.inputs import synthetic_claims

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
    return Tasks(mapper, arrays, threads=1), mapper, arrays


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
    """With the default memory the small pool takes the path of one process."""
    tasks, mapper, _ = counted()
    deduplicated({}, tasks)
    decontaminated({}, tasks)
    assert mapper.batches == 0


def test_the_memory_setting_is_shared_by_all_stages_that_split():
    """Its default is eight gigabytes."""
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
    assert split.certified == {}


def test_a_large_cell_is_picked_in_two_rounds_and_certified():
    """Every budget is filled, f(S) is near the greedy's, and each ratio holds for it."""
    whole, split = selected({}, None), selected({"exact_cell": 40}, counted()[0])
    assert whole.cells["selected"].equals(split.cells["selected"])
    assert set(split.certified) == set(whole.cells["bucket"])
    ratios = split.cells["objective"] / whole.cells["objective"]
    assert ratios.min() > 0.9
    assert all(0.3 < certified <= 1 for certified in split.certified.values())
    assert (ratios + 1e-9 >= pl.Series([split.certified[b] for b in split.cells["bucket"]])).all()


def test_the_approximate_engine_says_its_recall():
    """By an explicit setting only; the share of the duplicates that it finds is measured."""
    settings = {**SMALL, "semantic_engine": "approximate", "recall_sample": 500}
    done, exact = deduplicated(settings, counted()[0]), deduplicated({}, None)
    engine = done.engines["semantic_duplicates"]
    assert "approximate cosine (faiss, 32 of" in engine
    assert "recall 1.0000 (95 % interval 0." in engine or "recall 0.9" in engine
    assert "among 500 sampled rows" in engine
    assert abs(done.kept.height - exact.kept.height) < 40
    assert not done.drops["engine"].str.contains("recall").any()
    with pytest.raises(ConfigError, match="needs tasks"):
        deduplicated(settings, None)
