"""A test set with a list of doubtful labels: read, scored, ranked and compared without them too."""

import json
import shutil
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.corpora import benchmark_assets
from assets.evaluation import evaluation_assets
from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.evaluation.leaderboard import wide_leaderboard
from decomposerl.reports.leaderboard_report import leaderboard_markdown, leaderboard_text
from evaluation_graph import SYSTEMS, claim_row, resources
from resources.corpora.resource import CorporaResource
from resources.store.parquet import DataFolder, file_sha256

NAME, RULES = "foolmetwice", ("simple-rules-faithful", "cot-rules-faithful")
COLUMN = f"{NAME}_without_doubtful"
TESTS = [one for one in BENCHMARKS if one.name == NAME]
LIST = '{"id": "0", "kind": "wrong"}\n{"id": "1", "label": "AMBIG"}\n{"id": "none"}\n'


def materialize(data: Path, selection: dg.AssetSelection, system: str | None = None) -> None:
    """Run assets over a corpora folder beside the data."""
    made = [*benchmark_assets(TESTS, []), *evaluation_assets(TESTS, SYSTEMS, None)]
    corpora = CorporaResource(root=str(data.parent / "corpora"))
    result = dg.materialize(
        made,
        selection=selection,
        partition_key=system,
        resources=resources(data) | {"corpora": corpora},
        run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}},
    )
    assert result.success


def evaluate(folder: Path, listed: str | None) -> Path:
    """The data folder of two systems on ten claims, with this list or without one."""
    corpus = folder / "corpora" / NAME
    corpus.mkdir(parents=True, exist_ok=True)
    rows = [claim_row(number) for number in range(10)]
    lines = [
        {
            "id": row["native_id"],
            "text": row["claim"],
            "label": "SUPPORTS" if row["label"] == "Supported" else "REFUTES",
            "retrieved_evidence": [{"text": text} for text in row["passages"]],  # type: ignore[attr-defined]
            "wikipedia_page": row["document_id"],
        }
        for row in rows
    ]
    (corpus / "test.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    (corpus / "doubtful.jsonl").unlink(missing_ok=True)
    if listed is not None:
        (corpus / "doubtful.jsonl").write_text(listed, "utf-8")
    data = folder / "data"
    materialize(data, dg.AssetSelection.key_prefixes("benchmark"))
    for system in RULES:
        materialize(data, dg.AssetSelection.key_prefixes("predictions", "scores"), system)
    materialize(data, dg.AssetSelection.assets("leaderboard", "comparison"))
    return data


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluate(tmp_path_factory.mktemp("plain"), None)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluate(tmp_path_factory.mktemp("listed"), LIST)


def files(data: Path) -> dict[str, str]:
    """The hash of each table."""
    found = {str(one.relative_to(data)): one for one in sorted(data.rglob("*.parquet"))}
    results = ("engine_results/", "prediction_shards/")
    return {name: file_sha256(one) for name, one in found.items() if not name.startswith(results)}


def test_scores_have_the_metric_over_the_claims_left(listed: Path):
    """The balanced accuracy of claims that are not on the stored list; in a column of its own."""
    folder = DataFolder(base_dir=str(listed))
    states = folder.read(f"doubtful/{NAME}")["state"].to_list()
    assert ["doubtful", "doubtful", "no_claim"] == states
    claims = folder.read(f"benchmark/{NAME}")
    left = claims.filter(~pl.col("native_id").is_in(["0", "1"]))
    said = folder.read(f"predictions/{NAME}/{RULES[0]}", ["claim_id", "verdict"])
    hit = (pl.col("label") == pl.col("verdict")).mean()
    right = left.join(said, on="claim_id").group_by("label").agg(verdict=hit)
    row = folder.read(f"scores/{NAME}/{RULES[0]}").row(
        by_predicate=pl.col("metric") == "balanced_accuracy_without_doubtful", named=True
    )
    assert 100 * right["verdict"].mean() == pytest.approx(row["score"])
    assert (8, 4) == (row["rows"], row["supported"])
    assert row["low"] < row["high"]
    board = folder.read("leaderboard")
    cells = board.filter(system=RULES[0], benchmark=COLUMN)
    assert [(8, "scored")] == cells.select("rows", "status").rows()
    wide = wide_leaderboard(board).filter(system=RULES[0])
    assert 8 == wide[f"{COLUMN}_rows"][0]
    for page in (leaderboard_text, leaderboard_markdown):
        shown = page(board, {NAME: "FoolMeTwice"})
        assert "FoolMeTwice without doubtful" in shown
        assert "FoolMeTwice 8 of 10" in " ".join(shown.split())


def test_without_a_list_nothing_changes_and_the_rest_is_the_same_with_one(
    plain: Path, listed: Path
):
    """The claims and predictions are the same bytes; scores and tables gain rows alone."""
    one, other = files(plain), files(listed)
    assert {f"doubtful/{NAME}.parquet"} == other.keys() - one.keys()
    changed = {name for name in one if one[name] != other[name]}
    ranked = {"leaderboard.parquet", "comparison.parquet"}
    assert changed == ranked | {name for name in one if name.startswith("scores/")}
    here, there = (DataFolder(base_dir=str(data)) for data in (plain, listed))
    for key in (f"scores/{NAME}/{RULES[0]}", "leaderboard"):
        before, after = here.read(key), there.read(key)
        assert before.equals(after.join(before, on=before.columns, how="semi", nulls_equal=True))
        assert "without_doubtful" not in str(before.rows())
    compared = there.read("comparison")
    assert {NAME: 10, COLUMN: 8} == dict(compared.select("benchmark", "rows").rows())
    assert here.read("comparison").equals(compared.filter(benchmark=NAME)), "a family of its own"


def test_a_list_that_was_taken_away_leaves_nothing_behind(
    tmp_path: Path, plain: Path, listed: Path
):
    """Everything is again what it was without a list."""
    shutil.copytree(listed, tmp_path / "data")
    assert files(plain) == files(evaluate(tmp_path, None))
