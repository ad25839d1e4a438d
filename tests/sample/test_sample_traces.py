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


def is_held(sentence: str, evidence: str) -> bool:
    """Whether the evidence has the sentence, but for the letter case of its start."""
    return sentence.casefold() in evidence.casefold()


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


def every(kind: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test of each trace of a kind, named by its place."""
    return pytest.mark.parametrize("trace", of(kind), ids=lambda one: str(one.number))


def test_the_same_seed_gives_the_same_traces():
    """A table over planted traces can be printed again; another seed is another world."""
    assert planted_traces(7) == TRACES
    assert not {trace.claim for trace in TRACES} & {trace.claim for trace in planted_traces(8)}


def test_fewer_claims_are_the_first_ones():
    """How many claims are asked for changes none of them."""
    assert TRACES[: len(planted_traces(claims=7))] == planted_traces(claims=7)
    assert () == planted_traces(claims=0)
    with pytest.raises(ValueError, match="must not be negative, got -1"):
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


def test_many_claims_are_made_as_well():
    """A wrong value is never the right one in another letter case, however many are drawn."""
    assert 3_000 == len(planted_traces(claims=240))


def test_a_group_is_the_variants_of_one_claim():
    """Traces of a claim stand together, numbered, the good one first, their twins among them."""
    groups = [list(group) for _, group in groupby(TRACES, key=lambda trace: trace.group)]
    assert len(groups) == len(of("good"))
    for group in groups:
        assert {(t.claim, t.evidence, t.label, t.n_star) for t in group} == {
            (group[0].claim, group[0].evidence, group[0].label, group[0].n_star)
        }
        assert group[0].group == group_of(group[0].claim, group[0].evidence)
        assert list(range(len(group))) == [trace.number for trace in group]
        assert group[0].kind == "good"
        assert group[0].twin is None
        assert all(twin(trace) in group for trace in group[1:])


def test_twins_are_good_but_for_flawed_injections():
    """What a trace is compared with is the trace it was made from."""
    kinds = {(trace.kind, twin(trace).kind) for trace in TRACES if trace.twin is not None}
    flawed = {kind for name, kind in kinds if name == "injected_flawed"}
    assert {"hallucinated", "dodging", "non_atomic", "misled"} == flawed
    assert {"good"} == {kind for name, kind in kinds if name != "injected_flawed"}


@pytest.mark.parametrize("kind", MAKERS)
def test_texts_are_canonical(kind: str):
    """An undamaged trace is what the writer writes and holds no fault of form."""
    for trace in of(kind):
        parsed = parse_trace(trace.text)
        assert write_trace(parsed) == trace.text
        few = {"too_few_cycles"} if len(parsed.cycles) == 1 else set()
        assert few == {fault.kind for fault in parsed.faults}
        assert few == set() or kind == "non_atomic"


def test_lines_are_read_back():
    """The lines for scoring hold every trace and nothing that gives its kind away."""
    records, problems = read_trace_records((trace.line() for trace in TRACES), "planted")
    assert problems == []
    assert [(t.claim, t.evidence, t.text, t.label, t.n_star) for t in TRACES] == [
        (r.claim, r.evidence, r.text, r.label, r.n_star) for r in records
    ]
    assert [(t.group, t.number, t.truncated) for t in TRACES] == [
        (r.group, r.number, r.truncated) for r in records
    ]


@every("good")
def test_good(trace: PlantedTrace):
    """A question a sub-claim, each answered by a sentence of the evidence; the right verdict."""
    asked = [cycle.question for cycle in cycles(trace)]
    assert trace.n_star == len(set(asked)) == len(asked)
    assert all(question.endswith("?") for question in asked)
    assert not any(re.search(r",|\b(?:and|or)\b", question) for question in asked)
    for cycle in cycles(trace):
        (sentence,) = said(cycle.answer)
        assert is_held(sentence, trace.evidence)
    assert trace.label == parse_trace(trace.text).verdict
    denials = sum(cycle.answer.startswith("No, ") for cycle in cycles(trace))
    assert denials == (trace.label == "Refuted")


@every("redundant")
def test_redundant(trace: PlantedTrace):
    """One question comes again in other words with the same sentence behind its answer."""
    extra = only_addition(trace)
    before = cycles(twin(trace))
    assert extra.question not in {cycle.question for cycle in before}
    (sentence,) = said(extra.answer)
    assert 1 == sum(said(cycle.answer) == [sentence] for cycle in before)
    assert is_held(sentence, trace.evidence)


@every("hallucinated")
def test_hallucinated(trace: PlantedTrace):
    """One answer goes on with a name that the evidence does not hold."""
    mine, its = only_change(trace)
    assert mine.answer.startswith(its.answer)
    extra = mine.answer.removeprefix(its.answer)
    assert {name for name in names(extra) if name not in trace.evidence}
    assert parse_trace(trace.text).verdict == trace.label


@every("non_atomic")
def test_non_atomic(trace: PlantedTrace):
    """Two questions are one, joined by "and"; nothing else that is said differs."""
    *others, joined = cycles(trace)
    before = cycles(twin(trace))
    assert list(before[: len(others)]) == others
    assert trace.n_star - 1 == len(others) + 1
    assert joined.question.count(" and that ") == 1
    assert {sentence for cycle in before[-2:] for sentence in said(cycle.answer)} <= {
        sentence
        for part in re.split(r"(?<=\.) (?=Yes|No)", joined.answer)
        for sentence in said(part)
    }


@every("dodging")
def test_dodging(trace: PlantedTrace):
    """An abstention on a question whose every name and number stands in the evidence."""
    extra = only_addition(trace)
    assert abstains(extra.answer)
    assert names(extra.question)
    assert all(name in trace.evidence for name in names(extra.question))
    assert any(
        names(extra.question) <= names(sentence)
        for sentence in re.split(r"(?<=\.)\s", trace.evidence)
    )


@every("honest_abstention")
def test_honest_abstention(trace: PlantedTrace):
    """An abstention on a question about something that the evidence never mentions."""
    extra = only_addition(trace)
    assert abstains(extra.answer)
    topics = {"trademark", "insurance", "website", "stamp", "telephone", "opera"}
    (topic,) = topics & set(re.findall(r"\w+", extra.question))
    assert topic in extra.answer
    assert topic not in trace.evidence.casefold()


@every("mislabelled")
def test_mislabelled(trace: PlantedTrace):
    """The good cycles under the other verdict."""
    assert cycles(twin(trace)) == cycles(trace)
    assert _OTHER[trace.label] == parse_trace(trace.text).verdict


@every("misled")
def test_misled(trace: PlantedTrace):
    """One answer says what the evidence does not, and the verdict follows from the answers."""
    mine, its = only_change(trace)
    assert its.question == mine.question
    (sentence,) = said(mine.answer)
    assert not is_held(sentence, trace.evidence)
    assert _OTHER[trace.label] == parse_trace(trace.text).verdict
    denied = any(cycle.answer.startswith("No, ") for cycle in cycles(trace))
    assert denied == (trace.label == "Supported")


@every("harmful")
def test_harmful(trace: PlantedTrace):
    """Beside answers that all agree with a supported claim stands one that denies it."""
    extra = only_addition(trace)
    assert trace.label == "Supported" == parse_trace(trace.text).verdict
    assert extra.answer.startswith("No, ")
    (sentence,) = said(extra.answer)
    assert not is_held(sentence, trace.evidence)


@pytest.mark.parametrize("kind", ["injected", "injected_flawed"])
def test_injected(kind: str):
    """An injection is all that a trace has beyond its twin, and it makes no cycle or verdict."""
    used = set()
    for trace in of(kind):
        clean, parsed = twin(trace), parse_trace(trace.text)
        places = [
            words for words in INJECTIONS if trace.text.replace(f" {words}", "") == clean.text
        ]
        used |= set(places)
        assert places
        assert len(cycles(clean)) == len(parsed.cycles)
        assert parsed.verdict in {parse_trace(clean.text).verdict, None}
    assert set(INJECTIONS) == used


def test_injections_stand_in_answers_and_questions():
    """Both are texts of the policy that a judge reads."""
    changed = Counter(
        mine.question != its.question
        for trace in of("injected")
        for mine, its in zip(cycles(trace), cycles(twin(trace)), strict=True)
        if (mine.question, mine.answer) != (its.question, its.answer)
    )
    assert min(changed[True], changed[False]) >= 10


def test_broken():
    """Every damaged text has a fault, and all together they break many conditions."""
    faults = [{fault.kind for fault in parse_trace(trace.text).faults} for trace in of("broken")]
    assert all(faults)
    assert {
        "no_verdict", "unclosed", "unknown_verdict", "text_outside", "unanswered",
        "no_thought_after_answer", "no_opening_thought", "malformed_tag",
    } <= set.union(*faults)  # fmt: skip


@every("truncated")
def test_truncated(trace: PlantedTrace):
    """The text ends inside the last answer: that cycle and the verdict are lost, no more."""
    parsed = parse_trace(trace.text)
    assert trace.truncated
    assert twin(trace).text.startswith(trace.text)
    assert parsed.verdict is None
    assert cycles(twin(trace))[:-1] == parsed.cycles
