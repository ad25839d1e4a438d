"""Cross-question consistency: answers of one trace that contradict each other.

Beyond the paper: none of its seven rewards sees that a trace counts three and names four
(appendix on traces, the golf example)::

    value = 1 - (cycles whose answer contradicts another, itself or a list of the evidence) / n

in [0, 1]; a trace without cycles gets 0. All rules are deterministic and prefer a miss to a
false alarm: what is hedged, denied, abstained or about "it" contradicts nothing.
"""

from collections.abc import Sequence

from decomposerl.rewards.consistency_facts.facts import Amount, Fact, Reading, facts, readings
from decomposerl.rewards.consistency_facts.rows import (
    Rows,
    miscounts,
    miscounts_itself,
    read_tables,
    together,
)
from decomposerl.rewards.reward import QuestionResult, RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings
from decomposerl.text.numbers import Date

CONSISTENT = "consistent"
MISCOUNTS = "miscounts"
CONTRADICTS = "contradicts"
MOST_COMPARED = 64
"""Facts on one question that each other one is compared with; keeps time linear."""


def consistency(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:
    """The share of cycles that contradict nothing, by case; 0 without cycles.

    The state of a question is ``consistent`` (value 1); ``miscounts`` (0): its number is not
    that of the things that the answer lists, or of the rows of the evidence that the answers
    name; or ``contradicts:<i>`` (0): it and the answer of cycle i, counted from 0, cannot
    both hold. There i is the first such cycle, or the cycle itself where a "yes" goes on
    with another date than the question's. Both sides of a contradiction lose.

    Raises:
        ValueError: ``abstained`` has not one entry for each cycle.
    """
    del settings  # one reading, nothing to choose
    tables: dict[str, tuple[Rows, ...]] = {}
    return [_score(case, tables) for case in cases]


def _score(case: RewardCase, tables: dict[str, tuple[Rows, ...]]) -> RewardResult:
    cycles = case.rollout.trace.cycles
    if not cycles:
        return RewardResult(0.0)
    answered = [
        (number, cycle.question, cycle.answer)
        for number, (cycle, abstains) in enumerate(zip(cycles, case.signals.abstained, strict=True))
        if not abstains
    ]
    states = dict.fromkeys(range(len(cycles)), CONSISTENT)
    read = readings(answered)
    for number, other in _clashes(read, case.rollout.evidence).items():
        states[number] = f"{CONTRADICTS}:{other}"
    wrong = {one.cycle for one in read if miscounts_itself(one.answer)}
    wrong |= _miscounted(read, case.rollout.evidence, tables)
    states |= dict.fromkeys(wrong, MISCOUNTS)
    questions = tuple(QuestionResult(float(s == CONSISTENT), s) for s in states.values())
    agree = sum(s == CONSISTENT for s in states.values())
    return RewardResult(agree / len(cycles), questions=questions)


def _clashes(read: Sequence[Reading], evidence: str) -> dict[int, int]:
    """Cycles that contradict another one, each with the first such cycle."""
    alike: dict[object, list[Fact]] = {}
    for fact in facts(read):
        alike.setdefault(fact.key, []).append(fact)
    first: dict[int, int] = {}
    for group in alike.values():
        for index, one in enumerate(group):
            for other in group[: min(index, MOST_COMPARED)]:
                if _differ(one, other, evidence):
                    for a, b in ((one.cycle, other.cycle), (other.cycle, one.cycle)):
                        first[a] = min(b, first.get(a, b))
    return first


def _differ(one: Fact, other: Fact, evidence: str) -> bool:
    """Whether two facts of one key cannot both hold.

    Two names in one sentence of the evidence can be of one person, or of two who did it
    together.
    """
    apart = bool(one.about and other.about) and one.about.isdisjoint(other.about)
    if apart or not (one.firm or other.firm):
        return False
    match one.value, other.value:
        case Date() as a, Date() as b:
            return a.differs(b)
        case Amount() as a, Amount() as b:
            gap = max(b.low - a.high, a.low - b.high)
            return a.unit == b.unit and gap >= max(a.step, b.step)
        case str() as a, str() as b:
            return set(a.split()).isdisjoint(b.split()) and not together(a, b, evidence)
        case bool() as a, bool() as b:
            return a != b
    return False


def _miscounted(
    read: Sequence[Reading], evidence: str, tables: dict[str, tuple[Rows, ...]]
) -> set[int]:
    """Cycles whose count is not what the answers name of the evidence's rows."""
    counting = [
        (one, count)
        for one in read
        if one.asked.kind == "how_many" and (count := one.count()) is not None
    ]
    if counting and evidence not in tables:
        tables[evidence] = read_tables(evidence)
    answers = "\n".join(one.answer for one in read)
    return {
        one.cycle
        for one, (count, *_) in counting
        if miscounts(one.question, count, answers, tables[evidence])
    }
