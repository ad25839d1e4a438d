"""A sampler with other weights than the policy's is found; sampling here merges and caches."""

import contextlib
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import polars as pl
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2ForCausalLM

from chat_served import SoundServer, client
from fakes import BagOfWordsEmbedder
from resources.judge.chat_judge import ChatJudge, load_judge_prompts
from resources.judge.rule_judge import RuleJudge
from resources.training.monitor import TrainingMonitor
from resources.training.process import Generation, TrainingRun
from resources.training.rollout_log import LogTable, read_log
from resources.training.run_store import RunFolder
from resources.training.safe_point import temporary_seed
from resources.training.sampler import SamplerCheck, lean_adapter, noting_ends, sampler_gaps
from resources.training.train import load_policy, prepare
from studies.sampler_gaps import sample_with_copy
from training_parts import EXPERIMENT, PATIENT, run_of, tiny_policy

STEEP = replace(EXPERIMENT.optimization, warmup_ratio=0.0, steps=4)
ONE_STEP = replace(STEEP, steps=1)
STRICT = replace(PATIENT, stop_unhealthy=True, sampler_check_every=1)


def started(run: TrainingRun) -> TrainingMonitor:
    return prepare(run, load_policy(run), RuleJudge(), BagOfWordsEmbedder(), lambda _: None)


def prepared(folder: Path, base: Path, **changes: Any) -> TrainingMonitor:  # noqa: ANN401 - of the run
    return started(run_of(folder, base, **{"optimization": STEEP, "limits": STRICT, **changes}))


@pytest.fixture(scope="module")
def still(base: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingMonitor:
    """A run before its first step, which none of the tests that share it takes."""
    return prepared(tmp_path_factory.mktemp("still") / "run", base)


def sampled(monitor: TrainingMonitor, weights: Path, **faults: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - of the copy
    """Train with a copy of the policy as sampler; what TRL logged of each step."""
    sample_with_copy(monitor, str(weights), **faults)
    monitor.trainer.train()
    return [one for one in monitor.trainer.state.log_history if "loss" in one]


def gaps(monitor: TrainingMonitor, name: str = "sampler_gap") -> list[float]:
    curves = read_log(monitor.run.folder, "curves").sort("step")
    return curves.filter(measure=name)["mean"].to_list()


def test_a_sampler_that_follows_the_policy_trains_to_the_end(base: Path, tmp_path: Path):
    """Its gap stays at rounding while the base falls behind, and TRL corrects nothing away."""
    monitor = prepared(tmp_path / "run", base)
    logs = sampled(monitor, base)
    assert ("", 4) == (monitor.stopped, len(logs))
    to_policy, to_base = gaps(monitor), gaps(monitor, "sampler_gap_base")
    assert max(to_policy) < 1e-5
    assert to_base[0] == to_policy[0]
    assert min(to_base[1:]) > 100 * max(to_policy)
    for one in logs:
        assert one["sampling/importance_sampling_ratio/mean"] == pytest.approx(1, abs=1e-3)
        assert one["sampling/sampling_logp_difference/mean"] < 1e-5


def test_a_sampler_that_never_gets_the_adapter_stops_the_run(base: Path, tmp_path: Path):
    """At the first check after the adapter moved, with a checkpoint; warned of once otherwise."""
    monitor = prepared(tmp_path / "run", base)
    sampled(monitor, base, updates=0)
    assert "samples without the trained adapter" in monitor.stopped
    assert 2 == monitor.trainer.state.global_step
    assert (tmp_path / "run" / "checkpoints" / "step-000002").is_dir()
    assert gaps(monitor, "sampler_gap_base")[-1] < 1e-5
    assert gaps(monitor)[-1] > 1e-3
    monitor = prepared(tmp_path / "warned", base, limits=replace(STRICT, stop_unhealthy=False))
    reports: list[Any] = []
    monitor.report = reports.append
    sampled(monitor, base, updates=0)
    warnings = [text for one in reports for text in one.warnings if "adapter" in text]
    assert (1, 4, "") == (len(warnings), len(reports), monitor.stopped)


@pytest.mark.parametrize("fault", ["heat", "model"])
def test_another_model_or_temperature_stops_the_first_step(base: Path, tmp_path: Path, fault: str):
    """Such a gap needs no adapter that moved."""
    other = tiny_policy(tmp_path / "other", seed=8) if fault == "model" else base
    monitor = prepared(tmp_path / "run", base)
    sampled(monitor, other, **({"heat": 0.3} if fault == "heat" else {"updates": 0}))
    assert "another model or temperature" in monitor.stopped
    assert 1 == monitor.trainer.state.global_step


def test_the_config_says_how_vllms_rollouts_are_corrected(base: Path, tmp_path: Path):
    """On by default, off where a run says so; mode and bound stand beside it."""
    for on in (True, False):
        run = run_of(tmp_path / str(on), base, optimization=STEEP)
        run = replace(run, generation=Generation(importance_correction=on))
        started(run)
        config = json.loads(RunFolder(run.folder).config.read_text("utf-8"))
        assert on is config["generation"]["importance_correction"]
        assert on is config["grpo"]["vllm_importance_sampling_correction"]
        assert "sequence_mask" == config["grpo"]["vllm_importance_sampling_mode"]
        assert 3.0 == config["grpo"]["vllm_importance_sampling_clip_max"]


PROMPTS = ([5, 6, 7], [8, 9, 10, 11, 5])
COMPLETIONS = ([6, 7, 8, 9], [10])


def of_rows(monitor: TrainingMonitor, sampled: Sequence[Sequence[float | None]]) -> list[float]:
    """The distances token by token, each row alone and without padding."""
    far: list[float] = []
    for prompt, completion, row in zip(PROMPTS, COMPLETIONS, sampled, strict=True):
        ids = torch.tensor([[*prompt, *completion]])
        with torch.no_grad():
            logits = monitor.trainer.model(input_ids=ids).logits[0, len(prompt) - 1 : -1]
        ours = torch.log_softmax(logits, -1)[range(len(completion)), completion].tolist()
        known = [(a, b) for a, b in zip(ours, row, strict=True) if b is not None]
        far += [abs(a - b) for a, b in known if not math.isnan(b)]
    return far


@pytest.mark.parametrize(
    "sampled", [[[-1.0, -2.0, -0.5, -3.0], [-1.5]], [[-1.0, None, float("nan"), -3.0], [None]]]
)
def test_padding_and_unknown_tokens_do_not_count(
    still: TrainingMonitor, sampled: Sequence[Sequence[float | None]]
):
    """The mean over the known tokens of rows of different lengths, as if each were alone."""
    points = sampler_gaps(still.trainer, PROMPTS, COMPLETIONS, sampled)
    expected = of_rows(still, sampled)
    assert len(expected) == points["sampler_gap"].rows == points["sampler_gap_base"].rows
    assert points["sampler_gap"].mean == pytest.approx(sum(expected) / len(expected), abs=1e-5)
    nothing = sampler_gaps(still.trainer, PROMPTS, COMPLETIONS, [[None] * 4, [None]])
    assert (None, 0) == (nothing["sampler_gap"].mean, nothing["sampler_gap"].rows)


def test_a_check_leaves_the_training_as_it_is(still: TrainingMonitor):
    """It draws no random number, leaves mode and adapter, and comes every few steps."""
    model, state = still.trainer.model.train(), torch.get_rng_state()
    free = [name for name, weight in model.named_parameters() if weight.requires_grad]
    check, measured = SamplerCheck(every=3), []
    for step in range(4, 12):
        still.trainer.state.global_step = step
        check.check(still.trainer, PROMPTS, COMPLETIONS, [[-1.0] * 4, [-1.0]])
        measured += [step] * bool(check.points_at(step))
    assert [4, 7, 10] == measured
    assert model.training
    assert bool((torch.get_rng_state() == state).all())
    assert free == [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert free


def logits(model: Any) -> torch.Tensor:  # noqa: ANN401 - peft carries no types
    with torch.no_grad():
        every: torch.Tensor = model(input_ids=torch.tensor([PROMPTS[0]])).logits
    return every


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # peft's
@pytest.mark.parametrize(
    ("dtype", "rounding"), [(torch.float32, 1e-5), (torch.bfloat16, 0.13)], ids=["float32", "bf16"]
)
def test_a_lean_adapter_moves_rounding_alone(base: Path, dtype: torch.dtype, rounding: float):
    """The policy's logits, not the base's, without a changed weight; an error ends it as well."""
    torch.manual_seed(3)
    plain = Qwen2ForCausalLM.from_pretrained(base, dtype=dtype)
    model = get_peft_model(plain, LoraConfig(r=4, lora_alpha=6, target_modules="all-linear")).eval()
    for name, weight in model.named_parameters():
        if "lora" in name:  # in float32 on any base
            torch.nn.init.normal_(weight, std=0.2)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    policy = logits(model)
    with model.disable_adapter():
        assert (logits(model) - policy).abs().max() > 4 * rounding
    with contextlib.suppress(KeyboardInterrupt), lean_adapter(model):
        layer = model.base_model.model.model.layers[0].self_attn.q_proj
        assert "forward" in vars(layer)
        assert (logits(model) - policy).abs().max() < rounding
        raise KeyboardInterrupt
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert torch.equal(policy, logits(model))


def test_where_transformers_samples_it_is_lean_and_nothing_is_compared(base: Path, tmp_path: Path):
    """Every token of a generation, nothing with gradients; no other weights to compare."""
    monitor = prepared(tmp_path / "run", base, optimization=ONE_STEP)
    model: Any = monitor.trainer.model
    seen: set[tuple[bool, bool]] = set()

    def notice(*_: object) -> None:
        layer = model.base_model.model.model.layers[0].self_attn.q_proj
        seen.add((torch.is_grad_enabled(), "forward" in vars(layer)))

    model.register_forward_pre_hook(notice)
    model.base_model.model.model.register_forward_pre_hook(notice)
    monitor.trainer.train()
    assert {(False, True), (True, False)} == seen
    measures = set(read_log(monitor.run.folder, "curves")["measure"])
    assert not {name for name in measures if name.startswith("sampler")}


# When a completion ends


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # peft's
def test_ends_are_noted_while_others_are_sampled(still: TrainingMonitor):
    """The shortest first, none that the limit ends; the samples are those without notes."""
    trainer: Any = still.trainer
    rows = load_policy(still.run).training.rows
    prompts = [row["prompt_ids"] for row in rows for _ in range(4)]
    noted: list[tuple[int, list[int]]] = []

    def sample() -> list[list[int]]:
        with temporary_seed(3):
            completions: list[list[int]] = trainer._generate_single_turn(prompts, None, {}, 1)[0]
        return completions

    plain = sample()
    with noting_ends(trainer, prompts, lambda place, tokens: noted.append((place, list(tokens)))):
        assert plain == sample()
    ends = [pair for pair in enumerate(plain) if pair[1][-1] in trainer.eos_token_ids]
    assert sorted(noted) == ends
    lengths = [len(tokens) for _, tokens in noted]
    assert lengths == sorted(lengths)
    assert lengths[0] < max(map(len, plain))
    assert "generate" not in vars(trainer.accelerator.unwrap_model(trainer.model))


class Engine(list[SimpleNamespace]):
    """vLLM's engine, with what its steps give."""

    def step(self) -> list[SimpleNamespace]:
        """The next request that it brought on."""
        return [self.pop(0)]


def test_ends_are_noted_of_vllm_in_the_trainer():
    """A request that goes on is no end; behind the block the engine is its own again."""
    output = [SimpleNamespace(token_ids=(7, 8))]
    steps = [SimpleNamespace(finished=f, prompt_token_ids=[5], outputs=output) for f in (0, 1)]
    engine, noted = Engine(steps), list[tuple[int, Sequence[int]]]()
    sampler = SimpleNamespace(llm=SimpleNamespace(llm_engine=engine))
    trainer: Any = SimpleNamespace(use_vllm=True, vllm_generation=sampler)
    with noting_ends(trainer, [[4], [5]], lambda *one: noted.append(one)):
        assert steps == [*engine.step(), *engine.step()]
    assert ([(1, (7, 8))], {}) == (noted, vars(engine))


TABLES: tuple[LogTable, ...] = ("rollouts", "rewards", "judge_calls")


class Attentive(ChatJudge):
    """Notes for each early start whether its step was still sampling."""

    monitor: TrainingMonitor | None = None
    sampling: list[bool]

    def renewed(self) -> Self:
        """As the judge's."""
        assert self.monitor is not None
        self.sampling.append("generation" not in self.monitor.phases.spent)
        return super().renewed()


def test_a_step_judges_its_rollouts_as_they_end(base: Path, tmp_path: Path):
    """With a chat model as judge; rollouts, rewards and rulings are those of an unhurried one."""
    logs: list[list[pl.DataFrame]] = []
    sent: list[list[str]] = []
    for early in (True, False):
        made = run_of(tmp_path / f"{early}", base, optimization=ONE_STEP, limits=PATIENT)
        with SoundServer() as served, client(served.url, tmp_path / f"{early}.replies") as chat:
            judge = Attentive(chat, load_judge_prompts())
            asked: Any = judge if early else SimpleNamespace(engine=judge.engine, judge=judge.judge)
            monitor = prepare(made, load_policy(made), asked, BagOfWordsEmbedder(), lambda _: None)
            judge.monitor, judge.sampling = monitor, []
            monitor.trainer.train()
        assert early is (True in judge.sampling)
        logs.append([read_log(made.folder, table) for table in TABLES])
        sent.append(sorted(served.prompts))
    assert all(one.equals(other) for one, other in zip(*logs, strict=True))
    assert sent[0] == sent[1]
