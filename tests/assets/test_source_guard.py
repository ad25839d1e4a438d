"""The check that warns when a stage removes most of one source, read from disk."""

from pathlib import Path

import dagster as dg
import polars as pl

from assets.checks import guard_checks
from decomposerl.funnel.catalogue import STAGES
from decomposerl.schemas import DROPS
from fixture_data import build
from resources.store.parquet import DataFolder

CHECKS = {
    next(iter(check.check_keys)).asset_key.to_user_string(): check for check in guard_checks()
}


def checked(stage: str, data: Path) -> dg.AssetCheckResult:
    """The check of one stage on a data folder."""
    result = CHECKS[stage](data_folder=DataFolder(base_dir=str(data)))
    assert isinstance(result, dg.AssetCheckResult)
    return result


def test_every_stage_but_the_selection_is_guarded(tmp_path: Path):
    """Where a budget decides, that most of a source leaves is no surprise; others pass."""
    assert list(STAGES[:-2]) == list(CHECKS)
    build(tmp_path)
    assert [] == [stage for stage in CHECKS if not checked(stage, tmp_path).passed]


def test_a_source_that_is_nearly_wiped_out_is_named(tmp_path: Path):
    """Likeness may remove half of a source, a rule 80 %; a row more is a warning, not a stop."""
    (tmp_path / "drops").mkdir()
    rows = [f"{row:016x}" for row in range(100)]
    ids = pl.DataFrame({"claim_id": rows, "source": "hover", "label": "Refuted"})
    for stage, fewest in (("deduplicated", 50), ("difficulty_band", 20)):
        for kept, passed in ((fewest, True), (fewest - 1, False)):
            left = pl.concat([DROPS.empty(), ids[kept:]], how="diagonal")
            ids[:kept].write_parquet(tmp_path / f"{stage}.parquet")
            left.write_parquet(tmp_path / f"drops/{stage}.parquet")
            result = checked(stage, tmp_path)
            assert passed == result.passed
            assert dg.AssetCheckSeverity.WARN == result.severity
            assert ([] if passed else ["hover"]) == result.metadata["struck"].value
