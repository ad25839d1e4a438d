"""What a run will take: lengths of prompts, judge calls, memory and disk."""

import re
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from weakref import WeakSet, finalize

import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import Qwen2Config, Qwen2ForCausalLM

from decomposerl.judge.call import needed_calls
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
from decomposerl.training.experiment import Experiment, HeldOut, RolloutSampling
from decomposerl.training.experiments import PAPER_7B, experiment
from decomposerl.training.memory import GIB, ModelShape, estimate_memory, shape_of
from decomposerl.training.token_report import BY_SOURCE, LENGTHS, token_report
from documents import joined
from ledger_inputs import INPUTS
from perf import grpo_case
from project import ROOT
from resources.training.sampler import lean_adapter
from resources.training.settings import lora_arguments
from strategies import LAW
from studies.reference.layouts import (
    EMBEDDING_8B,
    LAYOUTS,
    QWEN3_32B,
    QWEN25_7B,
    Layout,
    layout_table,
    weight_bytes,
)

QWEN_7B = grpo_case.QWEN_7B | {"model_type": "qwen2"}
QWEN_3B = QWEN_7B | INPUTS["numbers"]["3b"]
GPUS = (ROOT / "docs/how-to/gpus.md").read_text("utf-8")


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
    calls = needed_calls(Rollout("g", 0, "A claim.", "A document.", parse_trace(TRACE)))
    made = pl.Series([call.task for call in calls.values()]).value_counts()
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


def case_of(prompt: int, completion: int) -> Experiment:
    """The paper's recipe at these lengths."""
    return replace(PAPER_7B, sampling=RolloutSampling(1.0, 1.0, 0, prompt, completion))


MEASURED = {(1_024, 512): 22.6, (4_096, 512): 37.9}
"""GiB that torch reserved at most in ``perf.grpo_case`` on an H200, by prompt and completion."""


def test_an_estimate_is_at_most_a_tenth_above_what_a_card_took():
    """Never below it; a further token of each prompt takes 5.0 MiB, as measured."""
    totals = []
    for (prompt, completion), took in MEASURED.items():
        case = case_of(prompt, completion)
        memory = estimate_memory(QWEN25_7B, case, padded=False, peft_samples=True)
        totals.append(memory.total / GIB)
        assert took <= totals[-1] <= 1.1 * took
        now = estimate_memory(QWEN25_7B, case, padded=False).total / GIB
        assert f"| {prompt:,} + {completion} | {took} | {totals[-1]:.1f} | {now:.1f} |" in GPUS
    assert 5.0 == pytest.approx((totals[1] - totals[0]) * 1_024 / 3_072, abs=0.1)


class LiveBytes(TorchDispatchMode):
    """Counts the bytes that live at once besides a model's; ``peak`` is the most so far."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.seen = WeakSet(weight.untyped_storage() for weight in model.parameters())
        self.now = self.peak = 0

    def __torch_dispatch__(self, op: Any, _: Any, args: Any = (), named: Any = None) -> Any:  # noqa: ANN401
        """Run ``op`` and count the storages that are new."""
        given = op(*args, **(named or {}))
        for tensor in tree_leaves(given):
            storage = tensor.untyped_storage() if isinstance(tensor, torch.Tensor) else None
            if storage is not None and storage not in self.seen:
                self.seen.add(storage)
                self._add(storage.nbytes())
                finalize(storage, self._add, -storage.nbytes())
        return given

    def _add(self, size: int) -> None:
        self.now += size
        self.peak = max(self.peak, self.now)


@pytest.mark.filterwarnings("ignore:`.*` is deprecated:FutureWarning")  # peft asks
def test_a_real_model_takes_what_is_counted():
    """Weights of a small Qwen2 and its adapter exactly; peaks of prefill and update within 3 %."""
    config = Qwen2Config(
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=1_024,
        vocab_size=100,
        tie_word_embeddings=True,
    )
    case = replace(case_of(24, 8), lora=replace(PAPER_7B.lora, rank=1))
    case = replace(case, grpo=replace(case.grpo, per_device_batch=32, global_batch=64))
    shape = shape_of(config.to_dict())
    memory = estimate_memory(shape, case, padded=False)
    wide = estimate_memory(shape, case, padded=False, peft_samples=True)
    model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    assert sum(weight.numel() for weight in model.parameters()) == shape.parameters
    adapted = get_peft_model(model, LoraConfig(**lora_arguments(case.lora)))
    trained = [weight for weight in adapted.parameters() if weight.requires_grad]
    assert sum(weight.numel() for weight in trained) == shape.adapter(case.lora)
    assert {torch.float32} == {weight.dtype for weight in trained}
    for sampler, counted in ((nullcontext(), wide), (lean_adapter(adapted), memory)):
        with torch.no_grad(), sampler, LiveBytes(model) as prefill:
            model(torch.zeros(64, 24, dtype=torch.long), use_cache=True, logits_to_keep=1)
        assert counted.prefill == pytest.approx(prefill.peak, rel=0.03)
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    model.train()
    with LiveBytes(model) as update:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model.model(torch.zeros(32, 32, dtype=torch.long), use_cache=False)[0].sum()
        loss.backward()
    assert memory.update == pytest.approx(update.peak, rel=0.03)


def test_memory_has_the_parts_of_its_sum():
    """Sampling ends before the update; more devices, masks and kernels change their own part."""
    memory = estimate_memory(QWEN25_7B, PAPER_7B)
    assert 14.2 == pytest.approx(memory.weights / GIB, abs=0.05)
    assert 16 * 16_000 * 2 * 28 * 512 * 2 == memory.cache
    assert memory.updating == memory.waiting + memory.update == memory.total
    halves = estimate_memory(QWEN25_7B, PAPER_7B, 2)
    assert (memory.cache, memory.update) == (2 * halves.cache, halves.update)
    peft = estimate_memory(QWEN25_7B, PAPER_7B, peft_samples=True)
    assert (memory.prefill + memory.waiting, memory.updating) < (peft.total, peft.total)
    assert estimate_memory(QWEN25_7B, PAPER_7B, on_gpu=False).total > 2 * memory.total
    kernels = estimate_memory(QWEN25_7B, PAPER_7B, liger=True)
    assert replace(memory, update=kernels.update) == kernels
    even = estimate_memory(QWEN25_7B, PAPER_7B, padded=False)
    assert (True, True) == (kernels.update < memory.update, even.total < memory.total)


EACH = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: one.name)


@EACH
def test_a_layout_fits_its_cards(layout: Layout):
    """No card is filled above 95 %, and every cache holds the longest request of its engine."""
    for card in range(layout.number):
        for updating in (False, True):
            assert 0 < layout.used(card, updating=updating) <= 0.95 * layout.gib * GIB
    for server in layout.servers:
        assert set(server.cards) <= set(range(layout.number))
        assert server.cached_tokens(layout.gib) >= server.length
        parts = server.weights + server.working + server.cache(layout.gib)
        assert parts == pytest.approx(server.share * layout.gib * GIB)


@EACH
def test_the_page_starts_a_layout_as_it_is_computed(layout: Layout):
    """The table, and commands with its models, cards and shares."""
    section = GPUS.split(f"### {layout.name}\n")[1].split("\n###")[0]
    assert f"report: begin -->\n{layout_table(layout)}\n<!-- " in section
    sampler = layout.servers[2]
    assert sampler.beside == ("-c configs/vllm_sleeps.yaml" in section) == (sampler.share == 0.3)
    for server in layout.servers:
        cards, share = ",".join(map(str, server.cards)), f"{server.share:g}"
        started = rf"(?m)^CUDA_VISIBLE_DEVICES={cards} .*vllm serve {server.model} .*n {share} &$"
        assert server.beside != bool(re.search(started, joined(section)))


def test_the_page_says_how_much_disk_the_weights_take():
    """GB of each model, from shapes with the published parameters, and both sums."""
    cards = {QWEN3_32B: 32.8, EMBEDDING_8B: 7.57}
    assert list(cards.values()) == pytest.approx([s.parameters / 1e9 for s in cards], rel=2e-3)
    wide = replace(QWEN25_7B, hidden=5_120, queries=5_120, keys=1_024)
    first = {
        "Qwen2.5-7B": weight_bytes(QWEN25_7B),
        "Qwen3-32B-FP8": weight_bytes(QWEN3_32B, fp8=True),
        "Qwen3-Embedding-8B": weight_bytes(EMBEDDING_8B),
        "MiniCheck-7B": weight_bytes(
            ModelShape(4_096, 32, 4_096, 1_024, 14_336, 92_544, tied=False, biases=False)
        ),
    }
    further = {
        "3B": weight_bytes(shape_of(QWEN_3B)),
        "14B": weight_bytes(replace(wide, layers=48, intermediate=13_824)),
        "32B": weight_bytes(replace(wide, layers=64, intermediate=27_648)),
    }
    for sizes in (first, further):
        listed = ", ".join(f"{name} {size / 1e9:.1f}" for name, size in sizes.items())
        assert f"({listed})" in " ".join(GPUS.split())
        assert f"{sum(sizes.values()) / 1e9:.0f} GB " in " ".join(GPUS.split())


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
