"""The cost table of two pools: measured amounts stay, others grow, and the page has it."""

import json
import math

from dagster_project.doctor import estimates_for
from dagster_project.environment import read_settings
from decomposerl.reports.cost import PAPER, cost_totals
from studies import scaling_costs
from studies.scaling_costs import MEASURED, PAGE, POOLS, Part, Pool, parts, report, scaled

COSTS = {
    str(size): [
        {"step": "pool", "rows_in": None, "cpu_s": 1e9, "peak_mb": 1e9},
        {"step": "rule_filtered", "rows_in": size, "cpu_s": seconds, "peak_mb": 100.0},
        {"step": "deduplicated", "rows_in": size, "cpu_s": size * size / 2e9, "peak_mb": 1.0},
    ]
    for size, seconds in ((1_000_000, 10.0), (10_000_000, 200.0))
}
MADE = {"dimensions": 384, "pools": COSTS}
"""The making of the pool, which is not counted, a step, and one with nothing but cosines: 1e9 pairs
a second."""


def own(pool: int) -> float:
    lines = parts(Pool(pool, 1, 1), MADE)
    return next(one for one in lines if one.name == "the stages' own work").core_hours * 3_600


def test_a_measured_pool_keeps_its_seconds_and_a_larger_one_grows_with_their_power():
    """20 times the seconds in 10 times the claims: a hundred times the claims take 400 times."""
    assert math.isclose(10.0, own(1_000_000))
    assert math.isclose(200.0, own(10_000_000))
    assert math.isclose(200.0 * 400, own(1_000_000_000))
    assert own(155_506) < 10.0


def test_cosines_are_taken_out_of_the_stage_and_counted_by_pairs():
    """Their seconds grow with the square of the claims that are compared."""
    pairs = [
        next(one for one in parts(pool, MADE) if one.name.endswith("among claims"))
        for pool in POOLS
    ]
    grown = (POOLS[1].claims / POOLS[0].claims) ** 2
    assert math.isclose(grown, pairs[1].core_hours / pairs[0].core_hours, rel_tol=1e-3)


def test_at_the_papers_size_the_engines_cost_what_doctor_says():
    """The same rows, tokens and prices."""
    assert PAPER == scaled(PAPER.entities)
    paper = read_settings({"DECOMPOSERL_PROFILE": "paper"})
    (estimate,) = [one for one in estimates_for(paper) if one.work == PAPER]
    _, _, dollars, hours = cost_totals(estimate.lines)
    paid = parts(POOLS[0], MADE)[1:4]
    assert math.isclose(dollars, sum(one.dollars for one in paid))
    assert math.isclose(hours, sum(one.gpu_hours for one in paid))


def test_hours_and_money_are_those_of_the_hardware():
    """Cards and cores work side by side on their own parts, one part after another."""
    part = Part("x", gpu_hours=8.0, core_hours=16.0, dollars=1.0)
    assert math.isclose(8 / 2 + 16 / 4, part.hours(Pool(1, 2, 4)))
    assert math.isclose(1 + 8 * 3.0 + 16 * 0.714 / 16, part.money())


def test_the_page_has_the_table_of_what_was_measured():
    """Both pools were measured."""
    measured = json.loads(MEASURED.read_text("utf-8"))
    text = report(measured)
    assert f"report: begin -->\n{text}\n<!-- {scaling_costs.NAME}" in PAGE.read_text("utf-8")
    assert {str(one.claims) for one in POOLS} <= set(measured["pools"])
