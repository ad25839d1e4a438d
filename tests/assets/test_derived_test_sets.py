"""ClaimDecomp without rating sentences: predicted and scored beside it, part of no mean."""

from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.evaluation import evaluation_assets
from assets.evaluation_checks import evaluation_checks
from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.claims.claim import LabelMap
from decomposerl.claims.doubtful import doubtful_claims
from decomposerl.evaluation.derived import DERIVED, derived_from, states_rating
from decomposerl.evaluation.doubtful import column_of
from decomposerl.evaluation.published import COLUMNS, MEANS
from decomposerl.schemas import BENCHMARK_CLAIMS
from evaluation_graph import SYSTEMS, claim_row, resources
from resources.catalogue.database import build_catalogue, open_catalogue
from resources.corpora.folder import FolderCorpora
from resources.evaluation.results_folder import read_doubtful
from resources.evaluation.results_folder import read_test_claims as claims_of
from resources.store.parquet import DataFolder, write_parquet

BASE, NAME, SYSTEM = "claimdecomp", "claimdecomp_without_ratings", "minicheck-lexical"
RATED = 3
DOUBTED = "0", "5", "7"
"""Native ids of doubtful labels; the first claim has a rating, so its derived one another id."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One verifier on ClaimDecomp, of whose ten claims three state their rating, and ranked."""
    data = tmp_path_factory.mktemp("derived")
    rows = [claim_row(number, source=BASE) for number in range(10)]
    for row in rows[:RATED]:
        passages = [*row["passages"], "We rate this claim False."]  # type: ignore[misc]
        row |= {"passages": passages, "evidence": "\n".join(passages)}
    frame = BENCHMARK_CLAIMS.conform(pl.DataFrame(rows, schema=BENCHMARK_CLAIMS.schema))
    write_parquet(frame, data / f"benchmark/{BASE}.parquet")
    (data / BASE).mkdir()
    (data / BASE / "doubtful.csv").write_text("id\n" + "\n".join(DOUBTED) + "\n", "utf-8")
    listed = doubtful_claims([BASE], LabelMap.of("yes", "no"), frame, FolderCorpora(data))
    assert listed is not None
    write_parquet(listed, data / f"doubtful/{BASE}.parquet")
    tests = [one for one in BENCHMARKS if one.name == BASE]
    made = evaluation_assets(tests, SYSTEMS, None)
    evaluated = dg.AssetSelection.key_prefixes("predictions", "scores")
    checks = evaluation_checks([BASE], SYSTEMS)
    for selection, part in ((evaluated, SYSTEM), (dg.AssetSelection.assets("leaderboard"), None)):
        chosen = selection - dg.AssetSelection.all_asset_checks()
        chosen |= dg.AssetSelection.checks(*checks[:-2]) if part else chosen
        result = dg.materialize(
            [*made, *checks],
            selection=chosen,
            partition_key=part,
            resources=resources(data),
        )
        assert all(check.passed for check in result.get_asset_check_evaluations())
    return data


def test_no_claim_of_it_states_a_rating_and_the_others_are_the_same(data: Path):
    """Claims that lose a sentence have another id; those with a doubtful label are its base's."""
    folder = DataFolder(base_dir=str(data))
    claims, base = claims_of(folder, NAME), claims_of(folder, BASE)
    assert RATED == sum(map(states_rating, base["evidence"]))
    assert 0 == sum(map(states_rating, claims["evidence"]))
    assert 10 - RATED == claims.join(base, on="claim_id", how="semi").height
    assert claims["label"].equals(base["label"])
    for name, frame in ((BASE, base), (NAME, claims)):
        doubted = pl.col("claim_id").is_in(list(read_doubtful(folder, name)))
        assert list(DOUBTED) == frame.filter(doubted)["native_id"].to_list()
    assert 1 == len(read_doubtful(folder, NAME) - read_doubtful(folder, BASE))


def test_it_is_predicted_scored_and_shown_in_a_column_of_its_own(data: Path):
    """Both have scores of the same size; the catalogue has both, and counts no claim twice."""
    folder = DataFolder(base_dir=str(data))
    asked = folder.read(f"predictions/{NAME}/{SYSTEM}")
    assert claims_of(folder, NAME)["claim_id"].to_list() == asked["claim_id"].to_list()
    board = folder.read("leaderboard").filter(system=SYSTEM, status="scored")
    rows = {BASE: 10, NAME: 10, column_of(BASE): 7, column_of(NAME): 7}
    assert rows == dict(board.select("benchmark", "rows").iter_rows())
    slices = folder.read(f"scores/{NAME}/{SYSTEM}")["slice"]
    assert "states_rating" not in slices
    assert "states_rating" in folder.read(f"scores/{BASE}/{SYSTEM}")["slice"]
    build_catalogue(data, benchmarks=[one for one in BENCHMARKS if one.name == BASE])
    with open_catalogue(data) as connection:
        found = connection.sql("SELECT benchmark, count(*) FROM predictions GROUP BY 1").fetchall()
    assert {(BASE, 10), (NAME, 10)} == set(found)


def test_it_is_part_of_no_mean_and_of_no_table_of_the_paper():
    """By its name alone; without its test set, or where a person took the name, it is not there."""
    names = {one.name for one in DERIVED}
    assert not names & {part for parts in MEANS.values() for part in parts}
    assert not names & set(COLUMNS)
    assert {NAME} == set(derived_from([BASE, "fever"]))
    assert {} == derived_from(["fever"])
    assert {} == derived_from([BASE, NAME])
