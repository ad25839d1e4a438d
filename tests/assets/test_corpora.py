"""The assets that read corpora, and the check that warns when a stage removes most of one."""

import json
from pathlib import Path

import dagster as dg
import polars as pl

from assets.checks import guard_checks
from assets.corpora import benchmark_assets, source_assets
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES, with_own_sources
from decomposerl.claims.generic import parse_source_toml
from decomposerl.claims.paper_counts import difference_of
from decomposerl.claims.source import Source
from decomposerl.funnel.catalogue import STAGES
from decomposerl.schemas import DROPS
from evaluation_graph import resources
from fixture_data import build
from resources.corpora.resource import CorporaResource, LoadConfig
from resources.store.parquet import DataFolder

COPY = """
[source]
name = "faviq_a"
title = "Mine"
replaces = true
[files]
train = ["mine/train.jsonl"]
[columns]
claim = "claim"
evidence = "text"
label = "label"
[labels]
supported = ["yes"]
refuted = ["no"]
"""


def warnings_of(source: Source, corpora: CorporaResource, folder: Path) -> list[str]:
    """What a run of the source's asset logs as a warning or worse."""
    instance, given = dg.DagsterInstance.ephemeral(), {"corpora": corpora}
    here = resources(folder / "data") | given
    done = dg.materialize(source_assets([source], []), instance=instance, resources=here)
    assert done.success
    return [one.user_message for one in instance.all_logs(done.run_id) if one.level >= 30]


def test_a_copy_is_read_as_its_file_says_whatever_reading_is_chosen(tmp_path: Path):
    """A warning names the reading; the page shows neither the catalogue's rows nor its files."""
    (tmp_path / "mine").mkdir()
    row = {"claim": "C.", "text": "One.", "label": "yes"}
    (tmp_path / "mine/train.jsonl").write_text(json.dumps(row), "utf-8")
    copy = parse_source_toml(COPY, "x.toml")
    (own,) = [one for one in with_own_sources([copy]) if one.name == "faviq_a"]
    chosen = CorporaResource(
        root=str(tmp_path), settings=LoadConfig(readings={"faviq_a": "positive"})
    )
    (said,) = warnings_of(own, chosen, tmp_path)
    assert said.startswith("faviq_a: the reading 'positive' is not used")
    assert [] == warnings_of(own, CorporaResource(root=str(tmp_path)), tmp_path)
    (asset,) = source_assets([own], [])
    assert "against the paper" not in asset.metadata_by_key[asset.key]
    assert "fetch" not in asset.descriptions_by_key[asset.key]


def test_forms_that_are_not_read_are_a_warning(tmp_path: Path):
    """The file that is read and those of the same rows beside it, once in the log."""
    (tmp_path / "faviq").mkdir()
    row = {"id": "1", "claim": "C.", "label": "SUPPORTS"}
    evidence = {"positive_evidence": {"title": "Orla", "text": "One."}}
    for name in ("train.jsonl", "train.parquet"):
        (tmp_path / "faviq" / name).write_text(json.dumps({**row, **evidence}), "utf-8")
    (source,) = [one for one in SOURCES if one.name == "faviq_a"]
    said = warnings_of(source, CorporaResource(root=str(tmp_path)), tmp_path)
    read, others = "faviq/train.jsonl was read", "faviq/train.parquet"
    assert [f"claims/faviq_a: {read}; other forms of it were not: {others}"] == said


SHOWN = "against the paper"


def test_every_source_shows_why_its_rows_are_not_the_papers():
    """The text of the one table; a test set shows it where it is none of a training corpus."""
    for source, asset in zip(SOURCES, source_assets(SOURCES, BENCHMARKS), strict=True):
        known = difference_of(source.name)
        assert known is not None
        assert known.text == asset.metadata_by_key[asset.key][SHOWN]
        assert f"Paper: {source.paper_raw:,}." in known.text
    tested = {
        benchmark.name: asset.metadata_by_key[asset.key].get(SHOWN)
        for benchmark, asset in zip(BENCHMARKS, benchmark_assets(BENCHMARKS, SOURCES), strict=True)
    }
    fever = difference_of("fever")
    assert fever is not None
    assert {"fever": fever.text} == {name: text for name, text in tested.items() if text}


# The check

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
