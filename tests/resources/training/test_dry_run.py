"""The dry run before the first step: findings, estimates, refusals, and the server that samples."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from packaging.requirements import Requirement
from trl.scripts.vllm_serve import ScriptArguments, build_command

from decomposerl.chat import Price
from decomposerl.errors import EngineError
from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.reports.readiness import ReadinessCheck
from decomposerl.reports.training_plan import DryRun, dry_run_markdown, dry_run_plain, problem_lines
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import TRAINING_CLAIMS
from decomposerl.training.experiment import EvidenceView, Experiment, Grpo, HeldOut, RolloutSampling
from decomposerl.training.experiments import PAPER_7B, experiment
from documents import joined
from file_server import Fault, FileServer
from project import ROOT
from resources.judge.rule_judge import RuleJudge
from resources.preflight.probes import available_memory
from resources.preflight.servers import VLLM_RANGE, sampler, vllm_check
from resources.store.parquet import write_parquet
from resources.training.preflight import DryRunFacts, dry_run, memory_setting_checks
from resources.training.process import Generation, GenerationEngine, TrainingRun
from strategies import example_row, frame_of
from studies.reference.layouts import LAYOUTS
from tiny_models import tiny_chat
from training_parts import held_out_file

RULES = RuleJudge()
UNJUDGED = RewardSettings(weights=dict.fromkeys(("coverage", "necessity", "joint"), 0.0))
ALIKE = RewardSettings(weights={"diversity": 0.0})


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


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> TrainingRun:
    """A run of the paper's recipe over three short claims and a long one."""
    folder = tmp_path_factory.mktemp("planned")
    rows = [example_row(source=source) for source in ("hover", "hover", "wice")]
    rows.append(example_row(evidence="A long one. " * 400, source="wice", n_star=5))
    write_parquet(frame_of(TRAINING_CLAIMS, rows), folder / "training_claims.parquet")
    held_out = held_out_file(folder / "held_out.parquet", PAPER_7B.held_out.claims)
    claims, base = folder / "training_claims.parquet", tiny_chat(folder / "base")
    return TrainingRun(PAPER_7B, "0" * 16, claims, str(base), folder / "run", held_out)


def of(run: TrainingRun, **changes: object) -> TrainingRun:
    return replace(run, experiment=replace(run.experiment, **changes))  # type: ignore[arg-type]


def findings(result: DryRun) -> dict[str, str]:
    return {finding.part: finding.state for finding in result.findings}


def problems(result: DryRun) -> list[str]:
    return [problem.part for problem in result.problems]


def test_a_run_that_can_go_well_has_no_problem(run: TrainingRun):
    """Nothing is written; a price gives dollars, a step's seconds hours, and nothing is made up."""
    result = dry_run(run, RULES)
    assert () == result.problems
    parts = {"batches", "model", "prompts", "held-out claims", "judge", "disk", "memory"}
    assert dict.fromkeys(parts, "ok") == findings(result)
    assert not run.folder.exists()
    assert (4, 64) == (result.amounts.steps, result.amounts.completions)
    assert 2 * 2 * 128 == result.amounts.held_out
    calls = (64 + 512) * (4 * (2 + 2 + 2 + 5) / 4 + 1)
    assert round(calls) == result.amounts.judge_calls
    bare = dry_run(run, RULES)
    assert [None] * 3 == [bare.judging.dollars, bare.judging.gpu_hours, bare.amounts.hours]
    facts = DryRunFacts(price=Price(1.0, 2.0), tokens_per_s=100.0, seconds_per_step=3_600.0)
    result = dry_run(run, RULES, facts)
    line = result.judging
    assert (line.prompt_tokens + 2 * line.completion_tokens) / 1e6 == line.dollars
    assert (line.prompt_tokens + line.completion_tokens) / 100 / 3_600 == line.gpu_hours
    assert 36.0 == result.amounts.hours  # 4 steps, and 512 held-out completions of 16 a step
    assert "36.0" in dry_run_markdown(result)


def test_too_few_claims_to_hold_out_are_said_before_the_run(run: TrainingRun, tmp_path: Path):
    """Too few held-out claims are a note; without its base prompts and memory stay unknown."""
    few = held_out_file(tmp_path / "few.parquet", 3)
    for held_out, count in ((few, "3 of 128"), (None, "0 of 128")):
        result = dry_run(replace(run, held_out=held_out), RULES)
        assert () == result.problems
        (note,) = [one for one in result.findings if one.state == "note"]
        assert ("held-out claims", True) == (note.part, count in note.said)
    assert "held-out claims" not in findings(dry_run(of(run, held_out=HeldOut()), RULES))
    result = dry_run(replace(run, base=str(tmp_path / "absent")), RULES)
    assert {"model"} == set(problems(result))
    assert all("hf download" in problem.fix for problem in result.problems)
    assert (None, None) == (result.lengths, result.memory)
    assert "judge calls" in dry_run_markdown(result)


def test_prompts_are_measured_as_the_policy_sees_them(run: TrainingRun):
    """Above the limit a claim is named and left out, above it all is refused; a view shortens."""
    result = dry_run(of(run, sampling=RolloutSampling(max_prompt_tokens=4_000)), RULES)
    (left,) = result.lengths.too_long.iter_rows(named=True)
    assert ("wice", "note") == (left["source"], findings(result)["prompts"])
    assert left["claim_id"] in dry_run_markdown(result)
    assert () == result.problems
    none = of(run, sampling=RolloutSampling(max_prompt_tokens=10))
    assert ["prompts"] == problems(dry_run(none, RULES))
    viewed = dry_run(of(run, evidence_view=EvidenceView()), RULES).lengths
    assert viewed.by_source["q100"].max() < result.lengths.by_source["q100"].max()


@pytest.mark.parametrize(("reachable", "said"), [(True, "no answer"), (False, "nobody listens")])
def test_a_judge_that_does_not_rule_is_a_problem(run: TrainingRun, *, reachable: bool, said: str):
    """Unreachable or without a ruling: with the reason and the variable; unjudged runs ask none."""
    judge = SilentJudge(reachable)
    (problem,) = dry_run(run, judge).problems
    assert ("judge", True) == (problem.part, said in problem.said)
    assert "DECOMPOSERL_JUDGE__BASE_URL" in problem.fix
    result = dry_run(of(run, rewards=UNJUDGED), judge)
    assert () == result.problems
    assert 0 == result.amounts.judge_calls


def test_a_dead_embedder_of_questions_is_a_problem(run: TrainingRun):
    """With reason and variable; engines are asked anew each time, so nothing stored hides one."""
    (problem,) = dry_run(run, RULES, None, DeadEmbedder()).problems
    assert ("questions", "no connection to 8002") == (problem.part, problem.said)
    assert "DECOMPOSERL_QUESTIONS__BASE_URL" in problem.fix
    unasked = DeadEmbedder()
    assert () == dry_run(of(run, rewards=ALIKE), RULES, None, unasked).problems
    assert [] == unasked.asked
    judge, alive = SilentJudge(), DeadEmbedder(dead=False)
    for _ in range(2):
        assert "ok" == findings(dry_run(run, judge, None, alive))["questions"]
    assert 2 == len(set(alive.asked)) == len({call.key for call in judge.calls})


def context_of(run: TrainingRun, context: int | None, reply: int = 100) -> list[ReadinessCheck]:
    facts = DryRunFacts(judge_context=context, judge_reply=reply)
    every = dry_run(run, RULES, facts).findings
    return [one for one in every if one.part == "judge" and "context" in one.what]


def test_calls_that_the_judge_cannot_read_are_named_before_the_first_step(run: TrainingRun):
    """Longest first, with the context they take; a note where only a long trace exceeds it."""
    (short,) = context_of(run, 2_000)
    claims = pl.read_parquet(run.claims).sort(pl.col("evidence").str.len_bytes())
    assert ("missing", "context of 2,000 tokens") == (short.state, short.what)
    needed = int(short.fix.split("--max-model-len ")[1].split()[0])
    assert f"{claims['claim_id'][-1]} ({needed:,})" in short.said
    assert " 1 of the claims" in short.said
    states = {context: context_of(run, context)[0] for context in (needed - 1, needed, 6_000)}
    assert ["missing", "note", "note"] == [one.state for one in states.values()]
    assert "4,500 tokens" in states[6_000].said
    assert "ok" == context_of(run, 20_000)[0].state
    replies = [context_of(run, 16_384, reply)[0].state for reply in (2_048, 16_000)]
    assert ["ok", "missing"] == replies
    assert [] == context_of(run, None)  # rules have none, and OpenAI reports none


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"grpo": Grpo(group_size=6)}, "batches"),
        ({"grpo": Grpo(global_batch=64)}, "claims"),
        ({"sampling": RolloutSampling(max_completion_tokens=99_000)}, "model"),
    ],
)
def test_what_cannot_be_trained_is_said_before(
    run: TrainingRun, changes: dict[str, object], part: str
):
    """Batches that do not divide, fewer claims than one step takes, a model that reads less."""
    assert [part] == problems(dry_run(of(run, **changes), RULES))


def test_a_machine_that_cannot_hold_the_run_is_a_problem(run: TrainingRun, tmp_path: Path):
    """A GPU that is not there, or too little free memory, of the machine or of its container."""
    import torch

    if not torch.cuda.is_available():
        result = dry_run(replace(run, device="cuda"), RULES)
        assert ["GPU"] == problems(result)
        assert result.memory.total > result.memory.weights > 0
    batch = replace(PAPER_7B.grpo, per_device_batch=2**21, global_batch=2**21)
    every = dry_run(of(run, grpo=batch), RULES).problems
    (problem,) = [one for one in every if one.part == "memory"]
    assert "GiB" in problem.said
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
    problem, *others = reversed(dry_run(sampled, RULES).problems)
    assert ("vllm", "not installed") == (problem.what, problem.said)
    assert ["sampler"] * (engine == "vllm_server") == [one.part for one in others]
    assert "pip install -e '.[gpu]' -c constraints-gpu.txt" == problem.fix


@pytest.mark.skipif(find_spec("liger_kernel") is not None, reason="liger-kernel is installed")
def test_a_memory_setting_that_cannot_work_is_a_problem(run: TrainingRun):
    """Sleep without vLLM in the trainer; liger without a GPU, or not installed."""
    for changed, said in (
        ({"generation": Generation(sleep_mode=True)}, ["only vLLM in the trainer sleeps"]),
        ({"liger": True}, ["its kernels need a GPU"]),
        ({"liger": True, "device": "cuda"}, ["liger-kernel is not installed"]),
        ({"generation": Generation("vllm_colocate", sleep_mode=True)}, []),
    ):
        checks = memory_setting_checks(replace(run, **changed))
        assert said == [one.said.split(",")[0] for one in checks]


def test_the_vllm_that_samples_is_the_one_that_trl_asks_for():
    """The extra has the same range; the page has TRL's own command with the recipe's values."""
    versions = ("0.21.0", "0.22.0rc1", "0.22.0", "0.31.0+cpu", "0.32.0")
    states = ["missing", "missing", "ok", "ok", "missing"]
    assert states == [vllm_check(version).state for version in versions]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = map(Requirement, extras["optional-dependencies"]["gpu"])
    assert [VLLM_RANGE] == [one.specifier for one in wanted if one.name == "vllm"]
    page = joined((ROOT / "docs/how-to/gpus.md").read_text("utf-8"))
    (line,) = [one for one in page.splitlines() if "--weight-transfer-config" in one]
    words = shlex.split(line)
    serve = words.index("serve")
    recipe: Experiment = experiment("paper_7b")
    sampling = recipe.sampling
    script = ScriptArguments(
        model=words[serve + 1],
        host="127.0.0.1",
        port=8003,
        dtype=recipe.lora.dtype,
        max_model_len=sampling.max_prompt_tokens + sampling.max_completion_tokens,
        gpu_memory_utilization=LAYOUTS[-1].servers[-1].share,
    )
    wanted = options(build_command(script, ["--seed", str(recipe.seed)]))
    shown = options(words)
    assert shown == {name: wanted[name] for name in shown}
    bare = options(build_command(ScriptArguments(model=words[serve + 1])))
    defaults = set(bare) - {"--weight-transfer-config", "--logprobs-mode", "--max-logprobs"}
    assert set(wanted) - set(shown) <= defaults
    assert recipe.model == words[serve + 1]
    assert "VLLM_SERVER_DEV_MODE=1" in words[:serve]
    pages = [one.read_text("utf-8") for one in sorted((ROOT / "docs").rglob("*.md"))]
    assert [] == re.findall(r"^(?:\w+=\S+ )*trl vllm-serve", "\n".join(pages), re.MULTILINE)


def test_the_page_survives_json_and_names_every_problem(run: TrainingRun):
    """What goes to the run's log and its metadata is plain and whole."""
    result = dry_run(replace(run, device="cuda"), SilentJudge())
    plain = json.loads(json.dumps(dry_run_plain(result)))
    assert problem_lines(result) == plain["problems"]
    assert len(plain["problems"]) >= 1
    assert sum(row["claims"] for row in plain["prompt_tokens"] if row["source"] == "all") == 4
    assert pl.DataFrame(plain["prompt_tokens"]).height == 3
    assert all(use in plain["markdown"] for use in (*plain["disk"], *plain["memory"]))


MODEL, TOKENS, FIX = "a/policy", 16_000, "start it"
SERVED: dict[str, object] = {"id": MODEL, "max_model_len": TOKENS}


def asked(
    version: str = "0.31.0+cpu",
    models: Sequence[dict[str, object]] = (SERVED,),
    *,
    status: int = 0,
    absent: Iterable[str] = (),
) -> ReadinessCheck:
    """What is found of a server that answers as vLLM 0.31 does, but for these changes."""
    answers = {
        "/health": None,
        "/version": {"version": version},
        "/v1/models": {"object": "list", "data": models},
        "/get_world_size": {"world_size": 1},
    }
    files = {path: json.dumps(it).encode() for path, it in answers.items() if path not in absent}
    with FileServer(files) as server:
        server.faults["/health"] = [Fault(status=status)] * bool(status)
        return sampler(server.url(), MODEL, TOKENS, FIX)


def test_a_server_that_can_sample_is_found_ready():
    """By its model's name or the folder that it was started with; one that is gone is missing."""
    assert "ok" == asked().state
    assert "ok" == asked(models=[SERVED | {"id": "policy", "root": MODEL}]).state
    gone = sampler("http://127.0.0.1:9", MODEL, TOKENS, FIX)
    assert ("missing", True) == (gone.state, "does not answer" in gone.said)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"status": 503}, "503"),
        ({"version": "0.21.0"}, "0.21.0 is refused"),
        ({"models": ({"id": "another"}, {"id": MODEL})}, "serves another"),
        ({"models": [SERVED | {"max_model_len": 4_096}]}, "4,096 tokens"),
        ({"models": ()}, "not answer as vLLM"),
        ({"absent": ["/get_world_size"]}, "VLLM_SERVER_DEV_MODE=1"),
    ],
)
def test_a_server_that_cannot_sample_is_named_with_the_reason(server: dict[str, object], said: str):
    """Health, version, model, context, and the endpoints through which TRL sends the weights."""
    result = asked(**server)  # type: ignore[arg-type]
    assert ("missing", FIX) == (result.state, result.fix)
    assert said in result.said


def options(words: list[str]) -> dict[str, str]:
    """The options of a command line, each with its value."""
    return {name: value for name, value in pairwise(words) if name.startswith("--")}
