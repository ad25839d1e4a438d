"""What a third verdict must not change, and how its parts are written: prompts, recipes, grammar.

Without its two settings (``label_rule = keep_middle``, ``verdict_rule = three_way``) every digest
that stored results and runs are found by is what it was.
"""

import hashlib
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.baselines.catalogue import METHODS
from decomposerl.baselines.method import ModelReply
from decomposerl.errors import ConfigError, SchemaError
from decomposerl.prompts.template import PromptSettings, VerdictRule
from decomposerl.rewards.settings import STRICT
from decomposerl.schemas import CLAIMS, VERDICTS, WRITTEN, Verdict
from decomposerl.traces.grammar import build_trace, labels_behind, parse_trace
from decomposerl.traces.trace import Cycle
from decomposerl.training.experiment import CLEAN_POLICY
from decomposerl.training.experiments import experiment
from resources.policy_tiny.folder import VIEW
from resources.store.prompts import load_prompt
from sample.policy_lessons import lessons
from strategies import LAW
from studies.tiny_policy.warm_start import SETTINGS, ThirdVerdict
from training_graph import claims

THIRD = WRITTEN["NotEnoughInfo"]
PROMPTS = (
    *("again", "answerability", "atomicity", "chen_2024", "claimdecomp", "continuation"),
    *(
        "correctness",
        "cot_examples",
        "coverage",
        "decomposed_prompting",
        "few_shot",
        "folk",
        "hiss",
    ),
    *("minicheck", "policy", "program_fc", "qacheck", "self_ask", "silver", "simple_examples"),
)
OF_PROMPTS: dict[VerdictRule, str] = {"evidence": "62cc6c6358834480", "paper": "6b900602b3cf095d"}
OF_RECIPES = {
    "paper_7b": "dca2033458b5f64d",
    "supervision_10": "c5ef52215fa5b5d3",
    "no_coverage": "ba3f0b764b837b8a",
    "tiny_judge": "a2219059dbe400ca",
    "tiny": "9de742a506235c58",
    "tiny_strict": "c932f452fe1ea9c4",
    "tiny_clean": "dbf55adcc7873560",
    "tiny_vote_policy": "15a5552df563f204",
    "smol": "cbcacc27ecd9db81",
}
LESSONS = "aa76ffcea19893fdf28f740c9085e8208d95c7f95a8323825f1405ec85d74329"


def test_prompts_recipes_and_lessons_of_two_labels_are_byte_equal_to_those_before():
    """Their digests are in the keys of stored replies, predictions and runs.

    Lessons made the committed checkpoints.
    """
    for rule, expected in OF_PROMPTS.items():
        digests = (load_prompt(name, "", PromptSettings(rule)).digest for name in PROMPTS)
        assert expected == hashlib.sha256("".join(digests).encode()).hexdigest()[:16]
    assert OF_RECIPES == {name: experiment(name).digest for name in OF_RECIPES}
    made = hashlib.sha256()
    for seed, flaws in ((20, 0.0), (21, 0.8)):
        for one in islice(lessons(seed, VIEW, flaws), 300):
            made.update(repr((one.claim, one.view, one.trace, one.label, one.flaw)).encode())
    assert LESSONS == made.hexdigest()


def test_a_prompt_offers_the_third_verdict_where_the_method_may_give_it():
    """In every section that asks for a verdict, and in no other method's under any rule."""
    for method in METHODS:
        if not method.three_way or not method.prompt:
            continue
        three, two = (
            load_prompt(method.prompt, "", PromptSettings(rule, demonstrations=0)).sections
            for rule in ("three_way", "evidence")
        )
        asking = [section for section, text in two.items() if "There is no third answer." in text]
        assert asking, method.name
        for section in asking:
            rest = three[section].replace(f"{THIRD}: it contradicts", "")
            assert THIRD in rest, section
            assert "Supported or Refuted" not in rest
            assert "no third answer" not in rest
        assert not any(THIRD in text for text in two.values())
    policy = load_prompt("policy", "", PromptSettings("three_way")).sections["prompt"]
    assert 2 == policy.count(f"Supported, Refuted or {THIRD}")
    assert f"{THIRD}: it contradicts no part" in policy
    assert "two words" not in policy.replace("\n", " ")


@LAW
@given(st.sampled_from((None, *VERDICTS)), st.lists(st.sampled_from("abc"), max_size=3))
def test_a_three_way_trace_reads_as_it_was_written(verdict: Verdict | None, asked: list[str]):
    """And two-way the third verdict is an unknown one, so the trace has none."""
    cycles = [Cycle(f"Is {one} so?", "I don't know.", "So.") for one in asked]
    trace = build_trace("Look.", cycles, verdict, VERDICTS)
    assert verdict == trace.verdict
    text = "\n".join(f"<{block.kind}>{block.text}</{block.kind}>" for block in trace.blocks)
    assert trace == parse_trace(text, VERDICTS) == parse_trace(text, labels_behind("NotEnoughInfo"))
    two = parse_trace(text)
    assert (None if verdict == "NotEnoughInfo" else verdict) == two.verdict
    faults = {fault.kind for fault in two.faults}
    assert (verdict == "NotEnoughInfo") == ("unknown_verdict" in faults)


@pytest.mark.parametrize("text", ["Not Enough Information", "Verdict: not enough info.", "Unknown"])
def test_a_reply_has_the_third_verdict_only_where_its_prompt_offered_it(text: str):
    """One reader for every system; two labels and it says nothing."""
    assert "NotEnoughInfo" == ModelReply(text, labels=VERDICTS).verdict
    assert ModelReply(text).verdict is None
    assert "Refuted" == ModelReply("Verdict: Refuted", labels=VERDICTS).verdict


def test_a_claim_has_the_third_label_under_its_rule_alone():
    """Another rule with it, or another word, is refused where a table is written or read."""
    frame = claims(CLAIMS, 2)
    third = frame.with_columns(label=frame["label"].clear().extend_constant("NotEnoughInfo", 2))
    with pytest.raises(SchemaError, match="keep_middle"):
        CLAIMS.conform(third)
    kept = third.with_columns(label_rule=frame["label"].clear().extend_constant("keep_middle", 2))
    assert kept.equals(CLAIMS.conform(kept))
    odd = frame.with_columns(label=frame["label"].clear().extend_constant("Mixed", 2))
    with pytest.raises(SchemaError, match="'Mixed'"):
        CLAIMS.conform(odd)


def test_a_recipe_does_not_read_silence_as_a_refutation_and_as_a_verdict():
    """The two readings contradict each other; the message names both."""
    three = experiment("tiny_three_way")
    with pytest.raises(ConfigError, match=r"silence.*verdict_rule"):
        replace(three, rewards=STRICT)
    assert three.digest != replace(three, verdict_rule="evidence").digest


def test_the_third_verdict_is_taught_by_claims_over_evidence_that_does_not_say():
    """Their traces say so part by part, and name nothing as found; the others are as right."""
    settings = SETTINGS["base_policy_three_way"]
    assert isinstance(settings, ThirdVerdict)
    assert CLEAN_POLICY == settings.start
    drawn = list(islice(lessons(settings.seed, VIEW, unknown=0.5), 120))
    third = [one for one in drawn if one.label == "NotEnoughInfo"]
    assert 30 < len(third) < 90
    for one in drawn:
        trace = parse_trace(one.trace, VERDICTS)
        assert not trace.faults
        assert one.label == trace.verdict
        answers = {cycle.answer for cycle in trace.cycles}
        assert (answers == {"I don't know."}) == (one.label == "NotEnoughInfo")
        assert ("✓" in one.trace) or one.label != "Supported"
    assert not any("✓" in one.trace for one in third)
