"""Whatever loads a hub model loads the locked commit: engines, trainer, evaluation, doctor."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dagster_project.cli import app
from dagster_project.profiles import profile_from_environment, resources_for
from decomposerl.baselines.catalogue import METHODS
from decomposerl.errors import EngineMissing
from decomposerl.evaluation.systems import system_named, systems
from decomposerl.schemas import TRAINING_CLAIMS
from decomposerl.training.experiment import HeldOut
from decomposerl.training.experiments import experiment
from project import PYTHONPATH, ROOT
from resources.chat.settings import ChatSettings
from resources.embedder.resource import EmbedderResource
from resources.evaluation.method_prompts import MethodPrompts
from resources.evaluation.served_policy import ServedModels
from resources.hub.locks import models_lock
from resources.policy_tiny.folder import CHECKPOINT
from resources.store.parquet import DataFolder, write_parquet
from resources.tokens.resource import TokensResource
from resources.training.process import TrainingRun
from resources.training.resource import PolicyTrainerResource
from resources.training.run_inputs import gather_inputs, restart_notice
from resources.training.run_store import RunFolder, begin_attempt, recorded_in_config, write_json
from resources.verifier.resource import VerifierResource
from resources.vllm.shared import SharedServer
from training_graph import claims

NAME = "org/model"
A, B = "a" * 40, "b" * 40


def lock(data: Path, commit: str, name: str = NAME) -> str:
    """The lock file of a data folder, with one line."""
    data.mkdir(parents=True, exist_ok=True)
    Path(models_lock(data)).write_text(f'"{name}" = "{commit}"\n')
    return models_lock(data)


def test_engines_in_process_ask_for_the_locked_commit(tmp_path: Path):
    """Tokenizer, embedder and verifier name it in the command that gets it."""
    file = lock(tmp_path / "names", A)
    stored = {"results_dir": str(tmp_path / "results")}
    named = {"model": NAME, "models_lock": file}
    published = "lytang/MiniCheck-Flan-T5-Large"
    own = {"models_lock": lock(tmp_path, B, published), "allow_own_prompt": True}
    tokens = TokensResource(engine="tokenizer", **named).open()
    vectors = EmbedderResource(engine="sentence_transformers", **stored, **named).open()
    verifier = VerifierResource(engine="minicheck_local", **stored, **own).open()
    assert f"tokens:{NAME}@{A}" == tokens.unit
    for asked, command in (
        (lambda: tokens.count(["one"]), rf"hf download {NAME} tokenizer\.json --revision {A}"),
        (lambda: vectors.embed(["one"]), f"hf download {NAME} --revision {A}"),
        (
            lambda: verifier.support_probability([("a", "b")]),
            f"hf download {published} --revision {B}",
        ),
    ):
        with pytest.raises(EngineMissing, match=command):
            asked()


def test_a_baselines_server_loads_the_commit_that_is_part_of_its_answers_name(tmp_path: Path):
    """Where one is started; of a running one nothing is known."""

    def parts(**fields: object) -> tuple[str, str]:
        models = ServedModels(**fields)  # type: ignore[arg-type]
        caller, _ = models.caller(
            NAME,
            MethodPrompts(),
            42,
            results=tmp_path,
            closers=[],
            shared=SharedServer(),
            pin=lambda *_: A,
        )
        words = models.server(NAME, revision=A).command().words(1)
        return caller.engine, words[words.index("--revision") + 1]

    assert (f"chat:{NAME}@{A}", A) == parts(vllm=["vllm", "serve"])
    assert f"chat:{NAME}" == parts(endpoints=["http://127.0.0.1:1/v1"])[0]


def test_the_profile_hands_its_lock_file_to_everything_that_loads_a_model(tmp_path: Path):
    """Engines by their field, the evaluation by its data folder."""
    env = {"DECOMPOSERL_PROFILE": "paper", "DECOMPOSERL_DATA": str(tmp_path)}
    paper = resources_for(profile_from_environment(env))
    local = resources_for(profile_from_environment(env | {"DECOMPOSERL_PROFILE": "local"}))
    file = models_lock(tmp_path.resolve())
    assert {file} == {
        engine.models_lock
        for engine in (
            *(paper["tokens"], paper["verifier"]),
            *(local["tokens"], local["verifier"], local["embedder"], local["question_embedder"]),
        )
    }
    lock(tmp_path, A, "Qwen/Qwen2.5-7B-Instruct")
    system = system_named("simple-qwen2.5-7b-faithful", systems(METHODS, []))
    folder = DataFolder(base_dir=str(tmp_path))
    opened = paper["evaluation_model"].opened(system, folder, paper["verifier"])
    assert f"Qwen/Qwen2.5-7B-Instruct@{A}" in opened.engine


def test_a_revision_is_looked_for_at_the_first_use():
    """Making the settings sends no request; one that is named needs no look."""
    looked: list[str] = []

    def found() -> str:
        looked.append("")
        return A

    late = ChatSettings(model="m", find_revision=found).at(("http://127.0.0.1:1/v1",))
    assert [] == looked
    assert A == late.used_revision
    assert "v1" == ChatSettings(model="m", revision="v1").used_revision


@pytest.fixture
def data(tmp_path: Path) -> DataFolder:
    folder = DataFolder(base_dir=str(tmp_path / "data"))
    write_parquet(claims(TRAINING_CLAIMS, 3), folder.path / "training_claims.parquet")
    return folder


RECIPE = replace(experiment("tiny"), model=NAME, held_out=HeldOut(claims=0))


def planned(data: DataFolder) -> TrainingRun:
    inputs = gather_inputs(data, RECIPE, ("judge", "embedder"))
    return PolicyTrainerResource(module="m").plan_run(inputs, stop_unhealthy=False)


def test_another_commit_of_the_base_is_another_run(data: DataFolder):
    """The trainer's process gets the commit; a run on another one begins at step 0, and says so."""
    unknown = planned(data)
    lock(data.path, A)
    first = planned(data)
    assert ("", A) == (unknown.revision, first.revision)
    assert first == TrainingRun.from_json(first.to_json())
    assert {"revision": A} == first.base_revision
    begin_attempt(first)
    assert first.key == planned(data).key
    lock(data.path, B)
    second = gather_inputs(data, RECIPE, ("judge", "embedder"))
    assert 3 == len({unknown.key, first.key, second.key})
    assert "step 0" in restart_notice(second)


def test_a_policy_is_evaluated_on_the_commit_it_was_trained_on(data: DataFolder):
    """Not on the one that is locked by now; earlier versions recorded none."""
    run = RunFolder(data.path / "policy" / RECIPE.name)
    assert "" == recorded_in_config(run, "revision")
    run.path.mkdir(parents=True)
    write_json(run.config, {"base": NAME})
    assert "" == recorded_in_config(run, "revision")
    write_json(run.config, {"base": NAME, "revision": A})
    assert A == recorded_in_config(run, "revision")


CHILD = """
import sys
from pathlib import Path
from resources.evaluation.weights import Weights
from resources.training.preflight import _lengths, _shape
from resources.training.train import load_policy
from training_parts import run_of
run = run_of(Path(sys.argv[1]) / "run", Path("org/model"), revision=sys.argv[2])
load_policy(run)
print(type(_lengths(run)).__name__, type(_shape(run)).__name__)
print(Weights("org/model", revision=sys.argv[2]).load().context)
"""


def test_trainer_dry_run_and_evaluation_read_the_commit_and_not_the_branch(tmp_path: Path):
    """The main branch of this cache holds no model; the commit does."""
    repository = tmp_path / "hub" / "models--org--model"
    shutil.copytree(CHECKPOINT, repository / "snapshots" / A)
    (repository / "snapshots" / B).mkdir()
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(B)
    words, environment = (
        [sys.executable, "-c", CHILD, str(tmp_path), A],
        os.environ
        | {
            "HF_HUB_CACHE": str(tmp_path / "hub"),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": PYTHONPATH,
        },
    )
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
    assert ["TokenReport", "ModelShape"] == done.stdout.splitlines()[-2].split()


def test_the_doctor_shows_locks_and_what_it_cannot_see(tmp_path: Path):
    """The locked commit, a model without one, a server elsewhere; nothing is written."""
    lock(tmp_path, A, "Qwen/Qwen2.5-7B-Instruct")
    before = Path(models_lock(tmp_path)).read_text()
    env = {"DECOMPOSERL_PROFILE": "paper", "DECOMPOSERL_JUDGE_URL": "http://127.0.0.1:1/v1"}
    result = CliRunner(env=env).invoke(app, ["doctor", "--data", str(tmp_path), "--json"])
    findings = json.loads(result.stdout)["findings"]
    found = {one["what"].split(" ")[0]: one for one in findings if one["part"] == "commit"}
    policy, judge = found["Qwen/Qwen2.5-7B-Instruct"], found["Qwen/Qwen3-32B"]
    assert ("ok", f"locked to {A}") == (policy["state"], policy["said"])
    assert "Apache-2.0" in policy["what"]
    assert ("note", "start it with --revision COMMIT") == (judge["state"], judge["fix"])
    verifier = found["bespokelabs/Bespoke-MiniCheck-7B"]
    assert "code" in verifier["what"]
    assert "not locked" in verifier["said"]
    assert "text-embedding-3-large" not in found
    assert before == Path(models_lock(tmp_path)).read_text()
