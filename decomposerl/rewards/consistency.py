"""Cross-question consistency: answers of one trace that contradict each other.

Takes the cases of one group, gives one ``RewardResult`` a case. Beyond the paper, which names the
hole: none of its seven rewards sees that a trace counts three and names four (appendix on
traces, the golf example)::

    value = 1 - (cycles whose answer contradicts another, itself or a list of the evidence) / n

in [0, 1]; a trace without cycles gets 0, for nothing said is no merit. All rules are
deterministic and prefer silence to a false alarm: what is hedged, denied, abstained or about
"it" contradicts nothing. The judge's rulings count for nothing here but the abstentions.

Left out deliberately: contradictions that take knowledge of the world or of words ("a widow"
and "her husband"), and whether an answer agrees with the evidence's prose; that is for the
judge.
"""

from collections.abc import Sequence

from decomposerl.rewards.consistency_facts.answers import Fact, Reading, facts, readings
from decomposerl.rewards.consistency_facts.lists import miscounts_itself
from decomposerl.rewards.consistency_facts.tables import (
    Named,
    Rows,
    miscounts,
    read_tables,
    together,
)
from decomposerl.rewards.consistency_facts.values import (
    Date,
    Quantity,
    dates_differ,
    quantities_differ,
)
from decomposerl.rewards.reward import QuestionResult, RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings

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
    silent = case.signals.abstained
    if not cycles:
        return RewardResult(0.0)
    told = [
        (number, cycle.question, cycle.answer)
        for number, (cycle, abstains) in enumerate(zip(cycles, silent, strict=True))
        if not abstains
    ]
    states = dict.fromkeys(range(len(cycles)), CONSISTENT)
    read = readings(told)
    for number, other in _clashes(read, case.rollout.evidence).items():
        states[number] = f"{CONTRADICTS}:{other}"
    wrong = {number for number, _, answer in told if miscounts_itself(answer)}
    wrong |= _miscounted(read, case.rollout.evidence, tables)
    states |= dict.fromkeys(wrong, MISCOUNTS)
    questions = tuple(QuestionResult(float(s == CONSISTENT), s) for s in states.values())
    agree = sum(s == CONSISTENT for s in states.values())
    return RewardResult(agree / len(cycles), questions=questions)


def _clashes(read: Sequence[Reading], evidence: str) -> dict[int, int]:
    """Cycles that contradict another one, each with the first such cycle."""
    if len(read) == 0:
        return {}
    alike: dict[object, list[Fact]] = {}
    for fact in facts(read):
        alike.setdefault(fact.key, []).append(fact)
    found: dict[int, int] = {}
    for group in alike.values():
        for place, one in enumerate(group):
            for other in group[: min(place, MOST_COMPARED)]:
                if _differ(one, other, evidence):
                    for a, b in ((one.cycle, other.cycle), (other.cycle, one.cycle)):
                        found[a] = min(b, found.get(a, b))
    return found


def _differ(one: Fact, other: Fact, evidence: str) -> bool:
    """Whether two facts of one key cannot both hold.

    Two names can be of one person, or of two who did it together: one sentence of the
    evidence that holds both is taken for that.
    """
    apart = bool(one.about and other.about) and one.about.isdisjoint(other.about)
    if apart or not (one.firm or other.firm):
        return False
    match one.value, other.value:
        case Date() as a, Date() as b:
            return dates_differ(a, b)
        case Quantity() as a, Quantity() as b:
            return quantities_differ(a, b)
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
    if not counting:
        return set()
    if evidence not in tables:
        tables[evidence] = read_tables(evidence)
    named = Named([one.answer for one in read])
    return {
        one.cycle
        for one, count in counting
        if miscounts(one.question, count.low, named, tables[evidence])
    }
