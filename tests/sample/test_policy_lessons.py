"""Lessons of the warm start: clean traces are right in all they say, flaws are the planned ones."""

import random
import re
from collections import Counter
from functools import cache
from itertools import islice
from pathlib import Path

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES, benchmark_of, source_of
from decomposerl.claims.load import LoadSettings, load_benchmark, load_source
from decomposerl.rewards.scoring import RewardedBatch, reward_rollouts
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.grammar import parse_trace, write_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.training.experiment import EvidenceView
from fakes import BagOfWordsEmbedder
from resources.corpora.folder import FolderCorpora
from resources.judge.rule_judge import RuleJudge
from resources.policy_tiny.folder import VIEW
from sample import Sample
from sample.policy_flaws import TraceBlock, flawed
from sample.policy_lessons import HELD, MISSING, Lesson, lessons
from studies.tiny_policy.warm_start import WarmStart
from toy_corpus import write_sample

SEED = WarmStart().seed
OPENINGS = ("Reportedly, ", "Records ", "Public ")
_CAPITAL = re.compile(r"\b[A-Z][\w-]+")


def some(seed: int = SEED, count: int = 400, flaws: float = 0.0) -> list[Lesson]:
    return list(islice(lessons(seed, VIEW, flaws), count))


@cache
def clean() -> list[Lesson]:
    return some()


@cache
def with_flaws() -> list[Lesson]:
    return some(SEED + 1, 1_200, 1.0)


def names(texts: list[str], common: set[str]) -> list[set[str]]:
    """Words with a capital but for those that everybody uses; the first word is no evidence."""
    return [set(_CAPITAL.findall(text[1:])) - common for text in texts]


def everybodys() -> set[str]:
    """Words that two other worlds have both: no names, but parts of forms and titles."""
    first, second = ({*_CAPITAL.findall(str(some(seed)))} for seed in (901, 902))
    return first & second


def judged(made: list[Lesson]) -> RewardedBatch:
    """The lessons scored by the rule judge, for which the view is the document."""
    rollouts = [
        Rollout(str(index), 0, one.claim, one.view, parse_trace(one.trace), one.label, 2)
        for index, one in enumerate(made)
    ]
    return reward_rollouts(rollouts, RuleJudge(), BagOfWordsEmbedder(), RewardSettings())


def test_the_same_arguments_give_the_same_lessons():
    """However many are drawn; another seed, view or share of flaws gives others."""
    assert clean() == some()
    assert clean()[:7] == some(count=7)
    assert some(flaws=0.5, count=50) == some(flaws=0.5, count=50)
    assert not {one.claim for one in clean()} & {one.claim for one in some(SEED + 1)}
    wide = list(islice(lessons(SEED, EvidenceView(3), 0.0), 50))
    assert max(len(one.view.splitlines()) for one in wide) == 3
    assert max(len(one.view.splitlines()) for one in clean()) == 2


def test_clean_traces_have_no_fault():
    """A clean trace is its own canonical text; its opening is the claim, taken apart.

    Each part has a number, and an "it" for a subject named elsewhere.
    """
    for one in clean():
        trace = parse_trace(one.trace)
        assert () == trace.faults
        assert one.trace == write_trace(trace)
        assert ("", one.label) == (one.flaw, trace.verdict)
        opening = str(trace.opening)
        assert one.claim == re.sub(r"\(2\) (it )?", "", opening.removeprefix("(1) "))
        assert ["1", "2"][: parts(one)] == re.findall(r"\((\d)\)", opening)
    assert {2, 3} == {len(parse_trace(one.trace).cycles) for one in clean()}
    assert {1, 2} == {parts(one) for one in clean()}


def parts(lesson: Lesson) -> int:
    """How many questions a trace asks for the first time."""
    return lesson.trace.count("<question>Is it true that")


def marks(lesson: Lesson) -> list[list[tuple[str, str]]]:
    """Of each thought on a part of the claim: the last words of what is marked, and the mark."""
    thoughts = [block.text for block in parse_trace(lesson.trace).blocks if block.kind == "think"]
    return [re.findall(rf"(\S+) ({HELD}|{MISSING})", thought) for thought in thoughts[1:-1]]


def test_a_thought_holds_a_part_of_the_claim_against_the_evidence():
    """Marks say what the evidence has, but for few that it has elsewhere; answers follow them."""
    misses, things = 0, 0
    for one in clean():
        trace = parse_trace(one.trace)
        for cycle, marked in zip(trace.cycles, marks(one), strict=True):
            assert cycle.answer.startswith("No, ") == (
                MISSING in {finding for _, finding in marked}
            )
            misses += sum((finding == HELD) != (last in one.view) for last, finding in marked)
            things += len(marked)
        assert trace.cycles[-1].thought == "All is checked."
    assert things > 4 * len(clean())
    assert misses < 0.08 * things


def test_questions_and_answers_say_a_part_of_the_claim_word_for_word():
    """But for an "it" in front of a subject named elsewhere; a refuted claim alone has a No."""
    for one in clean():
        rulings = set()
        for cycle in parse_trace(one.trace).cycles:
            frame, part = cycle.question[:-1].split(" that ", 1)
            assert frame in {"Is it true", "Is it right"}
            assert part.removeprefix("it ") in one.claim
            yes, no = f"Yes, it is true that {part}.", f"No, it is not true that {part}."
            assert cycle.answer in {yes, no}
            rulings.add(cycle.answer == yes)
        assert (False in rulings) == (one.label == "Refuted")


def test_both_labels_and_both_numbers_of_questions_are_common():
    """Neither a constant verdict nor a constant length is worth imitating."""
    assert {"Supported", "Refuted"} == {one.label for one in clean()}
    prose = [one for one in clean() if " | " not in one.view]
    refuted = sum(one.label == "Refuted" for one in prose) / len(prose)
    assert 0.42 <= refuted <= 0.58
    double = [one for one in clean() if parts(one) == 2]
    longer = sum(len(parse_trace(one.trace).cycles) == 3 for one in double) / len(double)
    assert 0.42 <= longer <= 0.58
    single = [one for one in clean() if parts(one) == 1]
    assert {2} == {len(parse_trace(one.trace).cycles) for one in single}
    assert len({one.claim for one in clean()}) == len(clean())


def test_names_are_not_those_of_the_bundled_sample(sample: Sample, tmp_path: Path):
    """No claim is the sample's; less than 1 % have only names of the sample."""
    files, common = FolderCorpora(write_sample(sample, tmp_path)), everybodys()
    every_load = [load_source(one, benchmark_of(one), files, LoadSettings()) for one in SOURCES]
    every_load += [load_benchmark(one, source_of(one), files, LoadSettings()) for one in BENCHMARKS]
    made = [claim for one in every_load for claim in one.claims["claim"]]
    assert len(made) > 2_000
    theirs = set().union(*names(made, common))
    mine = names([one.claim for one in clean() + some(SEED + 1)], common)
    assert not set(made) & {one.claim for one in clean()}
    assert sum(bool(each) and each <= theirs for each in mine) < 0.01 * len(mine)
    every = set().union(*mine)
    assert len(every) > 1_500
    assert len(every & theirs) < 0.02 * len(every)


def test_the_rewards_hold_clean_traces_for_right():
    """Form and verdict earn everything; the rules see most claims covered and questions needed."""
    scores = judged(clean()[:120]).results
    assert {1.0} == {score.value for score in scores["format"]}
    assert {1.0} == {score.value for score in scores["verification"]}
    assert {1.0, 0.5} >= {score.value for score in scores["question_count"]}
    covered = [score.value for score in scores["coverage"]]
    assert covered.count(1.0) > 0.65 * len(covered)


def test_claims_come_in_the_forms_of_the_sample():
    """Tables that support what is said of them, titled sentences, other openings and endings."""
    tables = [one for one in clean() if " | " in one.view]
    assert {"Supported"} == {one.label for one in tables}
    whole, prose = len(clean()), [one for one in clean() if one not in tables]
    shares = {
        "tables": len(tables) / whole,
        "titled": sum(": " in one.view.split("\n")[0] for one in prose) / len(prose),
        "opened": sum(one.claim.startswith(OPENINGS) for one in clean()) / whole,
        "ended": sum(not re.search(r"[^ ]\.$", one.claim) for one in clean()) / whole,
    }
    bounds = {"tables": (0.07, 0.17), "titled": (0.3, 0.5), "opened": (0.03, 0.12)}
    bounds |= {"ended": (0.02, 0.12)}
    assert {} == {
        name: share for name, share in shares.items()
        if not bounds[name][0] <= share <= bounds[name][1]
    }  # fmt: skip


def test_flaws_cost_what_the_rewards_pay_for():
    """Clean traces earn 1 for form and verdict; each kind of flaw loses on a reward of its own."""
    earned = {}
    for kind in ("coin", "unsaid", "malformed"):
        made = [one for one in with_flaws() if one.flaw == kind][:60]
        for name, scores in judged(made).results.items():
            earned[kind, name] = sum(score.value or 0 for score in scores) / len(scores)
    assert earned["coin", "verification"] < 0.7
    assert earned["coin", "format"] == earned["malformed", "verification"] == 1.0
    assert earned["unsaid", "verification"] < 0.75  # a verdict without its closing tag is read
    assert 0.5 < earned["unsaid", "format"] < 0.95
    assert 0.5 < earned["malformed", "format"] < 0.95


def test_flaws_come_by_their_weights_and_share():
    """Four of seven lack a proper verdict, two have one by coin, one is malformed elsewhere."""
    counts = Counter(one.flaw for one in with_flaws())
    weights = {"coin": 2 / 7, "unsaid": 4 / 7, "malformed": 1 / 7}
    assert set(weights) == set(counts)
    for kind, share in weights.items():
        assert abs(counts[kind] / len(with_flaws()) - share) < 0.06  # four standard deviations
    mixed = some(flaws=0.8, count=800)
    assert abs(sum(bool(one.flaw) for one in mixed) / len(mixed) - 0.8) < 0.06
    assert all(() == parse_trace(one.trace).faults for one in mixed if not one.flaw)


def found_faults(kind: str) -> Counter[str]:
    """The faults of all traces with a flaw of that kind, each once a trace."""
    found = Counter[str]()
    for one in (one for one in with_flaws() if one.flaw == kind):
        found.update({fault.kind for fault in parse_trace(one.trace).faults} or {"none"})
    return found


def test_each_flaw_is_a_fault_of_its_own():
    """A coin changes the verdict alone; a verdict or another block is gone, open or twice.

    Only a thought that is written twice or not at all is no fault.
    """
    assert {"none"} == set(found_faults("coin"))
    coins = [one for one in with_flaws() if one.flaw == "coin"]
    wrong = sum(parse_trace(one.trace).verdict != one.label for one in coins)
    assert 0.4 <= wrong / len(coins) <= 0.6
    unsaid, malformed = found_faults("unsaid"), found_faults("malformed")
    assert {"no_verdict", "unclosed"} <= set(unsaid)
    assert unsaid["none"] == 0
    assert {"unclosed", "unanswered", "answer_without_question"} <= set(malformed)
    assert malformed["no_verdict"] == 0
    assert malformed["none"] < 0.3 * sum(one.flaw == "malformed" for one in with_flaws())


BLOCKS = [
    TraceBlock("think", "I look."),
    *(
        TraceBlock(kind, f"{kind} {turn}")
        for turn in (1, 2)
        for kind in ("question", "answer", "think")
    ),
    TraceBlock("verification", "Supported"),
]


def test_a_flaw_leaves_the_other_blocks_as_they_were():
    """One verdict or one other block is touched, never the text of another."""
    for seed in range(200):
        kind, made = flawed(random.Random(seed), BLOCKS)
        if kind == "coin":
            assert made[:-1] == BLOCKS[:-1]
            assert made[-1].text in {"Supported", "Refuted"}
        else:
            assert (made[: len(BLOCKS) - 1] == BLOCKS[:-1]) == (kind == "unsaid")
            open_or_gone = Counter(BLOCKS) - Counter(made)
            twice_or_open = Counter(made) - Counter(BLOCKS)
            assert sum(open_or_gone.values()) <= 1
            assert sum(twice_or_open.values()) <= 1
            assert made != BLOCKS
