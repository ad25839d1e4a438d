"""Which calls a rollout needs, and what the rulings say."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import EngineError, SchemaError
from decomposerl.judge.call import Calls, Judge, JudgeCall, Ruling, needed_calls, rulings_from_frame
from decomposerl.replies.rulings import CRITERIA
from decomposerl.rewards.reward import Signals
from decomposerl.rewards.scoring import calls_frame, rulings_on, signals_of
from decomposerl.schemas import JUDGE_CALLS, VERDICTS
from decomposerl.traces.grammar import build_trace, parse_trace, write_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle
from strategies import LAW

SILENT = "I don't know."
FIELDS = {"coverage": "without", "answerability": "answerable", "atomicity": "atomic",
          "correctness": "correct"}  # fmt: skip
TEXTS = ("Supported", "1", "11110", "0")
CLAIMS = (("Ilva bridge opened in 1921.", "Ilva bridge was opened in 1921."), ("No river.", "Dry."))
texts = st.sampled_from(("Who built it?", "When was it opened?", "Is Torbeck near?"))
answers = st.sampled_from(("Torbeck built it.", "It opened in 1921.", SILENT, "No."))
cycles = st.lists(st.builds(Cycle, texts, answers, st.just("So.")), max_size=4)


@st.composite
def batches(draw: st.DrawFn) -> list[Rollout]:
    """Rollouts of two claims, numbered within their group."""
    drawn = draw(st.lists(st.tuples(st.integers(0, 1), cycles), max_size=5))
    return [
        rollout(f"claim {which}", number, *CLAIMS[which], parts)
        for number, (which, parts) in enumerate(drawn)
    ]


def rollout(group: str, number: int, claim: str, evidence: str, parts: Sequence[Cycle]) -> Rollout:
    return Rollout(group, number, claim, evidence, build_trace("Look.", parts, "Supported"))


def ruling(call: JudgeCall) -> Ruling:
    """A ruling that depends on the call alone; one in eight fails."""
    number = int(call.key[:8], 16)
    if number % 8 == 0:
        return Ruling(None, "timeout")
    if call.task == "coverage":
        return Ruling(VERDICTS[number % 3])
    if call.task == "atomicity":
        return Ruling.from_text(f"{number % 32:05b}")
    return Ruling(bool(number // 8 % 2))


def needed(batch: Sequence[Rollout]) -> list[Calls]:
    return [needed_calls(one) for one in batch]


def ruled(batch: Sequence[Rollout]) -> dict[JudgeCall, Ruling]:
    return {call: ruling(call) for calls in needed(batch) for call in calls.values()}


def signals(one: Rollout, rulings: Mapping[JudgeCall, Ruling] | None = None) -> Signals:
    calls = needed_calls(one)
    return signals_of(one, calls, ruled([one]) if rulings is None else rulings)


def expected_calls(one: Rollout) -> set[JudgeCall]:
    """The calls of one rollout, written out from the paper's section 3.2."""
    said = [cycle.answer for cycle in one.trace.cycles]
    sets = [said, *(said[:i] + said[i + 1 :] for i in range(len(said)))]
    calls = {JudgeCall("coverage", claim=one.claim, answers=tuple(kept)) for kept in sets if kept}
    for cycle in one.trace.cycles:
        calls.add(JudgeCall("answerability", document=one.evidence, question=cycle.question))
        calls.add(JudgeCall("atomicity", claim=one.claim, question=cycle.question))
        if cycle.answer != SILENT:
            calls.add(JudgeCall("correctness", one.evidence, "", cycle.question, (cycle.answer,)))
    return calls


@LAW
@given(batch=batches())
def test_every_needed_call_is_planned_and_no_other(batch: list[Rollout]):
    """At most 4n + 1 a rollout; equal calls of a batch are one."""
    for one in batch:
        calls = needed_calls(one)
        assert len(calls) <= 4 * len(one.trace.cycles) + 1
        assert expected_calls(one) == set(calls.values())
    asked: list[JudgeCall] = []

    def judged(calls: Sequence[JudgeCall]) -> list[Ruling]:
        asked.extend(calls)
        return [ruling_of(call) for call in calls]

    judge: Judge = SimpleNamespace(engine="noting", judge=judged)  # type: ignore[assignment]
    rulings = rulings_on(needed(batch), judge)
    assert set().union(*map(expected_calls, batch)) == set(asked) == set(rulings)
    assert len(set(asked)) == len(asked)


@LAW
@given(batch=batches())
def test_the_table_gives_the_signals_back(batch: list[Rollout]):
    """Written as JUDGE_CALLS and read in any row order, the signals are the same."""
    rulings = ruled(batch)
    frame = calls_frame(batch, needed(batch), rulings, "toy")
    assert JUDGE_CALLS.schema == frame.schema
    assert sum(map(len, needed(batch))) == frame.height
    recorded = rulings_from_frame(frame.reverse())
    read_back = {call: recorded[call.key] for call in rulings}
    assert [signals(one) for one in batch] == [signals(one, read_back) for one in batch]


@LAW
@given(one=batches().filter(lambda batch: any(map(needed_calls, batch))), data=st.data())
def test_a_failed_ruling_is_none_where_it_is_used_and_nowhere_else(
    one: list[Rollout], data: st.DataObject
):
    """Failing one call turns exactly its uses into None; a call that was not made does so, too."""
    sound = {call: ruling_of(call) for calls in needed(one) for call in calls.values()}
    broken = data.draw(st.sampled_from([*sound]))
    lost = data.draw(
        st.sampled_from([{**sound, broken: Ruling(None, "cut")}, without(sound, broken)])
    )
    for sampled in one:
        expected = signals(sampled, sound)
        for (task, cycle), call in needed_calls(sampled).items():
            if call == broken and cycle is None:
                expected = replace(expected, full=None)
            elif call == broken:
                values = list(getattr(expected, FIELDS[task]))
                values[cycle] = None
                expected = replace(expected, **{FIELDS[task]: tuple(values)})
        assert expected == signals(sampled, lost)


def without(rulings: Mapping[JudgeCall, Ruling], call: JudgeCall) -> dict[JudgeCall, Ruling]:
    return {one: ruling for one, ruling in rulings.items() if one != call}


def test_no_cycle_takes_no_call():
    """An empty trace supports nothing, and nobody is asked (readings, items 19 and 25)."""
    empty = rollout("g", 0, "Claim.", "Text.", [])
    assert {} == needed_calls(empty)
    assert Signals("NotEnoughInfo", (), (), (), (), ()) == signals(empty, {})


def test_one_cycle_is_not_asked_about_without_its_answer():
    """The empty answer set is NotEnoughInfo by rule: four calls, not five (item 26).

    Two cycles, one of them silent: eight calls, and None for its correctness.
    """
    calls = needed_calls(one_cycle())
    assert [*FIELDS] == [call.task for call in calls.values()]
    found = signals(one_cycle(), answered(TEXTS))
    met = (True, True, True, True, False)
    assert found == Signals("Supported", ("NotEnoughInfo",), (True,), (met,), (False,), (False,))
    two = rollout("g", 0, "Claim.", "Text.", [Cycle("Who?", "Ilva."), Cycle("When?", SILENT)])
    assert 8 == len(needed_calls(two))
    found = signals(two, {call: ruling_of(call) for call in needed_calls(two).values()})
    assert (True, None) == found.correct
    assert (False, True) == found.abstained


def ruling_of(call: JudgeCall) -> Ruling:
    value = {"coverage": "Supported", "atomicity": "1" * len(CRITERIA)}.get(call.task, "1")
    return Ruling.from_text(value)


def answered(texts: Sequence[str]) -> dict[JudgeCall, Ruling]:
    """Rulings on the calls of ``one_cycle``."""
    return dict(zip(needed_calls(one_cycle()).values(), map(Ruling.from_text, texts), strict=True))


def one_cycle(answer: str = "Ilva.", number: int = 0) -> Rollout:
    return rollout("g", number, "Claim.", "Text.", [Cycle("Who?", answer)])


def test_rollouts_of_one_claim_share_what_they_ask_alike():
    """The same question in two rollouts is judged once; another answer is another call."""
    first, second = one_cycle(), one_cycle("Torbeck.", 1)
    assert 4 + 2 == len(ruled([first, second]))
    assert 4 == len(ruled([first, replace(first, number=1)]))


def test_a_ruling_outside_its_contract_stops_the_batch():
    """No value is guessed: neither letter case, nor length, nor a third digit.

    A truth value is no verdict, a verdict no truth value, four criteria are not five.
    """
    fit = answered(TEXTS)
    for value in ("supported", "2", "", "1111", "11112", "111111", "Supported "):
        with pytest.raises(EngineError, match="contract"):
            signals(one_cycle(), dict.fromkeys(fit, Ruling(value)))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="is none of"):
            Ruling.from_text("111" if value == "1111" else value)
    for value, call in product((True, "Refuted", (True,) * 5, (True,) * 4), fit):
        rulings = fit | {call: Ruling(value)}  # type: ignore[arg-type]
        if type(fit[call].value) is type(value) and value != (True,) * 4:
            assert signals(one_cycle(), rulings)
        else:
            with pytest.raises(EngineError, match="contract"):
                signals(one_cycle(), rulings)


criteria = st.tuples(*[st.booleans()] * len(CRITERIA))


@given(st.booleans() | criteria | st.sampled_from(VERDICTS) | st.none())
def test_a_ruling_comes_back_from_its_text(value: bool | str | tuple[bool, ...] | None):  # noqa: FBT001 - as above
    """The text of ``JUDGE_CALLS`` and the typed value are each other's inverse."""
    assert Ruling(value) == Ruling.from_text(Ruling(value).text)  # type: ignore[arg-type]


def test_as_printed_an_answer_is_a_sentence_by_itself():
    """The same calls, but correctness has no question, so equal answers are judged once."""
    two = rollout("g", 0, "Claim.", "Text.", [Cycle("Who?", "Ilva."), Cycle("When?", "Ilva.")])
    pairs, alone = needed_calls(two), needed_calls(two, sentences=True)
    correct = {call for call in alone.values() if call.task == "correctness"}
    assert {JudgeCall("correctness", "Text.", answers=("Ilva.",))} == correct
    others = [call for call in pairs.values() if call.task != "correctness"]
    assert others == [call for call in alone.values() if call.task != "correctness"]


def test_a_table_with_two_rulings_or_a_foreign_value_is_refused():
    """A contradiction is not resolved by row order, and no value is guessed.

    Rows of two rollouts of one group and number could not be told apart.
    """
    one = one_cycle()
    rulings = answered(TEXTS)
    frame = calls_frame([one], needed([one]), rulings, "toy")
    twice = pl.concat([frame, frame.with_columns(value=pl.lit("Refuted"))])
    with pytest.raises(SchemaError, match="4 calls"):
        rulings_from_frame(twice)
    with pytest.raises(EngineError, match="contract"):
        rulings_from_frame(frame.with_columns(value=pl.lit("perhaps")))
    with pytest.raises(SchemaError, match="rows repeat"):
        calls_frame([one, one], needed([one, one]), rulings, "toy")


def test_parsing_and_planning_take_less_than_a_millisecond_a_rollout():
    """512 rollouts of three cycles on evidence of 3,000 words (issue: under 1 ms each)."""
    evidence = "Ilva bridge was opened in 1921 by Torbeck. " * 400
    parts = [Cycle(f"Who built bridge {i}?", f"Torbeck built bridge {i}.", "So.") for i in range(3)]
    text = write_trace(build_trace("Look.", parts, "Supported"))
    start = time.process_time()
    traces = [parse_trace(f"{text}\n") for _ in range(512)]
    batch = [Rollout(f"g{n // 8}", n, "Ilva.", evidence, one) for n, one in enumerate(traces)]
    assert 13 == len({call for calls in needed(batch) for call in calls.values()})
    assert (time.process_time() - start) / 512 < 1e-3


def test_what_an_unread_full_set_decides_is_not_asked():
    """Its leave-one-out verdicts are neither called nor tabled; the other claim's are."""
    parts = [Cycle("Who?", "Ilva."), Cycle("When?", "In 1921.")]
    batch = [rollout(f"claim {n}", n, *CLAIMS[n], parts) for n in range(2)]
    batches = list[Sequence[JudgeCall]]()

    def judged(calls: Sequence[JudgeCall]) -> list[Ruling]:
        batches.append(calls)
        lost = CLAIMS[1][0], 2
        return [
            Ruling(None, "cut") if lost == (call.claim, len(call.answers)) else ruling_of(call)
            for call in calls
        ]

    judge: Judge = SimpleNamespace(engine="losing", judge=judged)  # type: ignore[assignment]
    rulings = rulings_on(needed(batch), judge)
    assert ([14, 2], 16) == ([len(calls) for calls in batches], len(rulings))
    assert {CLAIMS[0][0]} == {call.claim for call in batches[1]}
    assert ["Supported", None] == [signals(one, rulings).full for one in batch]
    table = calls_frame(batch, needed(batch), rulings, "losing").filter(role="leave_one_out")
    assert ["claim 0"] * 2 == table["group"].to_list()
    rulings_on([{("coverage", 0): calls["coverage", 0]} for calls in needed(batch)], judge)
    assert [0, 2] == [len(calls) for calls in batches[2:]]
