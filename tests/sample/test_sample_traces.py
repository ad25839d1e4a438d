"""Planted traces: each is of its kind because of what it says, and of no other."""

import re
from collections import Counter
from collections.abc import Callable
from itertools import groupby

import pytest

from decomposerl.traces.abstention import abstains
from decomposerl.traces.grammar import parse_trace, write_trace
from decomposerl.traces.records import group_of, read_trace_records
from decomposerl.traces.trace import Cycle
from planted_traces.damage import INJECTIONS
from planted_traces.kinds import MAKERS
from planted_traces.planting import TRACE_KINDS, PlantedTrace, planted_traces

TRACES = planted_traces()
_OTHER = {"Supported": "Refuted", "Refuted": "Supported"}
_SAID = re.compile(r"the document says that (.+?)(?:, so (?=[A-Z])|\.$)")
_NAME_OR_NUMBER = re.compile(r"\b(?:[A-Z][\w-]+|\d+)\b")


def of(kind: str) -> list[PlantedTrace]:
    return [trace for trace in TRACES if trace.kind == kind]


def cycles(trace: PlantedTrace) -> tuple[Cycle, ...]:
    return parse_trace(trace.text).cycles


def twin(trace: PlantedTrace) -> PlantedTrace:
    assert trace.twin is not None
    return TRACES[trace.twin]


def said(answer: str) -> list[str]:
    """What an answer says the document says."""
    return _SAID.findall(answer)


def is_held(answer: str, trace: PlantedTrace) -> bool:
    """Whether the evidence has the answer's one sentence, but for the case of its start."""
    (sentence,) = said(answer)
    return sentence.casefold() in trace.evidence.casefold()


def names(text: str) -> set[str]:
    """Words with a capital and numbers, without the words that open a sentence."""
    return set(_NAME_OR_NUMBER.findall(text)) - {"Is", "Was", "Can", "May", "Yes", "No", "I"}


def only_change(trace: PlantedTrace) -> tuple[Cycle, Cycle]:
    """The one cycle that differs from the twin's, and the twin's."""
    pairs = zip(cycles(trace), cycles(twin(trace)), strict=True)
    ((mine, its),) = [(mine, its) for mine, its in pairs if mine != its]
    return mine, its


def only_addition(trace: PlantedTrace) -> Cycle:
    """The last cycle of a trace that has its twin's cycles and one more."""
    *others, last = cycles(trace)
    assert list(cycles(twin(trace))) == others
    return last


def test_the_same_seed_gives_the_same_traces():
    """Another seed is another world; fewer claims are the first ones, many are made as well."""
    assert planted_traces(7) == TRACES
    assert not {trace.claim for trace in TRACES} & {trace.claim for trace in planted_traces(8)}
    assert TRACES[: len(planted_traces(claims=7))] == planted_traces(claims=7)
    assert (0, 3_000) == (len(planted_traces(claims=0)), len(planted_traces(claims=240)))
    with pytest.raises(ValueError, match="-1"):
        planted_traces(claims=-1)


def test_size_and_balance():
    """At least 40 claims, both labels alike, two and three sub-claims; every kind of each."""
    good = of("good")
    assert 40 <= len(good)
    assert 1 == len(set(Counter(trace.label for trace in good).values()))
    assert {2, 3} == {trace.n_star for trace in good}
    counts = Counter(trace.kind for trace in TRACES)
    assert set(TRACE_KINDS) == set(counts)
    assert {len(good)} == {counts[kind] for kind in TRACE_KINDS if kind != "harmful"}
    assert 2 * counts["harmful"] == len(good)


def test_a_group_is_the_variants_of_one_claim():
    """Traces of a claim stand together, numbered, the good one first, their twins among them."""
    groups = [list(group) for _, group in groupby(TRACES, key=lambda trace: trace.group)]
    assert len(groups) == len(of("good"))
    for first, *rest in groups:
        same = {(t.claim, t.evidence, t.label, t.n_star) for t in (first, *rest)}
        assert 1 == len(same)
        assert first.group == group_of(first.claim, first.evidence)
        assert list(range(1 + len(rest))) == [trace.number for trace in (first, *rest)]
        assert ("good", None) == (first.kind, first.twin)
        assert all(twin(trace) in (first, *rest) for trace in rest)
    kinds = {(trace.kind, twin(trace).kind) for trace in TRACES if trace.twin is not None}
    flawed = {kind for name, kind in kinds if name == "injected_flawed"}
    assert {"hallucinated", "dodging", "non_atomic", "misled"} == flawed
    assert {"good"} == {kind for name, kind in kinds if name != "injected_flawed"}


def test_texts_are_canonical_and_lines_are_read_back():
    """An undamaged trace is what the writer writes; a line has all but the trace's kind."""
    for trace in (one for kind in MAKERS for one in of(kind)):
        parsed = parse_trace(trace.text)
        assert write_trace(parsed) == trace.text
        few = {"too_few_cycles"} if len(parsed.cycles) == 1 else set()
        assert few == {fault.kind for fault in parsed.faults}
        assert few == set() or trace.kind == "non_atomic"
    records, problems = read_trace_records((trace.line() for trace in TRACES), "planted")
    assert problems == []
    assert [(r.claim, r.evidence, r.text, r.label, r.n_star, r.group, r.number, r.truncated)
            for r in records] == [
        (t.claim, t.evidence, t.text, t.label, t.n_star, t.group, t.number, t.truncated)
        for t in TRACES
    ]  # fmt: skip


def good(trace: PlantedTrace) -> None:
    """A question a sub-claim, each answered by a sentence of the evidence; the right verdict."""
    asked = [cycle.question for cycle in cycles(trace)]
    assert trace.n_star == len(set(asked)) == len(asked)
    assert all(question.endswith("?") for question in asked)
    assert not any(re.search(r",|\b(?:and|or)\b", question) for question in asked)
    assert all(is_held(cycle.answer, trace) for cycle in cycles(trace))
    assert trace.label == parse_trace(trace.text).verdict
    denials = sum(cycle.answer.startswith("No, ") for cycle in cycles(trace))
    assert denials == (trace.label == "Refuted")


def redundant(trace: PlantedTrace) -> None:
    """One question comes again in other words with the same sentence behind its answer."""
    extra, before = only_addition(trace), cycles(twin(trace))
    assert extra.question not in {cycle.question for cycle in before}
    assert 1 == sum(said(cycle.answer) == said(extra.answer) for cycle in before)
    assert is_held(extra.answer, trace)


def hallucinated(trace: PlantedTrace) -> None:
    """One answer goes on with a name that the evidence does not hold."""
    mine, its = only_change(trace)
    assert mine.answer.startswith(its.answer)
    extra = mine.answer.removeprefix(its.answer)
    assert any(name not in trace.evidence for name in names(extra))
    assert parse_trace(trace.text).verdict == trace.label


def non_atomic(trace: PlantedTrace) -> None:
    """Two questions are one, joined by "and"; nothing else that is said differs."""
    *others, joined = cycles(trace)
    before = cycles(twin(trace))
    assert list(before[: len(others)]) == others
    assert trace.n_star - 1 == len(others) + 1
    assert joined.question.count(" and that ") == 1
    parts = re.split(r"(?<=\.) (?=Yes|No)", joined.answer)
    held = {sentence for part in parts for sentence in said(part)}
    assert {sentence for cycle in before[-2:] for sentence in said(cycle.answer)} <= held


def dodging(trace: PlantedTrace) -> None:
    """An abstention on a question whose every name and number one sentence of evidence has."""
    extra = only_addition(trace)
    assert abstains(extra.answer)
    asked, sentences = names(extra.question), re.split(r"(?<=\.)\s", trace.evidence)
    assert asked
    assert any(asked <= names(sentence) for sentence in sentences)


def honest_abstention(trace: PlantedTrace) -> None:
    """An abstention on a question about something that the evidence never mentions."""
    extra = only_addition(trace)
    assert abstains(extra.answer)
    topics = {"trademark", "insurance", "website", "stamp", "telephone", "opera"}
    (topic,) = topics & set(re.findall(r"\w+", extra.question))
    assert topic in extra.answer
    assert topic not in trace.evidence.casefold()


def mislabelled(trace: PlantedTrace) -> None:
    """The good cycles under the other verdict."""
    assert cycles(twin(trace)) == cycles(trace)
    assert _OTHER[trace.label] == parse_trace(trace.text).verdict


def misled(trace: PlantedTrace) -> None:
    """One answer says what the evidence does not, and the verdict follows from the answers."""
    mine, its = only_change(trace)
    assert its.question == mine.question
    assert not is_held(mine.answer, trace)
    assert _OTHER[trace.label] == parse_trace(trace.text).verdict
    denied = any(cycle.answer.startswith("No, ") for cycle in cycles(trace))
    assert denied == (trace.label == "Supported")


def harmful(trace: PlantedTrace) -> None:
    """Beside answers that all agree with a supported claim stands one that denies it."""
    extra = only_addition(trace)
    assert trace.label == "Supported" == parse_trace(trace.text).verdict
    assert extra.answer.startswith("No, ")
    assert not is_held(extra.answer, trace)


def truncated(trace: PlantedTrace) -> None:
    """The text ends inside the last answer: that cycle and the verdict are lost, no more."""
    parsed = parse_trace(trace.text)
    assert trace.truncated
    assert twin(trace).text.startswith(trace.text)
    assert parsed.verdict is None
    assert cycles(twin(trace))[:-1] == parsed.cycles


KINDS = (good, redundant, hallucinated, non_atomic, dodging, honest_abstention, mislabelled, misled,
         harmful, truncated)  # fmt: skip


@pytest.mark.parametrize("check", KINDS, ids=lambda one: one.__name__)
def test_each_trace_is_of_its_kind(check: Callable[[PlantedTrace], None]):
    """As the kind's own function says; the kinds of damage have a test of their own."""
    assert set(TRACE_KINDS) - {"injected", "injected_flawed", "broken"} == {
        one.__name__ for one in KINDS
    }
    for trace in of(check.__name__):
        check(trace)


@pytest.mark.parametrize("kind", ["injected", "injected_flawed"])
def test_injected(kind: str):
    """An injection is all that a trace has beyond its twin, and it makes no cycle or verdict."""
    used, in_question = set(), Counter[bool]()
    for trace in of(kind):
        clean, parsed = twin(trace), parse_trace(trace.text)
        places = [
            words for words in INJECTIONS if trace.text.replace(f" {words}", "") == clean.text
        ]
        used |= set(places)
        assert places
        assert len(cycles(clean)) == len(parsed.cycles)
        assert parsed.verdict in {parse_trace(clean.text).verdict, None}
        pairs = zip(parsed.cycles, cycles(clean), strict=True)
        in_question.update(mine.question != its.question for mine, its in pairs if mine != its)
    assert set(INJECTIONS) == used
    assert min(in_question[True], in_question[False]) >= 10


def test_broken():
    """Every damaged text has a fault, and all together they break many conditions."""
    faults = [{fault.kind for fault in parse_trace(trace.text).faults} for trace in of("broken")]
    assert all(faults)
    assert {
        "no_verdict", "unclosed", "unknown_verdict", "text_outside", "unanswered",
        "no_thought_after_answer", "no_opening_thought", "malformed_tag",
    } <= set.union(*faults)  # fmt: skip
