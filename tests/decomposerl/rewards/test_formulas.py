"""Every branch of the formulas and readings by hand; verdicts stand by their initials."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import ConfigError
from decomposerl.rewards.coverage import coverage, pseudo_label
from decomposerl.rewards.diversity import diversity
from decomposerl.rewards.format import (
    CONDITIONS,
    conditions_met,
    format_reward,
    question_count,
    verification,
)
from decomposerl.rewards.joint import joint
from decomposerl.rewards.necessity import necessity
from decomposerl.rewards.quotes import quotes
from decomposerl.rewards.readings import asks_about_part, restates
from decomposerl.rewards.reward import RewardCase, RewardResult, Role, Signals
from decomposerl.rewards.scoring import planned_calls, role_of
from decomposerl.rewards.settings import PRINTED, STRICT, RewardSettings
from decomposerl.schemas import LABELS, VERDICTS, Verdict
from decomposerl.traces.grammar import build_trace, parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle
from decomposerl.training.experiments import RECIPES
from reward_parts import (
    ALL_MET,
    NEI,
    PLAIN,
    R,
    S,
    case,
    cycles,
    groups,
    numbered,
    rollout,
    signals,
    states,
    unit,
    values,
    vectors,
)
from strategies import LAW

THINK, WHO, WHEN = "<think>a</think>", "<question>Who?</question>", "<question>When?</question>"
ONE, TWO = f"{WHO}<answer>Ilva.</answer>", f"{WHEN}<answer>1921.</answer>"
END = "<verification>Supported</verification>"
GOOD = f"{THINK}{ONE}{THINK}{TWO}{THINK}{END}"
OPENS, ASKS, ANSWERED, THOUGHT, PAIRS, VERDICT, LABEL, TAGS = (name for name in CONDITIONS)


FORMATS: tuple[tuple[tuple[str, ...], str], ...] = (
    ((), GOOD),
    ((), GOOD.replace("Supported", " refuted\n")),
    ((), THINK + GOOD),
    ((OPENS,), GOOD.removeprefix(THINK)),
    ((ASKS,), GOOD.replace("When?", "Who?")),
    ((ANSWERED,), GOOD.replace(END, f"<question>Why?</question>{THINK}{END}")),
    ((ANSWERED,), GOOD.replace(END, f"<answer>No.</answer>{THINK}{END}")),
    ((THOUGHT,), f"{THINK}{ONE}{TWO}{THINK}{END}"),
    ((THOUGHT,), f"{THINK}{ONE}{THINK}{TWO}{END}"),
    ((PAIRS,), f"{THINK}{ONE}{THINK}{END}"),
    ((VERDICT,), GOOD + END),
    ((VERDICT,), GOOD + THINK),
    ((LABEL,), GOOD.replace("Supported", "Mostly Supported")),
    ((LABEL,), GOOD.replace("Supported", "NotEnoughInfo")),
    ((TAGS,), f"Sure: {GOOD}"),
    ((TAGS,), f"{GOOD} Done."),
    ((TAGS,), f"{GOOD}</answer>"),
    ((TAGS,), GOOD.replace("1921.", "1921. <Think>")),
    ((TAGS,), GOOD.replace(f"{THINK}{ONE}", f"<think>a{ONE}")),
    ((TAGS,), f"{THINK}<think> </think>" + GOOD.removeprefix(THINK)),
    ((OPENS, TAGS), "<think></think>" + GOOD.removeprefix(THINK)),
    ((VERDICT, LABEL), GOOD.removesuffix(END)),
    ((VERDICT, LABEL), GOOD + END.replace("Supported", "Refuted")),
    ((VERDICT, LABEL, TAGS), GOOD.removesuffix("</verification>")),
    ((ANSWERED, PAIRS, VERDICT, LABEL), f"{THINK}{ONE}{THINK}{WHEN}"),
    ((ASKS, ANSWERED, THOUGHT, PAIRS), THINK + END),
    (tuple(name for name in CONDITIONS), "The claim is supported."),
    (tuple(name for name in CONDITIONS), ""),
)


def formats(text: str, settings: RewardSettings) -> list[float | None]:
    """The format reward of a text."""
    asking = RewardCase(Rollout("g", 0, "c", "e", parse_trace(text)), signals(0))
    return values(format_reward([asking], settings))


def test_format_conditions():
    """Each condition falls alone, those that hang together fall together; each is an eighth."""
    for broken, text in FORMATS:
        expected = tuple(name for name in CONDITIONS if name not in broken)
        assert expected == conditions_met(parse_trace(text)), text
        assert [(8 - len(broken)) / 8] == formats(text, PLAIN)


PRINTED_FORMATS = (
    (3, GOOD),
    (3, GOOD.removeprefix(THINK)),  # nothing is said of thoughts, nor of text outside the tags
    (3, f"Sure: {THINK}{ONE}{END}"),
    (2, GOOD.replace("Supported", "Mostly Supported")),
    (2, GOOD + END.replace("Supported", "Refuted")),
    (2, GOOD.replace(END, f"{WHEN}{END}")),
    (2, GOOD.replace("1921.", "1921. <Think>")),
    (2, THINK + END),
    (1, GOOD.removesuffix(END) + "</answer>"),
    (0, "The claim is supported."),
)


def test_the_printed_format():
    """A third each for well-formed XML, questions and answers in turn, a valid final verdict."""
    for met, text in PRINTED_FORMATS:
        assert [met / 3] == formats(text, PRINTED), text


def test_the_printed_diversity():
    """-(1/1) * an empty sum is 0 for one question; -cos/2 for two; without one there is no sum."""
    cases = [
        RewardCase(rollout(0), signals(0)),
        RewardCase(rollout(1), signals(1), unit((1, 0))),
        RewardCase(rollout(2), signals(2), unit(*SIXTY)),
    ]
    assert pytest.approx([-1, 0, -1 / 4]) == values(diversity(cases, PRINTED))


QUOTED = (
    ('The page says "the mill was built in 1857 by Ada Moss".', 1),
    ("The mill was built in 1857 by Ada Moss. So it is old.", 1),
    ('In 1858 "the mill was built in 1857 by Ada Moss".', 0),  # another figure
    ('Ada Moss of Turin: "it was sold in the spring".', 0),  # names of another sentence
    ("Ada Moss built the mill in 1857.", 0),  # in other words
    ("I don't know.", None),
)


def test_quotes():
    """The share of answers that quote a sentence with all of their figures and names."""
    evidence = "The mill was built in 1857 by Ada Moss. It was sold in the spring."
    parts = [Cycle("When was the mill built?", answer, "On.") for answer, _ in QUOTED]
    for number, (_, expected) in enumerate(QUOTED):
        asking = replace(rollout(parts[number : number + 1]), evidence=evidence)
        (found,) = quotes([RewardCase(asking, signals(1))], PLAIN)
        assert (expected, expected or 0.0) == (found.questions[0].value, found.value)
    whole = RewardCase(replace(rollout(parts), evidence=evidence), signals(6))
    assert [2 / 5] == values(quotes([whole], PLAIN))
    assert [0.0] == values(quotes([replace(whole, too_long=True)], PLAIN))


def test_verification():
    """The label or not; no verdict misses, and without a label nothing is there to reach.

    Who says both has said neither.
    """
    for drawn, expected in rows_of("SS 1, RR 1, SR 0, RS 0, -R 0, S- -, -- -"):
        verdict, label = verdicts(drawn)
        result = RewardResult(number(expected), "scored" if label else "absent")
        assert [result] == verification([case(verdict=verdict, label=label)], PLAIN), drawn
    trace = parse_trace(GOOD + END.replace("Supported", "Refuted"))
    both = [Rollout("g", 0, "c", "e", trace, label) for label in (S, R)]
    assert [0.0, 0.0] == values(verification([RewardCase(r, signals(2)) for r in both], PLAIN))


def test_question_count_kernel():
    """The triangle: 0 at n = 0, 1 at n*, 0 from 2 n* on.

    Where the claim has no n* the reward is absent; an n* of 0 is refused.
    """
    table = (
        "0 2 0, 1 2 1/2, 2 2 1, 3 2 1/2, 4 2 0, 5 2 0, 1 3 1/3, 4 3 2/3, 5 3 1/3, 1 1 1, 2 1 0, "
        "41 20 0, 19 20 19/20"
    )
    for drawn, wanted, expected in rows_of(table):
        asking = rollout(int(drawn), n_star=int(wanted))
        (found,) = question_count([RewardCase(asking, signals(int(drawn)))], PLAIN)
        assert pytest.approx(number(expected)) == found.value, (drawn, wanted)
    absent = RewardCase(rollout(2, n_star=None), signals(2))
    assert [RewardResult(None, "absent")] == question_count([absent], PLAIN)
    with pytest.raises(ValueError, match="n\\* is 0"):
        question_count([RewardCase(rollout(2, n_star=0), signals(2))], PLAIN)


SIXTY = ((1, 0), (0.5, 3**0.5 / 2))
THIRDS = ((1, 0), (-0.5, 3**0.5 / 2), (-0.5, -(3**0.5) / 2))


DIVERSITIES: tuple[tuple[float, list[float], tuple[tuple[float, float], ...]], ...] = (
    (0.0, [0, 0], ((1, 0), (0, 1))),
    (-1 / 2, [0, -1], ((1, 0), (1, 0))),
    (1 / 2, [0, 1], ((1, 0), (-1, 0))),
    (-1 / 4, [0, -0.5], SIXTY),
    (-2 / 3, [0, -1, -1], ((1, 0), (1, 0), (1, 0))),
    (-1 / 3, [0, 0, -1], ((1, 0), (0, 1), (1, 0))),
    (-1.4 / 3, [0, -0.6, -0.8], ((1, 0), (0.6, 0.8), (0, 1))),
    (-0.96 / 3, [0, 0, -0.96], ((1, 0), (0, 1), (0.28, 0.96))),
    (1 / 3, [0, 0.5, 0.5], THIRDS),
    (-3 / 4, [0, -1, -1, -1], ((0, 1),) * 4),
)


def test_diversity_by_hand():
    """Each question from the second on pays its cosine to the nearest earlier one, over n.

    Read literally a single question would score 0, the best; it scores -1.
    """
    for expected, nearest, rows in DIVERSITIES:
        asking = RewardCase(rollout(len(rows)), signals(len(rows)), unit(*rows))
        (found,) = diversity([asking], PLAIN)
        assert pytest.approx(expected, abs=1e-6) == found.value
        assert pytest.approx(nearest, abs=1e-6) == [one.value for one in found.questions]
        assert ["first", *["compared"] * (len(rows) - 1)] == states(found)
    alone = [RewardCase(rollout(0), signals(0)), RewardCase(rollout(1), signals(1), unit((1, 0)))]
    assert [-1.0, -1.0] == values(diversity(alone, PLAIN))
    assert [[], ["alone"]] == [states(score) for score in diversity(alone, PLAIN)]


def test_vectors_that_are_not_as_they_should_be():
    """A rounding error gives no cosine above 1, right angles a plain 0; all else is refused.

    Vectors that are not one a question, and numbers that are none, are a fault of the caller.
    """
    long = np.full((2, 2), np.float32(1.00001))
    assert [-0.5] == values(diversity([RewardCase(rollout(2), signals(2), long)], PLAIN))
    (apart,) = diversity([RewardCase(rollout(2), signals(2), unit((1, 0), (0, 1)))], PLAIN)
    assert "0.0 0.0" == f"{apart.value} {apart.questions[1].value}"
    broken = [np.array([[1.0, 0.0], [odd, 0.0]], dtype=np.float32) for odd in (np.nan, np.inf)]
    for wrong in (None, unit((1, 0)), unit((1, 0), (0, 1), (1, 1)), *broken):
        with pytest.raises(ValueError, match=r"2 question vectors|not finite"):
            diversity([RewardCase(rollout(2), signals(2), wrong)], PLAIN)


LITERAL = RewardSettings(abstention="literal")
POLICY, MEAN = RewardSettings(votes="policy"), RewardSettings(necessity="mean")
OF = {"S": S, "R": R, "N": NEI, "-": None}


def verdicts(letters: str) -> list[Any]:
    """Verdicts by their initials; a dash is none."""
    return [OF[letter] for letter in letters.strip("=")]


def number(text: str) -> float | None:
    """A number or fraction; a dash is none."""
    return None if text == "-" else float(Fraction(text))


def rows_of(table: str) -> list[list[str]]:
    """The rows of a table, parted by commas."""
    return [row.split() for row in table.split(",")]


def test_coverage_with_a_label():
    """The judge's verdict or not; too little information is no label, a failure is no score.

    With a label the trace's own verdict and the siblings play no part.
    """
    for ruled, expected in rows_of("SS 1, RR 1, RS 0, SR 0, NS 0, NR 0, -S -"):
        full, label = verdicts(ruled)
        (found,) = coverage([case(full, label=label)], PLAIN)
        assert RewardResult(number(expected), "failed" if full is None else "scored") == found
    wrong = case(S, verdict=R, label=S)
    assert [1.0, 0.0, 0.0] == values(coverage([wrong, case(R), case(R)], PLAIN))


def test_coverage_without_a_label():
    """The group's majority among the two labels stands in; ties and no votes pay nobody.

    Rollouts that were cut (small letters) turn no majority and make no tie; they are scored by it.
    """
    table = (
        "S SSR 110, R SRR 011, S SNNN 1000, R NR- 01-, - SR 00, - SRNSR 00000, - NN 00, "
        "- S-R 0-0, - - -, S S 1, S rrS 001, - RSs 000, - rr 00"
    )
    for majority, full, expected in rows_of(table):
        cases = [
            case(ruled, label=None, truncated=letter.islower())
            for ruled, letter in zip(verdicts(full.upper()), full, strict=True)
        ]
        assert verdicts(majority) == [pseudo_label(cases, PLAIN)], full
        assert [number(one) for one in expected] == values(coverage(cases, PLAIN)), full


def test_whose_verdicts_vote():
    """The judge's or, by the setting, the policy's; compared is always the judge's verdict."""
    drawn = [(full, said) for full, said in map(verdicts, ("SR", "SR", "RR", "N-"))]
    cases = [case(full, verdict=said, label=None) for full, said in drawn]
    cases.append(case(R, verdict=S, label=None, truncated=True))
    assert (S, R) == (pseudo_label(cases, PLAIN), pseudo_label(cases, POLICY))
    assert [1, 1, 0, 0, 0] == values(coverage(cases, PLAIN))
    assert [0, 0, 1, 0, 1] == values(coverage(cases, POLICY))


def test_necessity_table():
    """Right or wrong with and without the answer; another verdict than the label is wrong."""
    swapped = {S: R, R: S, NEI: NEI}
    table = (
        "SR 1 necessary, SN 1 necessary, SS 1/2 redundant, RR 0 neutral, RN 0 neutral, "
        "NR 0 neutral, NN 0 neutral, RS -1 harmful, NS -1 harmful"
    )
    for ruled, expected, state in rows_of(table):
        full, without = verdicts(ruled)
        (found,) = necessity([case(full, [without, without])], PLAIN)
        every = [found.value, *(one.value for one in found.questions)]
        assert ([number(expected)] * 3, [state] * 2) == (every, states(found)), ruled
        mirrored = case(swapped[full], [swapped[without]] * 2, label=R)
        assert [found] == necessity([mirrored], PLAIN)


def test_necessity_of_a_trace():
    """The minimum over questions, or the mean; one question alone is needed if it is right.

    Without a label 1 where the verdict changes, whatever it was, else 0.
    """
    labelled = (
        "S =NRN 1 1, S =NSR 1/2 5/6, S =SS 1/2 1/2, R =NSR -1 -1/3, N =SS -1 -1, N =NR 0 0, "
        "S =N 1 1, R =N 0 0, N = 0 0"
    )
    unlabelled = "S =NR 1 1, S =NS 0 1/2, N =SN 0 1/2, R =R 0 0, R =N 1 1, N = 0 0"
    for table, label in ((labelled, S), (unlabelled, None)):
        for initial, letters, least, mean in rows_of(table):
            full, without = OF[initial], verdicts(letters)
            trace = [case(full, without, label=label)]
            (found,) = necessity(trace, PLAIN)
            assert number(least) == found.value, (initial, letters)
            assert pytest.approx([number(mean)]) == values(necessity(trace, MEAN))
            turned = ["unchanged" if one == full else "changed" for one in without]
            assert label or turned == states(found)


@pytest.mark.parametrize("label", [S, None])
@pytest.mark.parametrize("settings", [PLAIN, MEAN])
def test_necessity_without_a_ruling(label: Verdict | None, settings: RewardSettings):
    """One lost verdict leaves the trace null; the other questions keep what they are."""
    (one,) = necessity([case(S, [NEI, None, NEI], label=label)], settings)
    assert (None, "failed") == (one.value, one.state)
    kept = "necessary" if label else "changed"
    assert [kept, "failed", kept] == states(one)
    (every,) = necessity([case(None, [S, R], label=label)], settings)
    assert (None, "failed", ["failed"] * 2) == (every.value, every.state, states(every))


Rulings = tuple[bool | None, tuple[bool, ...] | None, bool | None, bool]
FOUR_OF_5, NONE_MET = (True, True, True, False, True), (False,) * 5


def asked(*rulings: Rulings) -> RewardCase:
    """A case whose questions have these: answerable, atomic, correct, abstained."""
    parts = [tuple(part) for part in zip(*rulings, strict=True)] or [()] * 4
    ruled = Signals(NEI, (NEI,) * len(rulings), *parts)
    return RewardCase(rollout(cycles(len(rulings))), ruled)


def test_joint_of_a_question():
    """The product of the three; of an abstention (a) nobody rules whether it is correct.

    Honest: what cannot be answered pays. Literal: what can be pays.
    """
    table = (
        "1 5 1 1 1, 1 4 1 4/5 4/5, 1 0 1 0 0, 0 5 1 0 0, 1 5 0 0 0, 0 0 0 0 0, "
        "0 5 a 1 0, 0 4 a 4/5 0, 0 0 a 0 0, 1 5 a 0 1, 1 4 a 0 4/5, 1 0 a 0 0"
    )
    for answerable, met, correct, *expected in rows_of(table):
        silent, criteria = correct == "a", (*ALL_MET[: int(met)], *NONE_MET[int(met) :])
        right = None if silent else correct == "1"
        one = asked((answerable == "1", criteria, right, silent))
        for settings, value in zip((PLAIN, LITERAL), expected, strict=True):
            (found,) = joint([one], settings)
            assert number(value) == found.value, (answerable, met, correct)
            assert ["abstained" if silent else "answered"] == states(found)


def test_joint_of_a_trace():
    """The mean over the questions, answered or not; no question scores 0."""
    good, partly = (True, ALL_MET, True, False), (True, FOUR_OF_5, True, False)
    wrong, silent = (True, ALL_MET, False, False), (False, ALL_MET, None, True)
    cases = [asked(good, partly, wrong, silent), asked(good, wrong), asked()]
    assert pytest.approx([2.8 / 4, 0.5, 0.0]) == values(joint(cases, PLAIN))


def test_joint_without_a_ruling():
    """A lost ruling leaves the trace null, also where another factor is 0 already."""
    good = (True, ALL_MET, True, False)
    losses: list[Rulings] = [(*good[:place], None, *good[place + 1 :]) for place in range(3)]
    losses += [(None, ALL_MET, None, True), (False, None, None, True), (False, None, False, False)]
    for lost in losses:
        (found,) = joint([asked(good, lost)], PLAIN)
        assert (None, "failed", ["answered", "failed"]) == (found.value, found.state, states(found))


traces = st.lists(st.lists(vectors, max_size=5), min_size=1, max_size=6)


def case_of(rows: list[tuple[float, ...]]) -> RewardCase:
    return RewardCase(rollout(len(rows)), signals(len(rows)), unit(*rows) if rows else None)


def by_hand(rows: list[tuple[float, ...]]) -> float:
    """The formula as a double loop over pairs."""
    if len(rows) < 2:
        return -1.0
    units = [np.array(row) / np.linalg.norm(row) for row in rows]
    nearest = [max(float(units[i] @ units[j]) for j in range(i)) for i in range(1, len(rows))]
    return -sum(nearest) / len(rows)


@LAW
@given(traces)
def test_diversity_is_its_formula(group: list[list[tuple[float, ...]]]):
    """Traces of any lengths read at once score what each scores by the double loop.

    Alone or beside others, the score is the very same number.
    """
    cases = [case_of(rows) for rows in group]
    found = diversity(cases, PLAIN)
    assert [by_hand(rows) for rows in group] == pytest.approx(values(found), abs=1e-6)
    assert [diversity([case], PLAIN)[0] for case in cases] == found


def test_an_unknown_reading_is_refused():
    """It would silently count as the other reading; the message lists what there is."""
    for field in fields(RewardSettings):
        if field.name not in {"weights", "own"}:
            with pytest.raises(ConfigError, match=f"'{field.name}' is 'max'.*{field.default}"):
                RewardSettings(**{field.name: "max"})


OPEN_CLAIM = "Ilva bridge opened in 1921 and Torbeck designed the river market."
CLAIM = "The Ilva ferry was designed by Oskar Lund in 1931."
DESIGNER, YEAR = "Who designed the Ilva ferry?", "In which year was the Ilva ferry designed?"
COPY, FILLER = "Is it true that the Ilva ferry was designed by Oskar Lund in 1931?", "Who ate?"
SILENT = "I don't know."
GROUNDED = RewardSettings(grounding="required")
REFUTES = RewardSettings(silence="refutes")
MARKED = RewardSettings(restating="marked")
PART = RewardSettings(abstention="part")
Pairs = Sequence[tuple[str, str]]
Compute = Callable[[Sequence[RewardCase], RewardSettings], list[RewardResult]]


def read_case(
    pairs: Pairs, full: str, without: str, answers: str, label: Verdict = R
) -> RewardCase:
    """Verdicts by initials; answers are + right, - wrong or ? lost.

    Abstentions are 0 open, d a dodge, a without a ruling. A label beyond the two is admitted.
    """
    claim, labels = (OPEN_CLAIM, VERDICTS) if label == NEI else (CLAIM, LABELS)
    ruled = Signals(
        full=OF[full],
        without=tuple(verdicts(without)),
        answerable=tuple({"0": False, "a": None}.get(one, True) for one in answers),
        atomic=(ALL_MET,) * len(pairs),
        correct=tuple({"+": True, "-": False}.get(one) for one in answers),
        abstained=tuple(one in "0da" for one in answers),
    )
    trace = build_trace("Look.", [Cycle(*pair, "So.") for pair in pairs], label, labels)
    return RewardCase(Rollout("g", 0, claim, "", trace, label), ruled)


def test_parts_restatements_and_other_things():
    """A part holds mostly words of the claim, and not nearly all of them."""
    again = "Did Oskar Lund design the ferry Ilva in the year 1931?"
    others = (FILLER, "What did Oskar Lund eat at the harbour?", "Which colour do ferries have?")
    kinds = {(True, False): (DESIGNER, YEAR), (False, True): (COPY, again), (False, False): others}
    for kind, questions in kinds.items():
        for question in questions:
            assert kind == (asks_about_part(CLAIM, question), restates(CLAIM, question)), question


HALF = ((DESIGNER, "Karl Mohr."), (YEAR, "In 1931."))
ALONE = ((DESIGNER, SILENT), (YEAR, "In 1931."))
BOTH, ASIDE = (
    ((DESIGNER, SILENT), (YEAR, SILENT)),
    ((COPY, "Yes."), (FILLER, SILENT), (DESIGNER, SILENT)),
)
READ = (
    # Coverage and necessity pay for grounded answers only; what is harmful stays harmful.
    (coverage, PLAIN, HALF, "R NR -+", 1.0, ""),
    (coverage, GROUNDED, HALF, "R NR -+", 0.5, ""),
    (necessity, PLAIN, HALF, "R NR -+", 0.5, "necessary redundant"),
    (necessity, GROUNDED, HALF, "R NR -+", 0.0, "ungrounded redundant"),
    (necessity, GROUNDED, HALF, "S RS -+", -1.0, "harmful neutral"),
    # An honest abstention turns NotEnoughInfo into Refuted, and is necessary if it is alone.
    (coverage, PLAIN, ALONE, "N NN 0+", 0.0, ""),
    (coverage, REFUTES, ALONE, "N NN 0+", 1.0, ""),
    (necessity, REFUTES, ALONE, "N NN 0+", 0.5, "necessary redundant"),
    (necessity, REFUTES, BOTH, "N NN 00", 0.5, "redundant redundant"),
    # A restated claim earns 0 when marked; a filler's abstention when parts alone pay.
    (joint, PLAIN, ASIDE, "S SSS +00", 1.0, "answered abstained abstained"),
    (joint, MARKED, ASIDE, "S SSS +00", 2 / 3, "restates abstained abstained"),
    (joint, PART, ASIDE, "S SSS +00", 2 / 3, "answered beside_the_claim abstained"),
    (joint, STRICT, ASIDE, "S SSS +00", 1 / 3, "restates beside_the_claim abstained"),
    # A correctness that failed makes null what a reading needs it for, and nothing else.
    (coverage, PLAIN, HALF, "R NR ?+", 1.0, ""),
    (coverage, GROUNDED, HALF, "R NR ?+", None, ""),
    (necessity, GROUNDED, HALF, "R NR ?+", None, "failed redundant"),
)


@pytest.mark.parametrize(("reward", "settings", "pairs", "ruled", "value", "said"), READ)
def test_what_a_reading_changes(
    reward: Compute,
    settings: RewardSettings,
    pairs: Pairs,
    ruled: str,
    value: float | None,
    said: str,
):
    """A value of each reading beside that of the printed formula, and what each question is."""
    (found,) = reward([read_case(pairs, *ruled.split())], settings)
    assert (value, said.split()) == (found.value, states(found))


def test_the_votes_of_an_unlabelled_group_are_read_the_same():
    """Two abstaining rollouts outvote one that supports."""
    silent = read_case(BOTH, "N", "NN", "00")
    reported = read_case([(DESIGNER, "Oskar Lund."), (YEAR, "In 1931.")], "S", "NN", "++")
    cases = numbered([silent, silent, reported])
    assert (S, R) == (pseudo_label(cases, PLAIN), pseudo_label(cases, REFUTES))


def test_the_rulings_that_a_reading_needs_are_asked_for():
    """With joint quality off, coverage may still need the rulings on each question.

    So it does where a trace may end with the third verdict, though no other reward needs them.
    """
    off = {"joint": 0.0}
    plain, strict = RewardSettings(weights=off), replace(STRICT, weights=off)
    assert {"full", "leave_one_out"} == roles(plain)
    assert {"full", "leave_one_out", "question"} == roles(strict) == roles(PLAIN)
    alone = RewardSettings(weights=off | {"necessity": 0.0})
    assert {"full"} == roles(alone)
    assert {"full", "question"} == roles(alone, VERDICTS)


def roles(settings: RewardSettings, labels: Sequence[Verdict] = LABELS) -> set[Role]:
    """Of the calls that are planned for a trace of two cycles that may end with these verdicts."""
    sampled = rollout()
    (calls,) = planned_calls(
        [replace(sampled, trace=replace(sampled.trace, labels=tuple(labels)))], settings
    )
    return {role_of(*place) for place in calls}


@LAW
@given(groups())
def test_joint_quality_never_grows_by_the_strict_readings(cases: list[RewardCase]):
    """Nor does a ruling that is there get lost by them."""
    for strict, plain in zip(joint(cases, STRICT), joint(cases, PLAIN), strict=True):
        assert strict.value <= plain.value + 1e-9


def test_the_papers_recipes_keep_the_papers_readings():
    """Every recipe with a row in the paper; only ``tiny_strict`` reads strictly."""
    for recipe in RECIPES:
        readings = replace(recipe.rewards, weights={})
        assert (readings == STRICT) == (recipe.name == "tiny_strict")
        assert readings == PLAIN or not recipe.paper


HERE, THERE = "Did Ilva bridge open in 1921?", "Did Torbeck design the river market?"
BESIDE, YES = "Who mows the lawns of Quessa castle?", "Yes, Ilva bridge opened in 1921."
SHOWN, LEFT = ((HERE, YES), (THERE, SILENT)), ((THERE, SILENT),)
OPEN = {
    # From nothing answered nothing follows.
    "nothing is asked": ((), "N = =", 0.0, "", None),
    "a dodge": (((THERE, SILENT), (HERE, SILENT)), "N NN dd", 0.0, "neutral neutral", None),
    "beside the claim": (((BESIDE, SILENT), (HERE, YES)), "N NN 0+", 0.0, "neutral neutral", None),
    "all is answered": (((HERE, YES), (BESIDE, "Ann.")), "N NN ++", 0.0, "neutral neutral", None),
    "found supported": (SHOWN, "S NS +0", 0.0, "harmful neutral", S),
    # What leaves the part open is necessary, the other one redundant.
    "a part is shown open": (SHOWN, "N NN +0", 1.0, "redundant necessary", NEI),
    "that part alone": (LEFT, "N N 0", 1.0, "necessary", NEI),
    "a ruling is lost": (LEFT, "N N a", None, "failed", None),
}


@pytest.mark.parametrize(("pairs", "ruled", "covers", "needs", "vote"), OPEN.values(), ids=OPEN)
def test_an_open_claim_pays_who_shows_it_open(
    pairs: Pairs, ruled: str, covers: float | None, needs: str, vote: Verdict | None
):
    """Coverage, necessity and the vote for the third verdict, where that is the label."""
    full, without, answers = ruled.split()
    one = read_case(pairs, full, without.strip("="), answers.strip("="), NEI)
    assert ([covers], [vote]) == (values(coverage([one], PLAIN)), [pseudo_label([one], PLAIN)])
    assert needs.split() == states(necessity([one], PLAIN)[0])


def test_the_third_verdict_meets_the_format_only_where_it_is_admitted():
    """It is one of three labels there, and an unknown verdict elsewhere; verification follows."""
    text = GOOD.replace("Supported", "Not Enough Information")
    for labels, broken, reached in ((VERDICTS, 0, 1.0), (LABELS, 1, 0.0)):
        trace = parse_trace(text, labels)
        one = RewardCase(Rollout("g", 0, OPEN_CLAIM, "", trace, NEI), signals(2))
        assert [1 - broken / 8] == values(format_reward([one], PLAIN))
        assert [reached] == values(verification([one], PLAIN))
