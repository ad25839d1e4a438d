"""Cross-question consistency: answers of one trace that contradict each other.

Beyond the paper: none of its seven rewards sees that a trace counts three and names four
(appendix on traces, the golf example)::

    value = 1 - (cycles whose answer contradicts another, itself or a table) / n

in [0, 1]; a trace without cycles gets 0. All rules are deterministic and prefer a miss to a
false alarm: what is hedged, denied, abstained or about "it" contradicts nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from decomposerl.rewards.consistency_facts.facts import (
    Amount,
    Fact,
    Texts,
    Value,
    amount,
    facts,
    miscounts_itself,
)
from decomposerl.rewards.consistency_facts.rows import miscounts
from decomposerl.rewards.reward import QuestionResult, RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings
from decomposerl.text.numbers import Date

CONSISTENT = "consistent"
MOST_COMPARED = 64  # facts on one question that each other one is compared with: linear time


def consistency(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:
    """The share of cycles that contradict nothing, by case; 0 without cycles.

    The state of a question is ``consistent`` (value 1); ``miscounts`` (0): its number is not
    that of the names that it lists, or of the rows of the evidence that the answers name; or
    ``contradicts:<i>`` (0): it and the answer of cycle i, counted from 0, cannot both hold.
    There i is the first such cycle. Both sides of a contradiction lose.

    Raises:
        ValueError: ``abstained`` has not one entry for each cycle.
    """
    del settings  # one reading, nothing to choose
    texts = Texts()
    return [_score(case, texts) for case in cases]


def _score(case: RewardCase, texts: Texts) -> RewardResult:
    cycles = case.rollout.trace.cycles
    if not cycles:
        return RewardResult(0.0)
    answered = [
        (number, cycle.question, cycle.answer)
        for number, (cycle, abstains) in enumerate(zip(cycles, case.signals.abstained, strict=True))
        if not abstains
    ]
    states = dict.fromkeys(range(len(cycles)), CONSISTENT)
    states |= _clashes([fact for cycle in answered for fact in facts(*cycle, texts)])
    states |= dict.fromkeys(_miscounted(answered, case.rollout.evidence, texts), "miscounts")
    values = [float(state == CONSISTENT) for state in states.values()]
    questions = tuple(map(QuestionResult, values, states.values()))
    return RewardResult(sum(values) / len(cycles), questions=questions)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two cycles, by number, whose answers cannot both hold, or one that miscounts (both equal).

    ``kind`` is date, number, polarity or count. ``values`` are what the two answers say.
    """

    first: int
    second: int
    kind: str
    values: tuple[str, str]


def conflicts(
    answered: Sequence[tuple[int, str, str]], evidence: str, texts: Texts
) -> list[Conflict]:
    """The conflicts between answers, from number, question and answer of those that abstain not.

    They are those that ``consistency`` sees, each once, the earlier cycle first.
    """
    read = [fact for cycle in answered for fact in facts(*cycle, texts)]
    pairs = {
        (first.cycle, second.cycle): Conflict(
            first.cycle, second.cycle, _KINDS[str(first.key[0])], (_shown(first), _shown(second))
        )
        for first, second in _pairs(read)
    }
    wrong = _miscounted(answered, evidence, texts) if answered else set()
    return [*pairs.values(), *(Conflict(one, one, "count", ("", "")) for one in sorted(wrong))]


_KINDS = {"when": "date", "how_many": "number", "amount": "number", "yes_no": "polarity"}


def _shown(fact: Fact) -> str:
    """The value of a fact, for a reader."""
    value: Value | None = fact.value()
    if isinstance(value, Date):
        return "-".join(f"{part:02d}" if part else "?" for part in value).removesuffix("-?-?")
    if isinstance(value, Amount) and fact.key[0] != "yes_no":
        return f"{value.value:,.15g} {value.unit}".strip()
    return "yes" if isinstance(value, Amount) and value.value else "no"


def _clashes(read: Sequence[Fact]) -> dict[int, str]:
    """The states of cycles that contradict another one."""
    pairs = {(one.cycle, other.cycle) for one, other in _pairs(read)}
    pairs |= {(other, one) for one, other in pairs}
    return {cycle: f"contradicts:{other}" for cycle, other in sorted(pairs, reverse=True)}


def _pairs(read: Sequence[Fact]) -> list[tuple[Fact, Fact]]:
    """The pairs of facts that cannot both hold, the earlier cycle first."""
    alike: dict[object, list[Fact]] = {}
    for fact in read:
        alike.setdefault(fact.key, []).append(fact)
    pairs: list[tuple[Fact, Fact]] = []
    for group in alike.values():
        held = [(fact, fact.value()) for fact in group] if len(group) > 1 else []
        for index, (one, value) in enumerate(held):
            for other, second in held[: min(index, MOST_COMPARED)]:
                if value and second and value.differs(second):
                    pairs.append((other, one))
    return pairs


def _miscounted(answered: Sequence[tuple[int, str, str]], evidence: str, texts: Texts) -> set[int]:
    """Cycles whose count is not what they list, or what the answers name of the evidence."""
    wrong = {number for number, _, answer in answered if miscounts_itself(answer, texts)}
    answers = "\n".join(answer for _, _, answer in answered)
    for number, question, answer in answered:
        asked = texts.question(question)
        count = amount(asked, answer, texts) if asked.kind == "how_many" else None
        if count and miscounts(question, count.value, answers, texts.tables(evidence), evidence):
            wrong.add(number)
    return wrong
