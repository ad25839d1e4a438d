"""Planted traces: each is of its kind because of what it says, and of no other."""

import hashlib
import re
from collections import Counter
from itertools import groupby

import pytest

from decomposerl.replies.abstention import abstains
from decomposerl.traces.grammar import parse_trace, write_trace
from decomposerl.traces.records import group_of, read_trace_records
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle
from planted_traces.damage import INJECTIONS
from planted_traces.kinds import MAKERS
from planted_traces.planting import TRACE_KINDS, PlantedTrace, planted_traces

TRACES = planted_traces()
DIGEST = "73a150cb9517b5e8"
"""Of all traces: what their kinds do to the rewards was measured on these."""
_SAID = re.compile(r"the document says that (.+?)(?:, so (?=[A-Z])|\.$)")


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


def test_the_same_seed_gives_the_same_traces():
    """Another seed is another world; fewer claims are the first ones, many are made as well."""
    assert planted_traces(7) == TRACES
    lines = "\n".join(f"{trace.kind} {trace.line()}" for trace in TRACES)
    assert DIGEST == hashlib.sha256(lines.encode()).hexdigest()[:16]
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
    rollouts, problems = read_trace_records((trace.line() for trace in TRACES), "planted")
    assert problems == []
    assert list(rollouts.values()) == [
        Rollout(t.group, t.number, t.claim, t.evidence, parse_trace(t.text), t.label, t.n_star,
                t.truncated)
        for t in TRACES
    ]  # fmt: skip


def test_a_good_trace_asks_for_each_part_and_answers_from_the_evidence():
    """A question a sub-claim, a sentence of evidence an answer; a No where the claim is refuted."""
    for trace in of("good"):
        asked = [cycle.question for cycle in cycles(trace)]
        assert trace.n_star == len(set(asked)) == len(asked)
        assert all(question.endswith("?") for question in asked)
        assert not any(re.search(r",|\b(?:and|or)\b", question) for question in asked)
        assert all(is_held(cycle.answer, trace) for cycle in cycles(trace))
        assert trace.label == parse_trace(trace.text).verdict
        denials = sum(cycle.answer.startswith("No, ") for cycle in cycles(trace))
        assert denials == (trace.label == "Refuted")


CHANGES = {
    "redundant": (1, 0, True),
    "hallucinated": (0, 0, True),
    "non_atomic": (-1, 0, True),
    "dodging": (1, 1, True),
    "honest_abstention": (1, 1, True),
    "mislabelled": (0, 0, False),
    "misled": (0, 0, False),
    "harmful": (1, 0, True),
    "truncated": (-1, 0, False),
}
"""Cycles and abstentions more than the twin's, and whether the verdict is the claim's label."""


@pytest.mark.parametrize("kind", CHANGES)
def test_a_flawed_trace_differs_from_its_twin_as_its_kind_says(kind: str):
    """What each kind costs is held against the rewards; what may not change is all the rest."""
    more, abstained, right = CHANGES[kind]
    for trace in of(kind):
        mine, its = cycles(trace), cycles(twin(trace))
        assert more == len(mine) - len(its)
        assert abstained == sum(abstains(cycle.answer) for cycle in mine)
        assert right == (trace.label == parse_trace(trace.text).verdict)
        same = len(its) + min(more, 0) - (kind == "non_atomic")
        assert sum(one != other for one, other in zip(mine[:same], its, strict=False)) == (
            kind in {"hallucinated", "misled"}
        )
        lied = [cycle for cycle in mine if cycle not in its and said(cycle.answer)]
        if kind in {"misled", "harmful"}:
            assert not is_held(lied[0].answer, trace)
        if kind == "truncated":
            assert trace.truncated
            assert twin(trace).text.startswith(trace.text)


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
