"""Rules that detect from a run's curves that it no longer learns.

A history has one mapping of measure to value per step, oldest first. Keys are the measures of
``training.curves``; a reward's standard deviation over the step's rollouts has the key
``spread_key(name)``. Missing, None and non-finite values are ignored. A rule uses means over the
last ``window`` steps, so that no single step stops a run, and is silent before that many steps;
those of ``AT_ONCE`` use the last step that has their measures.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, get_args

from decomposerl.rewards.catalogue import REWARDS

Measures = Mapping[str, float | None]
Rule = Literal[
    "zero_spread_groups",
    "truncated",
    "judge_failures",
    "dominating_reward",
    "question_drift",
    "question_count",
    "pseudo_label_agreement",
    "stale_sampler",
]
RULES: tuple[Rule, ...] = get_args(Rule)
AT_ONCE: frozenset[Rule] = frozenset({"stale_sampler"})
"""Rules that need no window of steps: their measures are means over all tokens of a batch."""


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """The thresholds, for means over ``window`` steps; shares are 0..1.

    ``window``: at the paper's two groups per step, 20 steps are 40 groups and 160 rollouts.
    ``zero_spread_warn`` and ``_stop``: share of groups whose rollouts all have the same total and
    so no advantage. ``truncated_warn`` and ``_stop``: share of completions that the token limit
    ended; masked ones have no gradient, so the rule stops only with ``mask_truncated``.
    ``judge_failures_warn`` and ``_stop``: share of judged rewards without a ruling.
    ``dominating``: one reward's share of the rewards' summed standard deviations, above which
    the others hardly enter the advantage. ``drift``: relative change of the mean number of
    questions against the run's first ``window`` steps. ``count_ratio``: factor between questions
    and n*, either way. ``agreement``: share of pseudo-labels that equal the known label, below
    which they teach little more than chance.
    """

    window: int = 20
    zero_spread_warn: float = 0.6
    zero_spread_stop: float = 0.98
    truncated_warn: float = 0.2
    truncated_stop: float = 0.9
    mask_truncated: bool = True
    judge_failures_warn: float = 0.02
    judge_failures_stop: float = 0.05
    dominating: float = 0.8
    drift: float = 0.5
    count_ratio: float = 2.0
    agreement: float = 0.6
    stale: float = 0.7
    foreign: float = 0.2
    least_gap: float = 1e-3


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One sentence for a person, and whether the run should end."""

    rule: Rule
    message: str
    stop: bool = False


_SAMPLER = ("sampler_gap", "sampler_gap_base", "sampler_nll")


def spread_key(name: str) -> str:
    """The key of a measure's standard deviation over the step's rollouts."""
    return f"{name}/spread"


def health_findings(history: Sequence[Measures], settings: HealthSettings) -> list[HealthFinding]:
    """What is wrong now, in the order of ``RULES``; before ``window`` steps only ``AT_ONCE``."""
    checks = _CHECKS if len(history) >= settings.window else _CHECKS_AT_ONCE
    return [finding for check in checks for finding in check(history, settings)]


def new_findings(
    now: Sequence[HealthFinding], before: Sequence[HealthFinding]
) -> list[HealthFinding]:
    """The findings of ``now`` that ``before`` does not have, or has without a stop."""
    known = {(finding.rule, finding.stop) for finding in before}
    return [finding for finding in now if (finding.rule, finding.stop) not in known]


def _mean(steps: Sequence[Measures], key: str) -> float | None:
    """The mean of the finite values of ``key``; None where there is none."""
    values = [step.get(key) for step in steps]
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else None


def _zero_spread(history: Sequence[Measures], settings: HealthSettings) -> Iterator[HealthFinding]:
    share = _mean(history[-settings.window :], "zero_spread_groups")
    if share is None or share < settings.zero_spread_warn:
        return
    text = f"in {_percent(share)} of groups over {settings.window} steps all totals are equal"
    stop = share >= settings.zero_spread_stop
    tail = "nothing is learned" if stop else "only the others train the policy"
    yield HealthFinding("zero_spread_groups", f"{text}: {tail}", stop)


def _truncated(history: Sequence[Measures], settings: HealthSettings) -> Iterator[HealthFinding]:
    share = _mean(history[-settings.window :], "truncated")
    if share is None or share < settings.truncated_warn:
        return
    text = f"the token limit ended {_percent(share)} of completions over {settings.window} steps"
    masked = "; they are masked and teach nothing" if settings.mask_truncated else ""
    stop = settings.mask_truncated and share >= settings.truncated_stop
    yield HealthFinding("truncated", text + masked, stop)


def _judge_failures(
    history: Sequence[Measures], settings: HealthSettings
) -> Iterator[HealthFinding]:
    share = _mean(history[-settings.window :], "judge_failures")
    if share is None or share < min(settings.judge_failures_warn, settings.judge_failures_stop):
        return
    text = f"{_percent(share)} of judged rewards lack a ruling over {settings.window} steps"
    yield HealthFinding("judge_failures", text, stop=share >= settings.judge_failures_stop)


def _dominating(history: Sequence[Measures], settings: HealthSettings) -> Iterator[HealthFinding]:
    recent = history[-settings.window :]
    means = {reward.name: _mean(recent, spread_key(reward.name)) for reward in REWARDS}
    spreads = {name: value for name, value in means.items() if value is not None}
    whole = math.fsum(spreads.values())
    if len(spreads) < 2 or whole <= 0:  # noqa: PLR2004 - a single reward cannot dominate
        return
    name = max(spreads, key=lambda each: spreads[each])
    share = spreads[name] / whole
    if share >= settings.dominating:
        text = f"reward '{name}' has {_percent(share)} of the rewards' summed spread"
        yield HealthFinding("dominating_reward", f"{text} over {settings.window} steps")


def _drift(history: Sequence[Measures], settings: HealthSettings) -> Iterator[HealthFinding]:
    first = _mean(history[: settings.window], "questions")
    now = _mean(history[-settings.window :], "questions")
    if first is None or now is None or abs(now - first) <= settings.drift * first:
        return
    text = f"questions a trace went from {first:.1f} in the first {settings.window} steps"
    yield HealthFinding("question_drift", f"{text} to {now:.1f} in the last")


def _count(history: Sequence[Measures], settings: HealthSettings) -> Iterator[HealthFinding]:
    recent = history[-settings.window :]
    asked, wanted = _mean(recent, "questions"), _mean(recent, "n_star")
    if asked is None or not wanted:
        return
    if wanted / settings.count_ratio <= asked <= wanted * settings.count_ratio:
        return
    text = f"a trace asks {asked:.1f} questions where n* is {wanted:.1f}"
    yield HealthFinding("question_count", f"{text}, mean over {settings.window} steps")


def _agreement(history: Sequence[Measures], settings: HealthSettings) -> Iterator[HealthFinding]:
    share = _mean(history[-settings.window :], "pseudo_label_agreement")
    if share is None or share >= settings.agreement:
        return
    text = f"pseudo-labels agree with {_percent(share)} of the known labels"
    yield HealthFinding("pseudo_label_agreement", f"{text} over {settings.window} steps")


def _stale(history: Sequence[Measures], settings: HealthSettings) -> Iterator[HealthFinding]:
    checks = (step for step in reversed(history) if _mean([step], "sampler_gap") is not None)
    last = list(islice(checks, 1))
    gap, base, nll = (_mean(last, key) for key in _SAMPLER)
    if gap is None or base is None or nll is None or gap < settings.least_gap:
        return
    text = f"the sampler's log-probabilities are {gap:.2g} nats a token from the policy's"
    if base < settings.stale * gap:
        why = f"but {base:.2g} from the base's: vLLM samples without the trained adapter"
        tail = "start its server as in docs/how-to/gpus.md, and train again from step 0"
        yield HealthFinding("stale_sampler", f"{text} {why}; {tail}", stop=True)
    elif gap >= settings.foreign * nll:
        why = f"where its surprisal is {nll:.2g}: vLLM has another model or temperature"
        tail = "serve the recipe's base with --logprobs-mode processed_logprobs"
        yield HealthFinding("stale_sampler", f"{text} {why}; {tail}", stop=True)


def _percent(share: float) -> str:
    return f"{share:.0%}"


_Check = Callable[[Sequence[Measures], HealthSettings], Iterator[HealthFinding]]
_CHECKS: tuple[_Check, ...] = (
    _zero_spread,
    _truncated,
    _judge_failures,
    _dominating,
    _drift,
    _count,
    _agreement,
    _stale,
)
_CHECKS_AT_ONCE = (_stale,)
