"""What pays on invented claims: tricks against honest traces, by a reader and by rules.

Claims and traces are in ``tricks.json``.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from decomposerl.rewards.settings import STRICT, RewardSettings
from project import ROOT
from resources.embedder.minilm import MiniLM
from resources.judge.rule_judge import RuleJudge
from studies.trick_traces import TRICKS as REAL_TRICKS
from studies.trick_types import Asked, Statement, Trick, rollout_of, totals
from studies.tricks import trick_table

TABLES = json.loads((ROOT / "tests/studies/tricks.json").read_text("utf-8"))
STATEMENTS = tuple(Statement(**row) for row in TABLES["statements"])


def trick_of(row: dict[str, Any]) -> Trick:
    return Trick(**row | {"asked": tuple(Asked(*one) for one in row["asked"])})


TRACES = [trick_of(row) for row in TABLES["traces"]]
HONEST = [one for one in TRACES if one.honest]
TRICKS = [one for one in TRACES if not one.honest]


def paid(tricks: Sequence[Trick], settings: RewardSettings, *, by_rules: bool) -> list[float]:
    judge = RuleJudge() if by_rules else None
    return totals(tricks, STATEMENTS, judge, MiniLM(), settings)


def gains(settings: RewardSettings, *, by_rules: bool) -> dict[tuple[str, str], float]:
    """What each trick earns more than the honest trace of its claim, by claim and name."""
    honest = {
        trace.about: reward
        for trace, reward in zip(HONEST, paid(HONEST, settings, by_rules=by_rules), strict=True)
    }
    earned = zip(TRICKS, paid(TRICKS, settings, by_rules=by_rules), strict=True)
    return {(one.about, one.name): reward - honest[one.about] for one, reward in earned}


@pytest.mark.parametrize("by_rules", [False, True], ids=["reader", "rules"])
def test_no_trick_pays_more_than_honesty_under_the_strict_readings(*, by_rules: bool):
    """Each trick stays below the honest trace of its claim, by a margin."""
    gained = gains(STRICT, by_rules=by_rules)
    assert len(TRICKS) == len(gained)
    assert {} == {name: gain for name, gain in gained.items() if gain > -0.1}


def test_under_the_papers_formula_tricks_pay():
    """The limit that the strict readings close: denials beat an honest abstention there."""
    gained = gains(RewardSettings(), by_rules=False)
    assert {
        ("silent", "made-up denial of each part"),
        ("silent", "one denial"),
        ("silent", "pieces denied"),
        ("silent", "claim denied"),
        ("silent", "denial behind I don't know"),
    } <= {name for name, gain in gained.items() if gain > 0}


def test_rules_take_a_named_thing_for_an_answer():
    """The limit of the rule judge: evidence that names the ferry makes abstaining a dodge."""
    evidence = (
        "The Ilva ferry crosses the Osk every day. Many commuters use the ferry in winter. "
        "Tickets are sold on board. The crossing takes twelve minutes."
    )
    named = replace(STATEMENTS[0], evidence=evidence)
    honest, denial = totals((HONEST[0], TRICKS[0]), (named,), RuleJudge(), MiniLM(), STRICT)
    assert "made-up denial of each part" == TRICKS[0].name
    assert (3.07, 3.07) == (round(honest, 2), round(denial, 2))


def test_the_table_marks_what_pays_more():
    """One row a trace; bold is more than the honest trace of the same claim earns."""
    lines = trick_table((*HONEST, *TRICKS), STATEMENTS, RuleJudge(), MiniLM()).splitlines()
    assert len(TRACES) + 2 == len(lines)
    denial = next(line for line in lines if TRICKS[0].name in line)
    assert 2 == denial.count("**") // 2
    assert all("**" not in line for line in lines if "| honest |" in line)


def test_the_real_tricks_are_ruled_on_whole():
    """Every cycle has its rulings, every claim one honest trace; the page names every trick."""
    names = {one.about for one in REAL_TRICKS}
    for trick in REAL_TRICKS:
        about = Statement(trick.about, "A claim.", "A sentence. " * 20, "Refuted", 2)
        cycles = rollout_of(trick, about).trace.cycles
        assert len(cycles) == len(trick.asked) == len(trick.without)
        assert all(len(one.atomic) == 5 for one in trick.asked)
    assert len(names) == sum(one.honest for one in REAL_TRICKS)
    assert 12 <= sum(not one.honest for one in REAL_TRICKS)
    page = (ROOT / "docs/explanation/rewards.md").read_text("utf-8")
    inside = page.split("<!-- tricks report: begin -->")[1].split("<!-- tricks report: end -->")[0]
    assert [] == [one.name for one in REAL_TRICKS if f"| {one.name} |" not in inside]
