"""Trained policies in the DuckDB catalogue: which rows count, and the views' columns."""

from pathlib import Path

import duckdb
import polars as pl
import pytest

from decomposerl import schemas
from resources.catalogue.database import build_catalogue, open_catalogue
from resources.catalogue.views import ATTEMPTS, attempts
from resources.training.rollout_log import LogTable, read_log
from training_files import COUNTING, EXPERIMENT, write_policy

VIEWS: dict[str, LogTable] = {
    "rollouts": "rollouts",
    "training_rewards": "rewards",
    "training_judge_calls": "judge_calls",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A data folder may itself stand in a folder of that name.
    folder = tmp_path_factory.mktemp("training") / "policy/data"
    write_policy(folder)
    build_catalogue(folder)
    return folder


def rows(data: Path, query: str) -> pl.DataFrame:
    with open_catalogue(data) as connection:
        found: pl.DataFrame = connection.sql(query).pl()
    return found


@pytest.mark.parametrize("view", VIEWS)
def test_a_step_is_shown_as_the_attempt_that_counts_sampled_it(data: Path, view: str):
    """What a later attempt replaced is not shown, also where that one never came so far."""
    shown = rows(data, f"FROM {view} WHERE split = 'train'")
    assert COUNTING == dict(shown.select("step", "attempt").iter_rows())
    assert {EXPERIMENT} == set(shown["experiment"])


@pytest.mark.parametrize("view", VIEWS)
def test_the_views_show_what_the_trainer_itself_reads_back(data: Path, view: str):
    """Row by row the view is the log as the trainer counts it, for both splits."""
    for split in ("train", "held_out_sampled"):
        log = read_log(data / "policy" / EXPERIMENT, VIEWS[view], split)
        shown = rows(data, f"FROM {view} WHERE split = '{split}'").select(log.columns)
        order = ["step", "group", "rollout", *(["reward"] if "reward" in log.columns else [])]
        assert log.height
        assert log.sort(order).equals(shown.sort(order))


def test_held_out_measures_at_the_step_of_a_restart_stay(data: Path):
    """What was sampled between steps 4 and 5 holds for a run that goes on from step 5."""
    shown = rows(data, "SELECT DISTINCT step FROM rollouts WHERE split = 'held_out_sampled'")
    assert {0, 5} == set(shown["step"])


def test_attempts_are_a_table(data: Path):
    """Each start, and the step that it went on from; none in an empty folder."""
    frame = ATTEMPTS.conform(attempts(data))
    assert [0, 5, 5] == frame["resumed_from"].to_list()
    assert frame.equals(rows(data, "FROM training_attempts"))


def test_views_have_their_columns_before_anything_is_trained(data: Path, tmp_path: Path):
    """Names and types are the same with and without files, and as the tables declare them."""
    build_catalogue(tmp_path)
    for view, table in (("curves", schemas.CURVES), ("rollouts", schemas.ROLLOUTS)):
        empty, full = (rows(folder, f"FROM {view}") for folder in (tmp_path, data))
        assert 0 == empty.height < full.height
        assert empty.schema == full.schema
        own = {name: kind for name, kind in full.schema.items() if name in table.schema}
        assert dict(table.schema) == own


def test_a_policy_trained_later_is_seen_by_the_rebuilt_catalogue(data: Path, tmp_path: Path):
    """The views are of files that lay there when the catalogue was built."""
    build_catalogue(tmp_path)
    write_policy(tmp_path)
    assert 0 == rows(tmp_path, "FROM curves").height
    build_catalogue(tmp_path)
    assert rows(data, "FROM curves").equals(rows(tmp_path, "FROM curves"))
    with open_catalogue(tmp_path) as connection, pytest.raises(duckdb.Error):
        connection.execute("DELETE FROM training_attempts")
