"""Three-way assets: predicted and scored as one more test set, in no other job or board."""

from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.evaluation import evaluation_assets, three_way_evaluation
from assets.three_way import three_way_assets
from dagster_project.jobs import jobs_over
from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.evaluation.scored_claims import THREE_WAY_SET
from decomposerl.schemas import BENCHMARK_CLAIMS
from evaluation_graph import SYSTEMS, claim_row, resources
from resources.store.parquet import DataFolder, write_parquet

BASE = "fever"
TESTS = tuple(one for one in BENCHMARKS if one.name in {BASE, "hover"})
RULES, FOLK, VERIFIER = "simple-rules-faithful", "folk-rules-faithful", "minicheck-lexical"
OPEN = "Nothing is written here. A dog ran over the hill. The rain fell in the night."


def made_assets() -> list[dg.AssetsDefinition]:
    scored = three_way_evaluation(TESTS, SYSTEMS, None)
    return [*evaluation_assets(TESTS, SYSTEMS, None), *scored, *three_way_assets(TESTS, SYSTEMS)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    """Rules, a method that its rules decide, and a verifier over claims of three labels, ranked."""
    path = tmp_path_factory.mktemp("three_way")
    rows = [claim_row(number, source=BASE) for number in range(8)]
    for row in rows:
        row["native_label"] = "SUPPORTS" if row["label"] == "Supported" else "REFUTES"
    middle = {"label": None, "native_label": "NOT ENOUGH INFO"}
    texts = {"evidence": OPEN, "passages": OPEN.split(". ")}
    rows += [claim_row(number, source=BASE, **middle, **texts) for number in range(8, 12)]
    frame = BENCHMARK_CLAIMS.conform(pl.DataFrame(rows, schema=BENCHMARK_CLAIMS.schema))
    write_parquet(frame, path / f"benchmark/{BASE}.parquet")
    folder, keys = DataFolder(base_dir=str(path)), dg.AssetSelection.assets
    three = dg.AssetSelection.groups(THREE_WAY_SET)
    claims = keys(dg.AssetKey(["benchmark", THREE_WAY_SET]))
    board = keys("leaderboard_three_way")
    steps = [(claims, None), *((three - claims - board, one) for one in (RULES, FOLK, VERIFIER))]
    for selection, part in [*steps, (board, None)]:
        assert dg.materialize(
            made_assets(), selection=selection, partition_key=part, resources=resources(path)
        ).success
    return folder


def test_a_baseline_may_end_with_the_third_verdict_where_its_model_decides(data: DataFolder):
    """Its prompt offers it; where rules or a threshold decide, a claim is one of two."""
    said = {
        one: set(data.read(f"predictions/{THREE_WAY_SET}/{one}")["verdict"])
        for one in (RULES, FOLK, VERIFIER)
    }
    assert "NotEnoughInfo" in said[RULES]
    assert "NotEnoughInfo" not in said[FOLK] | said[VERIFIER]
    board = data.read("leaderboard_three_way").filter(test_set="all")
    recalls = board.filter(metric="recall_not_enough_info")
    assert {RULES: True, FOLK: False, VERIFIER: False} == dict(
        board.select("system", "third").rows()
    )
    assert {RULES: 100.0, FOLK: 0.0, VERIFIER: 0.0} == dict(
        recalls.select("system", "score").iter_rows()
    )


def test_it_has_every_claim_of_three_labels_and_the_two_way_files_are_untouched(data: DataFolder):
    """Nothing but three-way files was written; without a middle class there is nothing of it."""
    labels = data.read(f"benchmark/{THREE_WAY_SET}")["label"].value_counts()
    assert {"Supported": 4, "Refuted": 4, "NotEnoughInfo": 4} == dict(labels.iter_rows())
    assert {"Supported", "Refuted", None} == set(data.read(f"benchmark/{BASE}")["label"])
    assert [THREE_WAY_SET] == [path.name for path in (data.path / "predictions").iterdir()]
    two = [one for one in TESTS if not one.labels.middle]
    assert two
    assert [] == [*three_way_assets(two, SYSTEMS), *three_way_evaluation(two, SYSTEMS, None)]


def test_no_other_job_runs_it(tmp_path: Path):
    """Evaluating a system, or ranking, costs what it did; two jobs are for three labels."""
    assets = made_assets()
    every = jobs_over(assets, prefilled=False)
    jobs = [one for one in every if one.name.startswith(("evaluate", "rank"))]
    definitions = dg.Definitions(assets=assets, jobs=jobs, resources=resources(tmp_path))
    graph = definitions.resolve_job_def
    chosen = {
        name: {key.to_user_string() for key in graph(name).asset_layer.selected_asset_keys}
        for name in ("evaluate", "rank", "evaluate_three_way", "rank_three_way")
    }
    three = {f"{table}/{THREE_WAY_SET}" for table in ("predictions", "scores")}
    assert three == chosen["evaluate_three_way"]
    assert {"leaderboard_three_way"} == chosen["rank_three_way"]
    assert {"leaderboard", "comparison"} == chosen["rank"]
    assert not three & chosen["evaluate"]
    assert f"predictions/{BASE}" in chosen["evaluate"]
