"""The regression gate and the rule of checkpoints: what holds, what is said, what is refused."""

import json
from itertools import product

import polars as pl
import pytest

from decomposerl.errors import ConfigError
from decomposerl.evaluation.checkpoint import select_checkpoint
from decomposerl.evaluation.leaderboard import RunCoverage, leaderboard
from decomposerl.evaluation.regression import (
    acceptable_scores,
    accepted_from,
    accepted_json,
    departures,
    merge_accepted,
)
from decomposerl.schemas import CURVES
from leaderboard_parts import SYSTEMS, score, scores

TINY, BASE = "decomposerl-tiny", "simple-qwen2.5-7b-faithful"


def board(*rows: dict[str, object], runs: RunCoverage = RunCoverage()) -> pl.DataFrame:  # noqa: B008 - frozen
    return leaderboard(scores(rows), SYSTEMS, (), runs)


def kinds(*rows: dict[str, object], runs: RunCoverage = RunCoverage()) -> list[str]:  # noqa: B008 - frozen
    accepted = acceptable_scores(board(score(TINY, "fever", 70.0)))
    return [finding.kind for finding in departures(board(*rows, runs=runs), accepted)]


def test_a_score_within_the_accepted_interval_holds():
    """Both ends belong to the interval; a finding names system, test set and all figures."""
    for now, found in ((70.0, []), (68.0, []), (72.0, []), (67.9, ["below"]), (72.1, ["above"])):
        assert found == kinds(score(TINY, "fever", now))
    accepted = acceptable_scores(board(score(TINY, "fever", 70.0)))
    (finding,) = departures(board(score(TINY, "fever", 60.0)), accepted)
    for named in (TINY, "fever", "60.0", "70.0", "68.0", "72.0"):
        assert named in finding.sentence


def test_only_like_is_held_against_like():
    """Another engine or number of claims is said, not judged; a cell that is gone is missing."""
    assert ["other_engine"] == kinds(score(TINY, "fever", 10.0, engine="other"))
    assert ["other_claims"] == kinds(score(TINY, "fever", 10.0, rows=7))
    assert ["missing"] == kinds(score(TINY, "hover", 70.0))


def test_short_runs_are_not_accepted_and_a_system_of_two_tables_once():
    """What a limit cut is no measure; the base policy stands in both tables and is one cell."""
    limited = board(score(TINY, "fever", 70.0), runs=RunCoverage(limited={(TINY, "fever")}))
    assert [] == acceptable_scores(limited)
    assert [BASE] == [cell.system for cell in acceptable_scores(board(score(BASE, "fever", 70.0)))]


def test_accepting_one_system_leaves_the_others():
    """New cells take the places of their own; the rest stays; the order is fixed."""
    old = acceptable_scores(board(score(TINY, "fever", 70.0), score(BASE, "fever", 50.0)))
    both = merge_accepted(
        old, acceptable_scores(board(score(TINY, "fever", 80.0), score(TINY, "wice", 5.0)))
    )
    scores = [(cell.system, cell.benchmark, cell.score) for cell in both]
    assert [(TINY, "fever", 80.0), (TINY, "wice", 5.0), (BASE, "fever", 50.0)] == scores


def test_the_file_comes_back_as_it_was_written():
    """Through JSON and back; another shape, or a number without an end, is refused.

    It is never read as "nothing was accepted"; the command that fixes it is named.
    """
    accepted = acceptable_scores(board(score(TINY, "fever", 70.0)))
    text = json.dumps(accepted_json(accepted, "2030-01-01", "why"))
    assert accepted == accepted_from(json.loads(text))
    refused: list[object] = [[], {"version": 2, "cells": []}, {"version": 1}]
    refused += [{"version": 1, "cells": cells} for cells in ([{}], [7], {})]
    for name, number in product(("rows", "score", "low", "high"), ("NaN", "Infinity", "-Infinity")):
        page = json.loads(text)
        page["cells"][0][name] = float(number)
        refused.append(json.loads(json.dumps(page)))
    for value in refused:
        with pytest.raises(ConfigError, match=r"accepted\.json .*decomposerl accept --fresh"):
            accepted_from(value)


def curves(*points: tuple[int, str, str, float | None]) -> pl.DataFrame:
    rows = [("run", "tiny", step, split, name, mean, None, 8) for step, split, name, mean in points]
    return pl.DataFrame(rows, schema=CURVES.schema, orient="row")


GREEDY = "held_out_greedy", "balanced_accuracy"
MEASURED = curves(
    (0, *GREEDY, 0.5),
    (10, *GREEDY, 0.8),
    (20, *GREEDY, 0.9),
    (30, *GREEDY, 0.8),
    (40, *GREEDY, None),
    (20, "train", "balanced_accuracy", 1.0),
    (30, "held_out_greedy", "total", 9.0),
)


def test_the_final_adapter_is_evaluated_unless_another_rule_is_set():
    """No figure chooses; its held-out measure is reported where there is one."""
    chosen = select_checkpoint(MEASURED, {10, 20}, 30)
    assert (30, "final", 0.8) == (chosen.step, chosen.rule, chosen.dev_score)
    assert select_checkpoint(MEASURED, (), 40).dev_score is None


def test_the_best_on_dev_is_the_earliest_of_the_best_that_were_kept():
    """Only saved and measured steps are weighed, the final one always; without a measure none."""
    for saved, step in (({10, 20, 30}, 20), ({10, 30}, 10), (set(), 30), ({0}, 30)):
        assert step == select_checkpoint(MEASURED, saved, 30, "best_on_dev").step
    with pytest.raises(ConfigError, match="best_on_dev"):
        select_checkpoint(MEASURED, {40, 50}, 40, "best_on_dev")
