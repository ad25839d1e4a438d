"""The study of the baselines by rules: what its tables say; calls are not taken on trust."""

import polars as pl
import pytest

from decomposerl.baselines.catalogue import METHODS
from evaluation_graph import CLAIMS, SYSTEMS, materialize, write_tests
from resources.store.parquet import DataFolder
from studies.baseline_report import CallCounts, baseline_page, calls_of

KEYS = ("folk-rules-faithful", "folk-rules-single_call")
ASKED = tuple(one for one in SYSTEMS if one.key in KEYS)
LIMIT = 4
(FOLK,) = (one for one in METHODS if one.name == "folk")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    """One method by both protocols, on a part of the one test set that has claims."""
    data = tmp_path_factory.mktemp("study")
    write_tests(data)
    for key in KEYS:
        assert materialize(data, key, limit=LIMIT).success
    return DataFolder(base_dir=str(data))


def test_the_page_names_engine_limit_and_formula(folder: DataFolder):
    """Systems with their intervals; test sets without claims have no column."""
    page = baseline_page(folder, ASKED, {"fever": "FEVER", "wice": "WiCE"})
    about, *lines = page.splitlines()
    assert about.startswith("Engines: `rule_chat:")
    assert about.endswith(f"Claims: FEVER {LIMIT} of {CLAIMS}.")
    assert "WiCE" not in page
    named = [line.split(" | ")[0][2:] for line in lines if "] |" in line]
    assert named in (["FOLK; in one call: FOLK"], ["FOLK", "in one call: FOLK"])
    formula = FOLK.calls
    assert lines[-1].startswith(f"| FOLK | {formula} | ")
    nothing = "0 have no verdict, and the counted calls of 0 differ from the formula."
    assert f"Of {2 * LIMIT} predictions, {nothing}" in lines


def test_systems_of_equal_scores_share_a_row(folder: DataFolder):
    """One row for a system that is there twice, with its scores once."""
    faithful, single = (
        baseline_page(folder, (one, one), {"fever": "FEVER"}).splitlines() for one in ASKED
    )
    assert ["FOLK, FOLK"] == [line.split(" | ")[0][2:] for line in faithful if "] |" in line]
    assert any(line.startswith("| in one call: all | ") for line in single)


def test_a_method_that_asks_more_than_its_formula_is_found(folder: DataFolder):
    """Expected calls come from how the claim ended: a call too many differs from them."""
    predictions = folder.read(f"predictions/fever/{KEYS[0]}")
    honest = calls_of(FOLK, "faithful", predictions)
    assert (LIMIT, 0) == (honest.claims, honest.differing)
    assert honest.counted == honest.expected > LIMIT
    first = pl.int_range(pl.len()) < 1
    more = predictions.with_columns(pl.when(first).then(pl.col("calls") + 1).otherwise("calls"))
    expected = CallCounts(LIMIT, honest.counted + 1, honest.expected, 1, honest.unparsed)
    assert expected == calls_of(FOLK, "faithful", more)


def test_a_single_call_is_one_call(folder: DataFolder):
    """Whatever the reply says of questions, the formula of that protocol is one."""
    predictions = folder.read(f"predictions/fever/{KEYS[1]}")
    found = calls_of(FOLK, "single_call", predictions)
    assert (LIMIT, LIMIT, 0) == (found.counted, found.expected, found.differing)
