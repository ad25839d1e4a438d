"""Health rules: what each one says of a history, and laws of all of them."""

import math
from collections.abc import Mapping, Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from decomposerl.training.health import (
    AT_ONCE,
    RULES,
    HealthFinding,
    HealthSettings,
    health_findings,
    new_findings,
    spread_key,
)
from strategies import LAW

SHORT = HealthSettings(window=4)
Steps = Sequence[Mapping[str, float | None]]


def steady(**measures: float | None) -> list[dict[str, float | None]]:
    """Six steps that all measure the same."""
    return [dict(measures) for _ in range(6)]


def spreads(**of: float) -> list[dict[str, float | None]]:
    return [{spread_key(name): value for name, value in of.items()} for _ in range(6)]


def questions(*values: float) -> list[dict[str, float | None]]:
    return [{"questions": value} for value in values]


def sampler(gap: float, base: float, nll: float = 1.0) -> list[dict[str, float | None]]:
    """A check of the sampler at the second of six steps."""
    steps = steady(questions=3.0, n_star=3.0)
    steps[1] |= {"sampler_gap": gap, "sampler_gap_base": base, "sampler_nll": nll}
    return steps


NAN = math.nan
STALE = [("stale_sampler", True)]
TABLE = {
    "nothing measured": (steady(), []),
    "some groups alike": (steady(zero_spread_groups=0.5), []),
    "most groups alike": (steady(zero_spread_groups=0.6), [("zero_spread_groups", False)]),
    "all groups alike": (steady(zero_spread_groups=0.98), [("zero_spread_groups", True)]),
    "few truncated": (steady(truncated=0.19), []),
    "many truncated": (steady(truncated=0.2), [("truncated", False)]),
    "nearly all truncated": (steady(truncated=0.9), [("truncated", True)]),
    "a judge that fails now and then": (steady(judge_failures=0.01), []),
    "a judge that fails too often": (steady(judge_failures=0.02), [("judge_failures", False)]),
    "a judge beyond the limit": (steady(judge_failures=0.05), [("judge_failures", True)]),
    "rewards in balance": (spreads(format=0.3, coverage=0.4, joint=0.2), []),
    "one reward alone": (spreads(format=0.3), []),
    "no reward moves": (spreads(format=0.0, coverage=0.0), []),
    "one reward dominates": (spreads(format=0.1, coverage=0.9), [("dominating_reward", False)]),
    "the total is no reward": (spreads(format=0.1, joint=0.1, total=5.0), []),
    "the count holds": (questions(4, 4, 4, 4, 6, 6, 6, 6), []),
    "the count grows": (questions(3, 3, 3, 3, 5, 5, 5, 5), [("question_drift", False)]),
    "the count falls": (questions(3, 3, 3, 3, 1, 1, 1, 1), [("question_drift", False)]),
    "from no questions to some": (questions(0, 0, 0, 0, 1, 1, 1, 1), [("question_drift", False)]),
    "twice n*": (steady(questions=6.0, n_star=3.0), []),
    "more than twice n*": (steady(questions=7.0, n_star=3.0), [("question_count", False)]),
    "less than half n*": (steady(questions=1.0, n_star=3.0), [("question_count", False)]),
    "pseudo-labels that teach": (steady(pseudo_label_agreement=0.6), []),
    "a coin": (steady(pseudo_label_agreement=0.5), [("pseudo_label_agreement", False)]),
    "a sampler with the policy's weights": (sampler(0.02, 0.3), []),
    "before the adapter has moved": (sampler(0.02, 0.02), []),
    "hardly closer to the base": (sampler(0.1, 0.071), []),
    "a sampler with the base's weights": (sampler(0.1, 0.069), STALE),
    "a gap that is rounding": (sampler(9e-4, 1e-6, 1e-3), []),
    "a gap below a fifth of the surprisal": (sampler(0.19, 0.19), []),
    "another model": (sampler(0.2, 0.2), STALE),
    "another temperature of a policy that is sure": (sampler(0.0065, 0.0065, 0.013), STALE),
}


def test_each_rule_at_its_bound():
    """A rule speaks from its bound on, stops from its second bound on, and is alone in it."""
    for name, (history, expected) in TABLE.items():
        found = health_findings(history, SHORT)
        assert expected == [(finding.rule, finding.stop) for finding in found], name


def test_the_message_carries_the_number():
    """A person reads the share and the window; truncations that are not masked never stop."""
    (finding,) = health_findings(steady(zero_spread_groups=0.75), SHORT)
    assert "75%" in finding.message
    assert "4 steps" in finding.message
    history = steady(truncated=1.0)
    (finding,) = health_findings(history, HealthSettings(window=4, mask_truncated=False))
    assert not finding.stop
    assert "masked" not in finding.message


def test_a_bad_start_that_is_over_is_not_a_finding():
    """Only the window counts: early steps that were all alike do not stop a run that moves."""
    history = steady(zero_spread_groups=1.0) + steady(zero_spread_groups=0.1)
    assert [] == health_findings(history, SHORT)


def test_news_are_said_once_and_again_when_they_become_worse():
    """The same warning is not new; a warning that turned into a stop is."""
    warning, stop = HealthFinding("truncated", "a"), HealthFinding("truncated", "b", stop=True)
    assert [warning] == new_findings([warning], [])
    assert [] == new_findings([HealthFinding("truncated", "other words")], [warning])
    assert [stop] == new_findings([stop], [warning])


shares = st.floats(0, 1) | st.none() | st.just(math.nan)
keys = (
    *("zero_spread_groups truncated judge_failures pseudo_label_agreement").split(),
    *("questions n_star sampler_gap sampler_gap_base sampler_nll").split(),
    *(spread_key(name) for name in ("format", "coverage", "joint", "total")),
)
histories = st.lists(st.dictionaries(st.sampled_from(keys), shares), max_size=12)


@LAW
@given(histories)
def test_one_finding_a_rule_in_the_order_of_rules(history: Steps):
    """Any history gives at most one finding a rule, in the published order, and no error."""
    indices = [RULES.index(finding.rule) for finding in health_findings(history, SHORT)]
    assert sorted(set(indices)) == indices


@LAW
@given(histories)
def test_silence_before_the_window_is_full(history: Steps):
    """Fewer steps than the window say nothing, whatever they hold, but of the sampler."""
    assert {one.rule for one in health_findings(history[:3], SHORT)} <= AT_ONCE


def test_the_sampler_is_judged_at_once_and_by_its_last_check():
    """The first step may stop; a later check that is fine takes the finding back."""
    stale, fine = sampler(0.1, 0.0)[1], sampler(0.02, 0.3)[1]
    (finding,) = health_findings([stale], SHORT)
    assert finding.stop
    assert "adapter" in finding.message
    assert [] == health_findings([stale, fine], SHORT)
    assert [] == health_findings([stale, fine, *steady()], SHORT)
    assert STALE == [(one.rule, one.stop) for one in health_findings([fine, stale, {}], SHORT)]


@LAW
@given(histories)
@example([{"sampler_gap": 1.0, "sampler_gap_base": 0.0, "sampler_nll": 0.0}, {"sampler_gap": NAN}])
def test_a_step_that_measured_nothing_is_as_one_without_the_key(history: Steps):
    """None and NaN count as missing, never as zero."""
    same = [
        {key: value for key, value in step.items() if value is not None and math.isfinite(value)}
        for step in history
    ]
    assert health_findings(history, SHORT) == health_findings(same, SHORT)


@LAW
@given(histories, st.integers(0, 3))
def test_worse_never_stops_less(history: Steps, index: int):
    """Raising a share in the window keeps every stop on that share."""
    for key in ("zero_spread_groups", "truncated", "judge_failures"):
        worse = [dict(step) for step in history]
        if len(worse) >= 4 and worse[-1 - index].get(key) is not None:
            worse[-1 - index][key] = 1.0
        before = {finding.rule for finding in health_findings(history, SHORT) if finding.stop}
        after = {finding.rule for finding in health_findings(worse, SHORT) if finding.stop}
        assert before <= after


@LAW
@given(histories)
def test_steps_of_the_window_in_any_order(history: Steps):
    """Within the window order does not matter."""
    turned = [*history[:-4], *reversed(history[-4:])]
    if len(history) < 8:
        return
    assert [f.rule for f in health_findings(history, SHORT)] == [
        f.rule for f in health_findings(turned, SHORT)
    ]
