"""What a run will take: lengths of prompts, judge calls, memory and disk."""

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

from decomposerl.judge.plan import plan
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.training.estimate import (
    PAPER_CLAIMS,
    ClaimFacts,
    JudgeTokens,
    RunEstimate,
    calls_per_rollout,
    disk_bytes,
    estimate_run,
    longest_judge_calls,
)
from decomposerl.training.experiment import HeldOut
from decomposerl.training.experiments import PAPER_7B, experiment
from decomposerl.training.memory import ModelShape, estimate_memory, shape_of
from decomposerl.training.token_report import BY_SOURCE, LENGTHS, token_report
from resources.training.settings import lora_arguments
from strategies import LAW

QWEN_7B = {
    "model_type": "qwen2",
    "hidden_size": 3_584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18_944,
    "vocab_size": 152_064,
    "tie_word_embeddings": False,
}
QWEN_3B = QWEN_7B | {
    "hidden_size": 2_048,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "intermediate_size": 11_008,
    "vocab_size": 151_936,
    "tie_word_embeddings": True,
}
GIB = 2**30


def test_the_papers_run_asks_about_a_million_times():
    """5,464 steps of 16 completions, each 4 x 2.63 + 1 calls; held-out claims add 2 %."""
    estimate = estimate_run(PAPER_7B, PAPER_CLAIMS)
    assert (5_464, 87_424, 10_928) == (estimate.steps, estimate.completions, estimate.prompts)
    assert (1_027_768, 234_638) == (estimate.judge_calls, estimate.questions)
    assert estimate.hours is None
    assert 6.20 == pytest.approx(estimate_run(PAPER_7B, PAPER_CLAIMS, None, 4.0).hours, abs=0.01)
    training = estimate_run(replace(PAPER_7B, held_out=HeldOut()), PAPER_CLAIMS, None, 4.0)
    assert (1_007_124, 229_925, 0) == (training.judge_calls, training.questions, training.held_out)
    assert 6.07 == pytest.approx(training.hours, abs=0.01)


def test_held_out_claims_are_counted_as_often_as_they_are_sampled():
    """Both ends, and each multiple of ``every`` between them, as the monitor does."""
    thousands = HeldOut(claims=128, every=1_000)
    for held_out, steps, measured in (
        (HeldOut(), 5_464, 0),
        (HeldOut(every=10), 5_464, 0),
        (HeldOut(claims=128), 5_464, 2),
        (thousands, 5_464, 7),
        (thousands, 5_000, 6),
        (thousands, 30, 2),
    ):
        assert measured == held_out.measured(steps)
        between = {step for step in range(steps) if held_out.every and not step % held_out.every}
        assert measured == len({0, steps} | between) * bool(held_out.claims)
        chosen = replace(PAPER_7B.optimization, steps=steps)
        recipe = replace(PAPER_7B, optimization=chosen, held_out=held_out)
        estimate = estimate_run(recipe, PAPER_CLAIMS)
        assert measured * 2 * held_out.claims == estimate.held_out
        assert max(measured, 2) == estimate.adapters


CYCLE = "<question>Q{n}?</question><answer>a{n} is.</answer><think>t</think>"
TRACE = "<think>t</think>{}<verification>Supported</verification>".format(
    "".join(CYCLE.format(n=n) for n in (1, 2, 3))
)


def test_the_calls_of_a_rollout_are_those_that_the_plan_makes():
    """For three questions the bound is what the judge plan really holds, task by task."""
    planned = plan([Rollout("g", 0, "A claim.", "A document.", parse_trace(TRACE))])
    made = pl.Series([call.task for call in planned.calls]).value_counts()
    assert dict(made.rows()) == calls_per_rollout(PAPER_7B, 3.0)
    assert 13.0 == sum(calls_per_rollout(PAPER_7B, 3.0).values())


def test_what_no_reward_reads_is_not_asked():
    """Necessity needs the leave-one-out sets, joint quality the questions; both share coverage."""
    for off, calls in {
        (): 13,
        ("necessity",): 10,
        ("coverage",): 13,
        ("joint",): 4,
        ("coverage", "necessity"): 9,
        ("coverage", "necessity", "joint"): 0,
    }.items():
        settings = RewardSettings(weights=dict.fromkeys(off, 0.0))
        asked = calls_per_rollout(replace(PAPER_7B, rewards=settings), 3.0)
        assert calls == sum(asked.values()), off


@LAW
@given(st.integers(1, 9_000), st.floats(2, 20), st.floats(0, 9_000), st.floats(1, 90))
def test_amounts_add_up(claims: int, questions: float, evidence: float, claim: float):
    """Tokens are those of all calls together, and every number follows from the steps."""
    facts = ClaimFacts(claims, questions, evidence, claim)
    lengths = JudgeTokens(question=1.0, answer=1.0, around=0.0, reply=2.0)
    estimate = estimate_run(PAPER_7B, facts, lengths, 1.0)
    assert estimate.completions == 16 * estimate.steps == 8 * estimate.prompts
    sampled = estimate.completions + estimate.held_out
    assert 2 * estimate.judge_calls == estimate.judge_completion_tokens
    one = (questions + 1) * (claim + questions) + questions * (claim + 1)
    one += questions * (2 * evidence + 3)
    assert estimate.judge_prompt_tokens == pytest.approx(sampled * one, abs=1)


def test_the_longest_judge_call_holds_document_trace_and_reply():
    """The prompt around them counts too; the paper's longest evidence takes under 16,384 tokens."""
    lengths = JudgeTokens(around=280.0)
    assert [9_813 + 280 + 4_500 + 1_024] == longest_judge_calls([9_813], 4_500, 1_024, lengths)
    assert [] == longest_judge_calls([], 4_500, 1_024)


def test_a_bound_on_thinking_shortens_replies():
    """A bound above the mean thought changes the tail, which a mean does not show."""
    for most, reply in ((0, 1_000.0), (512, 632.0), (9_000, 1_000.0)):
        assert (120.0, reply) == (JudgeTokens().reply, JudgeTokens().thinking(most).reply)


def test_a_batch_used_twice_is_sampled_once():
    """With two iterations half of the steps sample nothing new; a batch that is begun is whole."""
    paper = replace(PAPER_7B, held_out=HeldOut())
    once = estimate_run(paper, PAPER_CLAIMS)
    twice = replace(paper, grpo=replace(PAPER_7B.grpo, iterations=2))
    estimate = estimate_run(twice, PAPER_CLAIMS)
    assert (10_928, 87_424) == (estimate.steps, estimate.completions)
    assert replace(once, steps=10_928) == estimate
    three = replace(twice, optimization=replace(PAPER_7B.optimization, steps=3))
    estimate = estimate_run(three, PAPER_CLAIMS)
    assert (3, 32) == (estimate.steps, estimate.completions)


def test_a_model_has_the_parameters_its_card_states():
    """Qwen2.5-7B and 3B, whose counts are public, and their adapters of rank 64."""
    for config, counts in (
        (QWEN_7B, (7_615_616_512, 161_480_704)),
        (QWEN_3B, (3_085_938_688, 119_734_272)),
    ):
        shape = shape_of(config)
        assert counts == (shape.parameters, shape.adapter(PAPER_7B.lora))


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # peft asks
def test_a_shape_counts_the_weights_of_a_real_model():
    """Parameters and adapter equal those of a small Qwen2 that transformers and peft build."""
    config = Qwen2Config(
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        vocab_size=100,
        tie_word_embeddings=True,
    )
    model, shape = Qwen2ForCausalLM(config), shape_of(config.to_dict())
    assert sum(weight.numel() for weight in model.parameters()) == shape.parameters
    adapted = get_peft_model(model, LoraConfig(**lora_arguments(PAPER_7B.lora)))
    trained = sum(w.numel() for w in adapted.parameters() if w.requires_grad)
    assert trained == shape.adapter(PAPER_7B.lora)


def test_the_papers_run_fits_one_large_card():
    """Weights 14.2 GiB and cache 14 GiB by arithmetic; all of it in 80 GiB, and less on two."""
    memory = estimate_memory(shape_of(QWEN_7B), PAPER_7B)
    assert 14.2 == pytest.approx(memory.weights / GIB, abs=0.05)
    assert 16 * 16_000 * 2 * 28 * 512 * 2 == memory.cache
    assert memory.weights < memory.total < 80 * GIB
    assert estimate_memory(shape_of(QWEN_7B), PAPER_7B, 2).total < memory.total
    whole = estimate_memory(shape_of(QWEN_7B), PAPER_7B, checkpointing=False)
    assert whole.total > 2 * memory.total


def test_a_shape_reads_other_decoders_of_the_kind():
    """A head width of its own, no grouped heads and no biases, as Llama and Qwen3 have them."""
    other = {"model_type": "llama", "head_dim": 128, "num_key_value_heads": None}
    shape = shape_of(QWEN_3B | other)
    assert ModelShape(2_048, 36, 2_048, 2_048, 11_008, 151_936, tied=True, biases=False) == shape


def test_disk_holds_checkpoints_rollouts_and_calls():
    """One checkpoint more than is kept, each with both moments; nothing of a run of no step."""
    estimate = disk_bytes(estimate_run(PAPER_7B, PAPER_CLAIMS), 161_480_704, 700.0, 2)
    assert 3 * 3 * 4 * 161_480_704 == estimate["checkpoints"]
    assert (87_424 + 1_792) * 700 * 2 == estimate["rollouts"]
    assert 7 * 4 * 161_480_704 == estimate["adapters"]
    nothing = disk_bytes(RunEstimate(0, 0, 0, 0, 0, 0, 0, 0, 0, None), 0, 700.0, 2)
    assert {0} == set(nothing.values())


def test_an_ablation_without_the_judge_costs_less():
    """Removing necessity saves n calls a rollout, halving the epochs half of all."""
    whole = estimate_run(PAPER_7B, PAPER_CLAIMS).judge_calls
    without = estimate_run(experiment("no_necessity"), PAPER_CLAIMS).judge_calls
    assert round((87_424 + 1_792) * 2.63) == whole - without
    half = estimate_run(experiment("one_epoch"), PAPER_CLAIMS)
    assert (87_424 // 2, 4 * 256) == (half.completions, half.held_out)


def lengths_of(*rows: tuple[str, str, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, LENGTHS, orient="row")


def test_the_report_names_who_is_too_long():
    """By source and for all: quantiles, the longest claim, and those above the limit."""
    report = token_report(
        lengths_of(("b", "wice", 90), ("a", "wice", 90), ("c", "hover", 10), ("d", "hover", 101)),
        limit=100,
    )
    assert [("d", "hover", 101)] == report.too_long.rows()
    rows = {row["source"]: row for row in report.by_source.iter_rows(named=True)}
    assert ["hover", "wice", "all"] == list(rows)
    names = ("claims", "too_long", "q0", "q100", "longest")
    assert (2, 1, 10, 101, "d") == tuple(rows["hover"][name] for name in names)
    assert (0, "a") == (rows["wice"]["too_long"], rows["wice"]["longest"])
    assert (4, 1, 90) == tuple(rows["all"][name] for name in ("claims", "too_long", "q50"))


@LAW
@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 50)), max_size=30),
    st.integers(0, 50),
)
def test_sources_add_up_to_all(rows: list[tuple[str, int]], limit: int):
    """Counts of the sources sum to those of all; a length at the limit is short enough."""
    named = [(f"{i:03}", source, tokens) for i, (source, tokens) in enumerate(rows)]
    report = token_report(lengths_of(*named), limit)
    assert report.by_source.schema == BY_SOURCE
    assert report.too_long.height == sum(tokens > limit for _, tokens in rows)
    *sources, whole = report.by_source.rows(named=True) if rows else [{"claims": 0, "too_long": 0}]
    for name in ("claims", "too_long"):
        assert whole[name] == sum(source[name] for source in sources)
    for row in report.by_source.rows(named=True):
        quantiles = [row[name] for name in BY_SOURCE if name.startswith("q")]
        assert sorted(quantiles) == quantiles
