"""What holds of every baseline in the catalogue, whoever wrote it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseline_parts import (
    HOSTILE,
    MARK,
    NONSENSE,
    QUESTION,
    always,
    by_operation,
    cases,
    drive,
    erratic,
    failing_at,
    outcome,
)
from decomposerl.baselines.catalogue import ENTRY_METHODS, METHODS
from decomposerl.baselines.method import (
    CallFailedError,
    Method,
    ModelCall,
    ModelReply,
    Protocol,
)
from decomposerl.prompts.template import PromptFile
from decomposerl.replies.abstention import abstains
from decomposerl.traces.grammar import build_trace
from resources.store.prompts import load_prompt
from strategies import EACH_LAW

CASES = [pytest.param(method, protocol, id=name) for name, method, protocol in cases(ENTRY_METHODS)]
EVERY = pytest.mark.parametrize(("method", "protocol"), CASES)
PAPER_ORDER = [
    *("Simple", "CoT", "MiniCheck", "Self-Ask", "Decomposed Prompting", "HiSS", "FOLK"),
    *("ProgramFC", "Chen-2024", "ClaimDecomp", "QACheck"),
]


def test_the_catalogue_is_in_the_papers_order():
    """Names and titles are distinct, and the rows come as in the paper's first table."""
    titles = [method.title for method in METHODS]
    assert [title for title in PAPER_ORDER if title in titles] == titles
    assert len({method.name for method in ENTRY_METHODS}) == len(ENTRY_METHODS)


@pytest.mark.parametrize("method", ENTRY_METHODS, ids=lambda method: method.name)
def test_a_method_has_both_protocols_or_a_verifier(method: Method):
    """A chat method runs faithfully and in one call; a verifier has no procedure to drive.

    A template named verdict offers both labels and no third: engines go by its words.
    """
    chat = {"faithful", "single_call"} if method.engine == "chat" else set()
    assert chat == set(method.procedures)
    assert bool(method.prompt) == (method.engine == "chat")
    assert method.calls
    verdict = load_prompt(method.prompt).sections.get("verdict", "") if method.prompt else ""
    assert "unknown" not in verdict.lower()
    assert ("Supported" in verdict) == ("Refuted" in verdict)


@EVERY
@EACH_LAW
@given(seed=st.integers(0, 10_000))
def test_a_run_whatever_the_model_replies(method: Method, protocol: Protocol, seed: int):
    """As many calls as the formula says, a verdict exactly where one was parsed, a whole trace.

    A method draws nothing at random: calls and ending are a function of the replies.
    """
    driven, again = (drive(method.procedures[protocol], erratic(seed)) for _ in range(2))
    ended = driven.ended
    assert driven == again
    assert method.expected_calls(ended, protocol) == len(driven.calls)
    assert (ended.status == "parsed") == (ended.verdict is not None)
    assert ended.status in {"parsed", "unparsed", "truncated"}
    trace = build_trace(ended.opening or None, ended.cycles, ended.verdict)
    assert (ended.cycles, ended.verdict) == (trace.cycles, trace.verdict)
    assert set() == {fault.kind for fault in trace.faults} & {"text_outside", "malformed_tag"}
    assert not ended.cycles or method.decomposes
    prompt = load_prompt(method.prompt)
    for call in driven.calls:
        check_call(call, prompt)


def check_call(call: ModelCall, prompt: PromptFile) -> None:
    """The prompt has its section with exactly its places, and whoever answers sees the evidence.

    A check sees it, or what was found in it.
    """
    filled = prompt.filled(call.template, **call.variables)
    assert all(value in filled for value in call.variables.values())
    assert not call.form or load_prompt("again").filled(call.form)
    seen = {name: value for name, value in call.variables.items() if value.strip()}
    marked = any(MARK in value for value in seen.values())
    if call.operation in {"answer", "procedure", "summarise", "select"}:
        assert marked, call.template
    if call.operation == "verify":
        assert marked or set(seen) - {"claim", "statement", "question"}, call.template


@EVERY
def test_tags_in_replies_forge_no_block(method: Method, protocol: Protocol):
    """A reply that closes a block and opens another stays text of the block that it stands in."""

    def model(call: ModelCall, number: int) -> ModelReply:
        return ModelReply(by_operation()(call, number).text.replace(" so?", f" {HOSTILE} so?"))

    ended = drive(method.procedures[protocol], model).ended
    trace = build_trace(ended.opening or None, ended.cycles, ended.verdict)
    assert (ended.opening or None, ended.cycles) == (trace.opening, trace.cycles)


@EVERY
def test_nonsense_stays_unparsed(method: Method, protocol: Protocol):
    """No coin is thrown: where nothing can be read, there is no verdict."""
    for text in (NONSENSE, "", HOSTILE):
        ended = drive(method.procedures[protocol], always(text)).ended
        assert (None, "unparsed") == outcome(ended), text
        cut = drive(method.procedures[protocol], always(text, truncated=True)).ended
        assert (None, "truncated") == outcome(cut), text


@EVERY
def test_a_call_without_an_answer_ends_the_claim(method: Method, protocol: Protocol):
    """Whichever call fails, the method ends there with the reason, and guesses nothing."""
    procedure = method.procedures[protocol]
    for place in range(len(drive(procedure, by_operation()).calls)):
        with pytest.raises(CallFailedError, match="late"):
            drive(procedure, failing_at(place, by_operation()))


@EVERY
def test_a_model_that_finds_all_true_ends_supported(method: Method, protocol: Protocol):
    """Canonical replies that all say yes are read as such, and leave their questions behind."""
    driven = drive(method.procedures[protocol], by_operation())
    assert ("Supported", "parsed") == outcome(driven.ended)
    variables = [value for call in driven.calls for value in call.variables.values()]
    assert any(QUESTION.claim in value for value in variables)
    if method.decomposes:
        assert driven.ended.cycles
        assert driven.ended.opening
    if protocol == "single_call" and method.decomposes:
        assert ["procedure"] == driven.operations()


@EVERY
def test_not_knowing_is_an_abstention(method: Method, protocol: Protocol):
    """An answer "unknown" stands in the trace in the words that rewards read as abstaining."""
    pairs = "Q1: Is it so?\nA1: unknown\nQ2: Was it?\nA2: unknown\nVerdict: Refuted"
    unknown = {"answer": "unknown", "procedure": pairs}

    def model(call: ModelCall, number: int) -> ModelReply:
        reported = unknown.get(call.operation)
        return by_operation()(call, number) if reported is None else ModelReply(reported)

    driven = drive(method.procedures[protocol], model)
    if unknown.keys() & set(driven.operations()):
        assert any(abstains(cycle.answer) for cycle in driven.ended.cycles)
    assert not any(cycle.answer.lower() == "unknown" for cycle in driven.ended.cycles)
