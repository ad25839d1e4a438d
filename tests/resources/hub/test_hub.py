"""Models whose commit is locked at their first use, from a hub laid out as folders."""

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dagster_project.cli import app
from dagster_project.engine_resources import resources_for
from dagster_project.environment import read_settings
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError, EngineMissing
from decomposerl.evaluation.systems import CHAT_MODELS
from decomposerl.schemas import TRAINING_CLAIMS
from decomposerl.training.experiment import HeldOut
from decomposerl.training.experiments import EXPERIMENTS, experiment
from documents import joined
from environment import settings_of
from evaluation_runs import opened
from project import PYTHONPATH, ROOT
from resources.chat.endpoint import EndpointConfig, config_of
from resources.embedder.resource import EmbedderResource
from resources.hub.locks import (
    HUB_MODELS,
    ModelLocks,
    Pin,
    model_commit,
    models_lock,
    read_model_lock,
)
from resources.policy_tiny.folder import CHECKPOINT
from resources.store.parquet import DataFolder, write_parquet
from resources.tokens.resource import TokensResource
from resources.training.process import TrainingRun
from resources.training.resource import PolicyTrainerResource
from resources.training.run_inputs import gather_inputs, restart_notice
from resources.training.run_store import RunFolder, begin_attempt, recorded_in_config, write_json
from resources.verifier.local import MODELS
from resources.verifier.resource import VerifierResource
from resources.vllm.server import ServerFields
from studies.reference.layouts import LAYOUTS
from training_graph import claims

NAME, BASELINE = "org/model", "simple-qwen2.5-7b-faithful"
A, B = "a" * 40, "b" * 40


class Hub:
    """A hub whose branches are at ``commits``, by model and branch; it counts what it was asked."""

    def __init__(self, **commits: str) -> None:
        """``main`` is the commit of the main branch of every model."""
        self.commits, self.calls = commits, 0

    def __call__(self, model: str, branch: str) -> str:
        """The commit, as ``model_commit``."""
        self.calls += 1
        if branch not in self.commits:
            raise EngineMissing(f"the commit of {model} is not known. hf download {model}")
        return self.commits[branch]


def download(cache: Path, commit: str, name: str = NAME) -> None:
    """As ``hf download`` leaves the hub's cache."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "snapshots" / commit).mkdir(parents=True)
    (repository / "snapshots" / commit / "config.json").write_text("{}")
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(commit)


def locks(folder: Path, hub: Pin = Hub(), cache: str = "cache") -> ModelLocks:  # noqa: B008 - never changed
    """Over a hub and a cache in ``folder``, which need not be there."""
    return ModelLocks(models_lock(folder / "data"), folder / cache, hub)


def written(folder: Path) -> dict[str, str]:
    return read_model_lock(models_lock(folder / "data"))


def test_the_first_use_locks_and_a_moved_branch_changes_nothing(tmp_path: Path):
    """The hub is asked once; its new commit is taken only after a person deletes the line."""
    hub = Hub(main=A)
    assert A == locks(tmp_path, hub).fetched(NAME)
    hub.commits["main"] = B
    moved = locks(tmp_path, hub)
    assert {A} == {moved.fetched(NAME), moved.fetched(NAME, "main"), moved.cached(NAME)}
    assert (A, "") == moved.state(NAME)
    assert 1 == hub.calls
    assert {NAME: A} == written(tmp_path)
    Path(models_lock(tmp_path / "data")).unlink()
    assert B == locks(tmp_path, hub).fetched(NAME)


def test_what_is_in_the_cache_is_locked_without_asking(tmp_path: Path):
    """The commit that is on this machine, not the newer one of the hub."""
    download(tmp_path / "cache", A)
    hub = Hub(main=B)
    assert ("", A) == locks(tmp_path, hub).state(NAME)
    assert {} == written(tmp_path)  # a look writes nothing
    assert A == locks(tmp_path, hub).cached(NAME)
    assert A == locks(tmp_path, hub).fetched(NAME)
    assert (A, A) == locks(tmp_path, hub).state(NAME)
    assert 0 == hub.calls


@pytest.mark.parametrize("use", ["cached", "fetched", "state"])
def test_a_machine_with_another_commit_is_refused(tmp_path: Path, use: str):
    """The message names model, both commits and both ways out; with the locked one it is fine."""
    download(tmp_path / "cache", A)
    locks(tmp_path).cached(NAME)
    download(tmp_path / "elsewhere", B)
    moved = locks(tmp_path, cache="elsewhere")
    with pytest.raises(ConfigError) as refused:
        getattr(moved, use)(NAME)
    said = str(refused.value)
    for part in (f"hf download {NAME} --revision {A}", B, models_lock(tmp_path / "data")):
        assert part in said
    download(tmp_path / "elsewhere", A)  # both are there now
    assert A == moved.cached(NAME)


def test_a_model_without_a_commit_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Offline and not cached: it is loaded as before; the hub's error has the command."""
    with pytest.raises(EngineMissing, match=rf"{NAME} .*hf download {NAME}$"):
        model_commit(NAME, "main")
    with caplog.at_level(logging.WARNING):
        assert "" == locks(tmp_path).fetched(NAME)
    assert NAME in caplog.text
    assert "" == locks(tmp_path).cached(NAME)
    assert {} == written(tmp_path)


def test_settings_of_a_person_are_kept(tmp_path: Path):
    """A full commit, a folder, and no lock file at all; a branch has a line of its own."""
    hub = Hub(main=A, v1=B)
    assert B == locks(tmp_path, hub).fetched(NAME, B)
    assert "" == locks(tmp_path, hub).fetched(str(tmp_path))
    assert "v1" == ModelLocks("", ask=hub).fetched(NAME, "v1")
    assert {} == written(tmp_path)
    assert (B, A) == (locks(tmp_path, hub).fetched(NAME, "v1"), locks(tmp_path, hub).fetched(NAME))
    assert {NAME: A, f"{NAME}@v1": B} == written(tmp_path)


def test_models_that_are_locked_at_once_all_have_their_line(tmp_path: Path):
    """No writer loses the line of another."""
    names = [f"org/model-{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        assert {A} == set(pool.map(locks(tmp_path, Hub(main=A)).fetched, names))
    assert dict.fromkeys(names, A) == written(tmp_path)


@pytest.mark.parametrize("text", ["a = " + "[" * 9_000, f'"{NAME}" = "a"', f'["{NAME}"]\na = 1'])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str):
    """It is never read as if nothing were locked."""
    file = Path(models_lock(tmp_path / "data"))
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(str(file))):
        locks(tmp_path).cached(NAME)


def test_the_table_has_every_model_that_the_project_names():
    """Of both profiles, recipes, baselines and MiniCheck; those of endpoints of OpenAI are none."""
    local, paper = (settings_of(Path(), profile=name) for name in ("local", "paper"))
    roles = (*local.served.values(), *paper.served.values())
    named = {local.embedder.model, local.text.tokenizer, paper.training.encoder}
    named |= {role.model for role in roles if not role.at_openai}
    named |= {one.requested for one in CHAT_MODELS if one.port == "open"}
    named |= {one.model for one in EXPERIMENTS if not one.on_tiny_base}
    named |= {one.repo_id for one in MODELS.values()}
    named.add("ibm-granite/granite-guardian-3.3-8b")  # of the template of systems.toml
    named |= {server.model for layout in LAYOUTS for server in layout.servers}
    assert named == set(HUB_MODELS)


def test_the_gpu_page_shows_the_table():
    """``docs/how-to/gpus.md`` has each model with its licence, and whose code runs."""
    page = joined((ROOT / "docs/how-to/gpus.md").read_text("utf-8"))
    for name, row in HUB_MODELS.items():
        assert f"| {name} | {row['used_for']} | {row['licence']} |" in page
    trusted = set(re.findall(r"vllm serve (\S+) .*--trust-remote-code", page))
    assert {name for name, row in HUB_MODELS.items() if row.get("remote_code")} == trusted


# Whatever loads a hub model loads the locked commit


def lock(data: Path, commit: str, name: str = NAME) -> str:
    """The lock file of a data folder, with one line."""
    data.mkdir(parents=True, exist_ok=True)
    Path(models_lock(data)).write_text(f'"{name}" = "{commit}"\n')
    return models_lock(data)


def test_engines_in_process_ask_for_the_locked_commit(tmp_path: Path):
    """Tokenizer, embedder and verifier name it in the command that gets it."""
    file = lock(tmp_path / "names", A)
    stored = {"results_dir": str(tmp_path / "results")}
    endpoint, published = config_of(Endpoint(model=NAME)), "lytang/MiniCheck-Flan-T5-Large"
    own = {"models_lock": lock(tmp_path, B, published), "allow_own_prompt": True, **stored}
    named = {"models_lock": file, "endpoint": endpoint, **stored}
    tokens = TokensResource(engine="tokenizer", model=NAME, models_lock=file).open()
    vectors = EmbedderResource(engine="sentence_transformers", **named).open()
    verifier = VerifierResource(engine="minicheck_local", **own).open()
    assert f"tokens:{NAME}@{A}" == tokens.unit
    with pytest.raises(EngineMissing, match=rf"hf download {NAME} tokenizer\.json --revision {A}"):
        tokens.count(["one"])
    with pytest.raises(EngineMissing, match=f"hf download {NAME} --revision {A}"):
        vectors.embed(["one"])
    with pytest.raises(EngineMissing, match=f"hf download {published} --revision {B}"):
        verifier.support_probability([("a", "b")])


def test_a_baselines_server_loads_the_commit_that_is_part_of_its_answers_name(tmp_path: Path):
    """Where one is started; of a running one nothing is known."""

    def engine(**fields: object) -> str:
        lock(tmp_path, A, NAME)
        place, server = EndpointConfig(model=NAME, **fields), ServerFields(vllm=["vllm"])
        with opened(tmp_path, BASELINE, open_models=place, server=server) as system:
            return system.engine

    assert f"chat:{NAME}@{A} continued" == engine(runs="server")
    assert f"chat:{NAME} continued" == engine(base_url=["http://127.0.0.1:1/v1"])


def test_the_profile_hands_its_lock_file_to_everything_that_loads_a_model(tmp_path: Path):
    """Engines by their field, the evaluation by its data folder."""
    env = {"DECOMPOSERL_PROFILE": "paper", "DECOMPOSERL_DATA": str(tmp_path)}
    paper = resources_for(read_settings(env))
    local = resources_for(read_settings(env | {"DECOMPOSERL_PROFILE": "local"}))
    file = models_lock(tmp_path.resolve())
    engines = [paper["tokens"], paper["verifier"], local["tokens"], local["verifier"]]
    engines += [local["embedder"], local["question_embedder"]]
    assert {file} == {engine.models_lock for engine in engines}


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
    run, recorded = RunFolder(data.path / "policy" / RECIPE.name), []
    run.path.mkdir(parents=True)
    for config in ({}, {"base": NAME}, {"base": NAME, "revision": A}):
        write_json(run.config, config)
        recorded.append(recorded_in_config(run, "revision"))
    assert ["", "", A] == recorded


CHILD = """
import sys
from pathlib import Path
from decomposerl.endpoint import Endpoint
from resources.evaluation.local_model import load_weights
from resources.training.preflight import _lengths, _shape
from resources.training.train import load_policy
from training_parts import run_of
run = run_of(Path(sys.argv[1]) / "run", Path("org/model"), revision=sys.argv[2])
load_policy(run)
print(type(_lengths(run)).__name__, type(_shape(run)).__name__)
load_weights(Endpoint(model="org/model", revision=sys.argv[2]))
"""


def test_trainer_dry_run_and_evaluation_read_the_commit_and_not_the_branch(tmp_path: Path):
    """The main branch of this cache holds no model; the commit does."""
    download(tmp_path / "hub", B)
    shutil.copytree(CHECKPOINT, tmp_path / "hub/models--org--model/snapshots" / A)
    words = [sys.executable, "-c", CHILD, str(tmp_path), A]
    names = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    env = os.environ | names | {"PYTHONPATH": PYTHONPATH}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    assert ["TokenReport", "ModelShape"] == done.stdout.splitlines()[-1].split()


def test_the_doctor_shows_locks_and_what_it_cannot_see(tmp_path: Path):
    """The locked commit, a model without one, a server elsewhere; nothing is written."""
    lock(tmp_path, A, "Qwen/Qwen2.5-7B-Instruct")
    before = Path(models_lock(tmp_path)).read_text()
    env = {"DECOMPOSERL_PROFILE": "paper", "DECOMPOSERL_JUDGE__BASE_URL": "http://127.0.0.1:1/v1"}
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
