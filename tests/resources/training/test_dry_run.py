"""The dry run before the first step: its findings, its estimates, its refusals."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from packaging.requirements import Requirement

from decomposerl.chat import Price
from decomposerl.errors import EngineError
from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.reports.readiness import ReadinessCheck
from decomposerl.reports.training_plan import (
    DryRun,
    dry_run_markdown,
    dry_run_plain,
    problem_lines,
)
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import TRAINING_CLAIMS
from decomposerl.training.experiment import (
    EvidenceView,
    Experiment,
    Grpo,
    HeldOut,
    RolloutSampling,
)
from decomposerl.training.experiments import PAPER_7B
from project import ROOT
from resources.judge.rule_judge import RuleJudge
from resources.preflight.probes import available_memory
from resources.preflight.servers import VLLM_RANGE, vllm_check
from resources.store.parquet import write_parquet
from resources.training.engine_checks import DryRunFacts
from resources.training.preflight import dry_run
from resources.training.process import Generation, GenerationEngine, TrainingRun
from strategies import example_row, frame_of
from tiny_models import tiny_chat
from training_parts import held_out_file

UNJUDGED = RewardSettings(weights=dict.fromkeys(("coverage", "necessity", "joint"), 0.0))


@dataclass
class SilentJudge:
    """Gives no ruling, or is unreachable; keeps the calls that it got."""

    reachable: bool = True
    calls: list[JudgeCall] = field(default_factory=list)
    engine: str = "a silent judge"

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """No ruling."""
        if not self.reachable:
            raise EngineError("nobody listens")
        self.calls += calls
        return [Ruling(None, "no answer") for _ in calls]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_chat(tmp_path_factory.mktemp("base"))


@pytest.fixture
def run(tmp_path: Path, base: Path) -> TrainingRun:
    rows = [example_row(source=source) for source in ("hover", "hover", "wice")]
    rows.append(example_row(evidence="A long one. " * 400, source="wice", n_star=5))
    write_parquet(frame_of(TRAINING_CLAIMS, rows), tmp_path / "training_claims.parquet")
    held_out = held_out_file(tmp_path / "held_out.parquet", PAPER_7B.held_out.claims)
    claims, folder = tmp_path / "training_claims.parquet", tmp_path / "run"
    return TrainingRun(PAPER_7B, "0" * 16, claims, str(base), folder, held_out)


def of(run: TrainingRun, recipe: Experiment) -> TrainingRun:
    return replace(run, experiment=recipe)


def findings(result: DryRun) -> dict[str, str]:
    return {finding.part: finding.state for finding in result.findings}


def test_a_run_that_can_go_well_has_no_problem(run: TrainingRun):
    """Tokenizer, prompts, judge, disk and batches are fine; nothing is written."""
    result = dry_run(run, RuleJudge())
    assert () == result.problems
    assert {"ok"} == set(findings(result).values())
    parts = {"batches", "model", "prompts", "held-out claims", "judge", "disk", "memory"}
    assert parts == set(findings(result))
    assert not run.folder.exists()
    assert result.amounts is not None
    assert (4, 64) == (result.amounts.steps, result.amounts.completions)
    assert 2 * 2 * 128 == result.amounts.held_out
    calls = (64 + 512) * (4 * (2 + 2 + 2 + 5) / 4 + 1)
    assert round(calls) == result.amounts.judge_calls


def test_too_few_claims_to_hold_out_are_said_before_the_run(run: TrainingRun, tmp_path: Path):
    """A note, since the run is possible; without any no checkpoint can be chosen by them."""
    few = held_out_file(tmp_path / "few.parquet", 3)
    for held_out, detail in ((few, "3 of 128 claims"), (None, "0 of 128 claims")):
        result = dry_run(replace(run, held_out=held_out), RuleJudge())
        assert () == result.problems
        (note,) = [one for one in result.findings if one.state == "note"]
        assert ("held-out claims", detail) == (note.part, note.said)
    none = of(run, replace(PAPER_7B, held_out=HeldOut()))
    assert "held-out claims" not in findings(dry_run(none, RuleJudge()))


def test_the_limits_of_the_prompts_are_the_experiments(run: TrainingRun):
    """Above the limit a claim is named and left out; above it all, the run is refused."""
    few = of(run, replace(PAPER_7B, sampling=RolloutSampling(max_prompt_tokens=4_000)))
    result = dry_run(few, RuleJudge())
    assert result.lengths is not None
    (left,) = result.lengths.too_long.iter_rows(named=True)
    assert ("wice", "note") == (left["source"], findings(result)["prompts"])
    assert left["claim_id"] in dry_run_markdown(result)
    assert () == result.problems
    none = of(run, replace(PAPER_7B, sampling=RolloutSampling(max_prompt_tokens=10)))
    assert ["prompts"] == [problem.part for problem in dry_run(none, RuleJudge()).problems]


def test_prompts_are_measured_as_the_policy_sees_them(run: TrainingRun):
    """With an evidence view the long claim is short, and longest is no longer the long one."""
    whole = dry_run(run, RuleJudge()).lengths
    viewed = dry_run(of(run, replace(PAPER_7B, evidence_view=EvidenceView())), RuleJudge()).lengths
    assert whole is not None
    assert viewed is not None
    assert viewed.by_source["q100"].max() < whole.by_source["q100"].max()


@pytest.mark.parametrize(("reachable", "said"), [(True, "no answer"), (False, "nobody listens")])
def test_a_judge_that_does_not_rule_is_a_problem(run: TrainingRun, *, reachable: bool, said: str):
    """Unreachable or without a ruling: the finding has the reason and the fix."""
    (problem,) = dry_run(run, SilentJudge(reachable)).problems
    assert ("judge", True) == (problem.part, said in problem.said)
    assert "DECOMPOSERL_JUDGE_URL" in problem.fix


@dataclass
class DeadEmbedder:
    """Raises at every text, or answers; keeps what it was asked."""

    dead: bool = True
    asked: list[str] = field(default_factory=list)
    engine: str = "a dead embedder"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors."""
        self.asked += texts
        if self.dead:
            raise EngineError("no connection to 8002")
        return np.eye(len(texts), 4, dtype=np.float32)


def test_a_dead_embedder_of_questions_is_a_problem(run: TrainingRun):
    """It is found before the first step, with its reason and the variable that names it."""
    (problem,) = dry_run(run, RuleJudge(), None, DeadEmbedder()).problems
    assert ("questions", "no connection to 8002") == (problem.part, problem.said)
    assert "DECOMPOSERL_QUESTIONS_URL" in problem.fix


def test_the_embedder_itself_is_asked_every_time(run: TrainingRun):
    """No stored vector answers for an endpoint that is gone; without the reward nothing is sent."""
    alive = DeadEmbedder(dead=False)
    assert "ok" == findings(dry_run(run, RuleJudge(), None, alive))["questions"]
    dry_run(run, RuleJudge(), None, alive)
    assert 2 == len(set(alive.asked))
    alike = replace(PAPER_7B, rewards=RewardSettings(weights={"diversity": 0.0}))
    assert () == dry_run(of(run, alike), RuleJudge(), None, DeadEmbedder()).problems


def test_the_judge_itself_is_asked_every_time(run: TrainingRun):
    """No two looks ask the same, so no stored ruling hides a judge that is gone."""
    judge = SilentJudge()
    dry_run(run, judge)
    dry_run(run, judge)
    first, second = judge.calls
    assert first.key != second.key


def context_of(run: TrainingRun, context: int | None, reply: int = 100) -> list[ReadinessCheck]:
    facts = DryRunFacts(judge_context=context, judge_reply=reply)
    found = dry_run(run, RuleJudge(), facts).findings
    return [one for one in found if one.part == "judge" and "context" in one.what]


def test_calls_that_the_judge_cannot_read_are_named_before_the_first_step(run: TrainingRun):
    """The claims, longest first, with the context that they take and the one that there is."""
    (found,) = context_of(run, 2_000)
    claims = pl.read_parquet(run.claims).sort(pl.col("evidence").str.len_bytes())
    longest = claims["claim_id"][-1]
    assert ("missing", "context of 2,000 tokens") == (found.state, found.what)
    assert "calls do not fit about 1 of the claims, with 100 tokens for the reply" in found.said
    needed = int(found.fix.split("--max-model-len ")[1].split()[0])
    assert f"{longest} ({needed:,})" in found.said
    assert "ok" != context_of(run, needed - 1)[0].state
    assert "missing" != context_of(run, needed)[0].state


def test_a_context_that_only_a_long_trace_exceeds_is_a_note(run: TrainingRun):
    """Few traces are as long as they may be: the run may start. With room for them all is well."""
    (found,) = context_of(run, 6_000)
    assert "note" == found.state
    assert "with a trace of 4,500 tokens" in found.said
    (found,) = context_of(run, 20_000)
    assert "ok" == found.state


def test_the_reply_takes_its_part_of_the_context(run: TrainingRun):
    """What fits with a short reply need not fit with the longest that is allowed."""
    states = [context_of(run, 16_384, reply)[0].state for reply in (2_048, 16_000)]
    assert ["ok", "missing"] == states


def test_an_unknown_context_is_not_checked(run: TrainingRun):
    """Rules have none, and OpenAI reports none."""
    assert [] == context_of(run, None)


def test_a_run_without_judged_rewards_needs_no_judge(run: TrainingRun):
    """No call is made, and none is estimated."""
    judge = SilentJudge(reachable=False)
    result = dry_run(of(run, replace(PAPER_7B, rewards=UNJUDGED)), judge)
    assert () == result.problems
    assert result.amounts is not None
    assert 0 == result.amounts.judge_calls


@pytest.mark.parametrize(
    ("recipe", "part"),
    [
        (replace(PAPER_7B, grpo=Grpo(group_size=6)), "batches"),
        (replace(PAPER_7B, grpo=Grpo(global_batch=64)), "claims"),
        (replace(PAPER_7B, sampling=RolloutSampling(max_completion_tokens=99_000)), "model"),
    ],
)
def test_what_cannot_be_trained_is_said_before(run: TrainingRun, recipe: Experiment, part: str):
    """Batches that do not divide, fewer claims than one step takes, a model that reads less."""
    assert [part] == [problem.part for problem in dry_run(of(run, recipe), RuleJudge()).problems]


def test_a_base_that_is_not_here_is_named_with_its_command(run: TrainingRun, tmp_path: Path):
    """Its prompts and memory stay unknown; the rest is still reported."""
    result = dry_run(replace(run, base=str(tmp_path / "absent")), RuleJudge())
    assert {"model"} == {problem.part for problem in result.problems}
    assert all("hf download" in problem.fix for problem in result.problems)
    assert (None, None) == (result.lengths, result.memory)
    assert "judge calls" in dry_run_markdown(result)


def test_a_gpu_that_is_not_there_is_a_problem(run: TrainingRun):
    """Requested on a machine without one; the memory is estimated all the same."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    result = dry_run(replace(run, device="cuda"), RuleJudge())
    assert ["GPU"] == [problem.part for problem in result.problems]
    assert result.memory is not None
    assert result.memory.total > result.memory.weights > 0


def test_a_run_that_this_machine_cannot_hold_is_a_problem(run: TrainingRun, tmp_path: Path):
    """On a processor the update's activations are compared with the free memory."""
    batch = replace(PAPER_7B.grpo, per_device_batch=2**21, global_batch=2**21)
    result = dry_run(of(run, replace(PAPER_7B, grpo=batch)), RuleJudge())
    (problem,) = [one for one in result.problems if one.part == "memory"]
    assert "GiB for training, about" in problem.said
    assert "per_device_batch" in problem.fix
    whole = available_memory(tmp_path)
    (tmp_path / "memory.current").write_text("600\n")
    (tmp_path / "memory.max").write_text("1000\n")
    assert 400 == available_memory(tmp_path) < whole
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(tmp_path) > 400


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
@pytest.mark.parametrize("engine", ["vllm_colocate", "vllm_server"])
def test_a_sampler_that_is_not_installed_is_a_problem(run: TrainingRun, engine: GenerationEngine):
    """Where vLLM samples, the trainer imports it; the fix names the extra. A server is asked."""
    sampled = replace(run, generation=Generation(engine=engine, url="http://127.0.0.1:9"))
    problem, *others = reversed(dry_run(sampled, RuleJudge()).problems)
    assert ("vllm", "not installed") == (problem.what, problem.said)
    assert ["sampler"] * (engine == "vllm_server") == [one.part for one in others]
    assert "decomposerl[gpu]" in problem.fix


@pytest.mark.parametrize(
    ("installed", "state"),
    [
        ("0.21.0", "missing"),
        ("0.22.0rc1", "missing"),
        ("0.22.0", "ok"),
        ("0.31.0+cpu", "ok"),
        ("0.32.0", "missing"),
    ],
)
def test_a_vllm_out_of_range_is_refused(installed: str, state: str):
    """Below are two known vulnerabilities, above what TRL accepts."""
    assert state == vllm_check(installed).state


def test_the_extra_installs_the_vllm_that_the_dry_run_accepts():
    """The range of ``gpu`` is the dry run's."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (wanted,) = [
        one
        for one in map(Requirement, extras["optional-dependencies"]["gpu"])
        if one.name == "vllm"
    ]
    assert wanted.specifier == VLLM_RANGE


def test_money_and_hours_are_given_where_they_are_known(run: TrainingRun):
    """A price gives dollars, a step's seconds give hours; without them nothing is made up."""
    bare = dry_run(run, RuleJudge())
    assert bare.judging is not None
    assert (None, None) == (bare.judging.dollars, bare.judging.gpu_hours)
    assert "no step was timed" in dry_run_markdown(bare)
    facts = DryRunFacts(price=Price(1.0, 2.0), tokens_per_s=100.0, seconds_per_step=3_600.0)
    result = dry_run(run, RuleJudge(), facts)
    line = result.judging
    assert line is not None
    assert (line.prompt_tokens + 2 * line.completion_tokens) / 1e6 == line.dollars
    assert (line.prompt_tokens + line.completion_tokens) / 100 / 3_600 == line.gpu_hours
    assert ("hours", "36.0") in [  # 4 steps, and 512 held-out completions of 16 a step
        tuple(cell.strip() for cell in row.strip("|").split("|"))
        for row in dry_run_markdown(result).splitlines()
    ]


def test_the_page_survives_json_and_names_every_problem(run: TrainingRun):
    """What goes to the run's log and its metadata is plain, whole and in sentences."""
    result = dry_run(replace(run, device="cuda"), SilentJudge())
    plain = json.loads(json.dumps(dry_run_plain(result)))
    assert problem_lines(result) == plain["problems"]
    assert len(plain["problems"]) >= 1
    assert sum(row["claims"] for row in plain["prompt_tokens"] if row["source"] == "all") == 4
    assert pl.DataFrame(plain["prompt_tokens"]).height == 3
    assert all(use in plain["markdown"] for use in (*plain["disk"], *plain["memory"]))
