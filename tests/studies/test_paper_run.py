"""The funnel over the synthetic pool, with replayed engines."""

from pathlib import Path

from studies.paper_facts import planted_facts
from studies.paper_inputs import write_inputs
from studies.paper_plan import DUPLICATES
from studies.paper_run import STEPS, funnel_cost


def test_every_step_runs_and_finds_the_planted_claims(tmp_path: Path):
    """A small pool passes every stage and check; planted duplicates are all removed."""
    write_inputs(tmp_path, 1_500)
    cost = funnel_cost(tmp_path)
    assert list(STEPS) == [step["step"] for step in cost["steps"]]
    assert {"source_guard"} >= set(cost["checks_failed"])  # small sources end up empty
    facts = {fact["planted"]: fact for fact in planted_facts(tmp_path).to_dicts()}
    assert sum(facts[kind]["reached"] for kind in DUPLICATES) > 10
    assert {1.0, None} >= {facts[kind]["recall"] for kind in DUPLICATES}
