"""Corpora at a pinned revision, and models whose commit is locked at their first use.

Repositories are laid out as folders, or answer on loopback.
"""

import json
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dagster_project.cli import app
from dagster_project.engine_choices import (
    JUDGE,
    MINICHECK_7B,
    POLICY,
    QUESTIONS,
    TINY_JUDGE,
    engine_choices,
)
from dagster_project.profiles import profile_from_environment, resources_for
from decomposerl.baselines.catalogue import METHODS
from decomposerl.claims.source import HubLocation
from decomposerl.errors import ConfigError, EngineMissing, SourceError, SourceFileError
from decomposerl.evaluation.entries import SystemEntry
from decomposerl.evaluation.systems import CHAT_MODELS, system_named, systems
from decomposerl.schemas import TRAINING_CLAIMS
from decomposerl.training.experiment import HeldOut
from decomposerl.training.experiments import EXPERIMENTS, experiment
from documents import joined
from project import PYTHONPATH, ROOT
from resources.chat.settings import ChatSettings
from resources.embedder.resource import EmbedderResource
from resources.evaluation.engine import EntryEngine
from resources.evaluation.model import EvaluationModelResource
from resources.hub.download import fetch, read_lock, sha256_of
from resources.hub.locks import LockState, ModelLocks, locked_models, models_lock, read_model_lock
from resources.hub.models import HUB_MODELS, HubModel
from resources.policy_tiny.folder import CHECKPOINT
from resources.store.parquet import DataFolder, write_parquet
from resources.tokens.resource import TokensResource
from resources.training.process import TrainingRun
from resources.training.resource import PolicyTrainerResource
from resources.training.run_inputs import gather_inputs, restart_notice
from resources.training.run_store import RunFolder, begin_attempt, recorded_in_config, write_json
from resources.verifier.minicheck_local import MODELS
from resources.verifier.resource import VerifierResource
from resources.vllm.server import ServerFields
from studies.reference.layouts import LAYOUTS
from training_graph import claims

LOCATION = HubLocation("org/toy", (("data/a.jsonl", "toy/a.jsonl"), ("b.csv", "toy/b.csv")))


def publish(hub: Path, revision: str, text: str, *, main: bool = True) -> None:
    folder = hub / "org" / "toy"
    for file, _ in LOCATION.files:
        path = folder / revision / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text} {file}")
    if main:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / "main").write_text(revision + "\n")


def get(tmp_path: Path, revision: str | None = None) -> list[Path]:
    endpoint = (tmp_path / "hub with space").resolve().as_uri()
    lock = tmp_path / "corpora.lock.toml"
    return fetch(LOCATION, tmp_path / "corpora", lock, revision=revision, endpoint=endpoint)


@pytest.fixture(autouse=True)
def hub(tmp_path: Path) -> Path:
    folder = tmp_path / "hub with space"
    publish(folder, "c0ffee", "first")
    return folder


def test_the_first_fetch_pins_the_commit_and_the_hashes(tmp_path: Path):
    """Files land below the corpora folder and the lock holds commit and SHA-256 of each."""
    paths = get(tmp_path)
    assert [tmp_path / "corpora" / local for _, local in LOCATION.files] == paths
    assert "first data/a.jsonl" == paths[0].read_text()
    lock = read_lock(tmp_path / "corpora.lock.toml")["org/toy"]
    assert "c0ffee" == lock.revision
    assert {"data/a.jsonl": sha256_of(paths[0]), "b.csv": sha256_of(paths[1])} == lock.sha256


def test_a_file_of_a_person_is_kept_under_another_name(tmp_path: Path):
    """The fetched one takes its place; a further fetch renames nothing."""
    own = tmp_path / "corpora" / LOCATION.files[0][1]
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    for _ in range(2):
        get(tmp_path)
        assert "first data/a.jsonl" == own.read_text()
    kept = list(own.parent.glob("*.replaced-*"))
    assert ["mine"] == [one.read_text() for one in kept]


def test_later_fetches_stay_on_the_locked_commit(tmp_path: Path, hub: Path):
    """A branch that moves changes nothing, and a damaged local file is fetched again."""
    paths = get(tmp_path)
    publish(hub, "beef", "second")
    before = (tmp_path / "corpora.lock.toml").read_text()
    paths[0].write_text("damaged")
    assert ["first data/a.jsonl", "first b.csv"] == [path.read_text() for path in get(tmp_path)]
    assert before == (tmp_path / "corpora.lock.toml").read_text()


def test_a_fetch_that_broke_off_while_it_copied_continues_at_its_commit(tmp_path: Path, hub: Path):
    """What it copied is neither renamed nor of another commit than the rest."""
    blocking = tmp_path / "corpora" / LOCATION.files[1][1]
    blocking.mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        get(tmp_path)
    publish(hub, "beef", "second")
    blocking.rmdir()
    assert ["first data/a.jsonl", "first b.csv"] == [path.read_text() for path in get(tmp_path)]
    assert "c0ffee" == read_lock(tmp_path / "corpora.lock.toml")["org/toy"].revision
    assert [] == list(blocking.parent.glob("*.replaced-*"))


def test_an_explicit_revision_pins_anew(tmp_path: Path, hub: Path):
    """Asking for another commit replaces the entry; other entries of the lock stay."""
    get(tmp_path)
    lock = tmp_path / "corpora.lock.toml"
    lock.write_text(lock.read_text() + '\n["org/other"]\nrevision = "x"\n["org/other".sha256]\n')
    publish(hub, "beef", "second", main=False)
    assert "second b.csv" == get(tmp_path, "beef")[1].read_text()
    assert {"org/toy": "beef", "org/other": "x"} == {
        repo: entry.revision for repo, entry in read_lock(lock).items()
    }


def test_a_pattern_takes_the_one_file_that_matches_and_pins_its_name(tmp_path: Path, hub: Path):
    """A file whose exact name is unknown is found by pattern; two matches are refused."""
    endpoint, lock = hub.resolve().as_uri(), tmp_path / "corpora.lock.toml"
    location = HubLocation("org/toy", (("*.jsonl", "toy/rows.jsonl"),))
    (path,) = fetch(location, tmp_path, lock, endpoint=endpoint)
    assert "first data/a.jsonl" == path.read_text()
    assert {"data/a.jsonl"} == set(read_lock(lock)["org/toy"].sha256)
    (hub / "org" / "toy" / "c0ffee" / "z.jsonl").write_text("a later neighbour")
    assert [path] == fetch(location, tmp_path, lock, endpoint=endpoint)
    with pytest.raises(SourceFileError, match=r"'\*\.jsonl'.*data/a\.jsonl, z\.jsonl"):
        fetch(location, tmp_path, tmp_path / "other.toml", endpoint=endpoint)


def test_changed_content_at_the_locked_commit_is_refused(tmp_path: Path, hub: Path):
    """A hash that differs names file and lock, and the corpora folder keeps its copy."""
    paths = get(tmp_path)
    publish(hub, "c0ffee", "forged")
    paths[1].unlink()
    with pytest.raises(SourceFileError, match=r"b\.csv has SHA-256"):
        get(tmp_path)
    assert "first data/a.jsonl" == paths[0].read_text()
    assert not paths[1].exists()


def test_absent_revisions_files_and_broken_locks_are_named(tmp_path: Path, hub: Path):
    """Each failure is an error of the corpus that says what is absent."""
    with pytest.raises(SourceError, match="'dead'"):
        get(tmp_path, "dead")
    (hub / "org" / "toy" / "c0ffee" / "b.csv").unlink()
    with pytest.raises(SourceFileError, match=r"b\.csv"):
        get(tmp_path)
    (tmp_path / "corpora.lock.toml").write_text("[broken")
    with pytest.raises(SourceFileError, match="lock"):
        get(tmp_path)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class LoopbackHub(BaseHTTPRequestHandler):
    """The few answers of the hub's protocol that a fetch asks for; ``org/gated`` is gated."""

    def do_HEAD(self) -> None:
        """Headers only."""
        self.answer(body=False)

    def do_GET(self) -> None:
        """Headers and content."""
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        """Answer by path alone."""
        content, headers, status = b"from the hub", {"ETag": '"e1"', "X-Repo-Commit": COMMIT}, 200
        if "/org/gated" in self.path:
            content, headers, status = b"", {"X-Error-Code": "GatedRepo"}, 403
        elif self.path.startswith("/api/datasets/org/toy"):
            content = json.dumps({"id": "org/toy", "sha": COMMIT, "siblings": []}).encode()
        elif f"/datasets/org/toy/resolve/{COMMIT}/" not in self.path:
            content, headers, status = b"", {"X-Error-Code": "EntryNotFound"}, 404
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing."""


ELSEWHERE = """
import sys
from pathlib import Path
from decomposerl.claims.source import HubLocation
from decomposerl.errors import DecomposeRLError
from resources.hub.download import fetch
def said(repo, endpoint):
    where = HubLocation(repo, (("d/a.jsonl", "toy/a.jsonl"),), gated=True)
    try:
        print(fetch(where, Path("c"), Path("lock"), endpoint=endpoint)[0].read_text())
    except DecomposeRLError as error:
        print(type(error).__name__, error)
endpoint, nobody = sys.argv[1:]
sys.modules["huggingface_hub"] = None
said("org/toy", nobody)
del sys.modules["huggingface_hub"]
said("org/dead", nobody)
said("org/gated", endpoint)
said("org/toy", endpoint)
"""


def test_the_network_path_fetches_and_pins(tmp_path: Path):
    """The client takes the branch's commit; terms, a missing package, a dead host are named."""
    home = {"HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    with ThreadingHTTPServer(("127.0.0.1", 0), LoopbackHub) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=[0.02])
        thread.start()
        done = subprocess.run(
            [sys.executable, "-c", ELSEWHERE]
            + [f"http://127.0.0.1:{port}" for port in (httpd.server_address[1], 9)],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", **home},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        httpd.shutdown()
        thread.join()
    missing, dead, gated, content = done.stdout.splitlines()
    assert missing.startswith("EngineMissing")
    assert "pip install 'decomposerl[hub]'" in missing
    assert dead.startswith("SourceError org/dead ")
    assert gated.startswith("SourceError org/gated ")
    assert "https://" in gated
    assert "token" in gated
    assert "from the hub" == content
    lock = read_lock(tmp_path / "lock")["org/toy"]
    assert (COMMIT, ["d/a.jsonl"]) == (lock.revision, list(lock.sha256))


# Locks of models


NAME = "org/model"
A, B = "a" * 40, "b" * 40


def publish_model(hub: Path, commit: str, name: str = NAME) -> None:
    """The hub's main branch is now at ``commit``."""
    ref = hub / name / "refs" / "main"
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_text(commit + "\n")


def download(cache: Path, commit: str, name: str = NAME) -> None:
    """As ``hf download`` leaves the hub's cache."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "snapshots" / commit).mkdir(parents=True)
    (repository / "snapshots" / commit / "config.json").write_text("{}")
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(commit)


def locks(folder: Path, **changes: object) -> ModelLocks:
    """Over a hub and a cache in ``folder``; neither need be there."""
    fields: dict[str, object] = {
        "file": models_lock(folder / "data"),
        "endpoint": (folder / "hub").as_uri(),
        "cache": folder / "cache",
    }
    return ModelLocks(**{**fields, **changes})  # type: ignore[arg-type]


def written(folder: Path) -> dict[str, str]:
    return read_model_lock(models_lock(folder / "data"))


def test_the_first_use_locks_and_a_moved_branch_changes_nothing(tmp_path: Path):
    """The hub is asked once; its new commit is taken only after a person deletes the line."""
    publish_model(tmp_path / "hub", A)
    assert A == locks(tmp_path).fetched(NAME)
    publish_model(tmp_path / "hub", B)
    assert [A] * 4 == [
        locks(tmp_path).fetched(NAME),
        locks(tmp_path).required(NAME, "main"),
        locks(tmp_path).cached(NAME),
        locks(tmp_path).state(NAME).locked,
    ]
    assert {NAME: A} == written(tmp_path)
    Path(models_lock(tmp_path / "data")).unlink()
    assert B == locks(tmp_path).fetched(NAME)


def test_what_is_in_the_cache_is_locked_without_asking(tmp_path: Path):
    """The commit that is on this machine, not the newer one of the hub."""
    download(tmp_path / "cache", A)
    publish_model(tmp_path / "hub", B)
    assert LockState("", A) == locks(tmp_path).state(NAME)
    assert {} == written(tmp_path)  # a look writes nothing
    assert A == locks(tmp_path).cached(NAME)
    assert A == locks(tmp_path).required(NAME)
    assert LockState(A, A) == locks(tmp_path).state(NAME)


@pytest.mark.parametrize("use", ["cached", "fetched", "required", "state"])
def test_a_machine_with_another_commit_is_refused(tmp_path: Path, use: str):
    """The message names model, both commits and both ways out; with the locked one it is fine."""
    download(tmp_path / "cache", A)
    locks(tmp_path).cached(NAME)
    download(tmp_path / "elsewhere", B)
    moved = locks(tmp_path, cache=tmp_path / "elsewhere")
    with pytest.raises(ConfigError) as refused:
        getattr(moved, use)(NAME)
    said = str(refused.value)
    for part in (f"hf download {NAME} --revision {A}", B, models_lock(tmp_path / "data")):
        assert part in said
    download(tmp_path / "elsewhere", A)  # both are there now
    assert A == moved.cached(NAME)


def test_code_of_a_repository_needs_a_commit_and_others_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """Offline and not cached: the one is refused with the command, the other runs as before."""
    with pytest.raises(EngineMissing, match=rf"{NAME} .*hf download {NAME}$"):
        locks(tmp_path).required(NAME)
    with caplog.at_level(logging.WARNING):
        assert "" == locks(tmp_path).fetched(NAME)
    assert NAME in caplog.text
    assert "" == locks(tmp_path).cached(NAME)
    assert {} == written(tmp_path)


def test_a_pin_of_the_project_is_locked_and_must_agree(tmp_path: Path):
    """The table's commit wins over cache and hub; a file with another one is refused."""
    publish_model(tmp_path / "hub", A)
    pinned = locks(tmp_path, table=[HubModel(NAME, "tests", "MIT", commit=B)])
    assert B == pinned.fetched(NAME)
    assert {NAME: B} == written(tmp_path)
    other = locks(tmp_path, table=[HubModel(NAME, "tests", "MIT", commit=A)])
    with pytest.raises(ConfigError, match=rf"{A} .*{B}"):
        other.fetched(NAME)


def test_settings_of_a_person_are_kept(tmp_path: Path):
    """A full commit, a folder, and no lock file at all; a branch has a line of its own."""
    publish_model(tmp_path / "hub", A)
    assert B == locks(tmp_path).required(NAME, B)
    assert "" == locks(tmp_path).required(str(tmp_path))
    assert "v1" == locks(tmp_path, file="").required(NAME, "v1")
    assert {} == written(tmp_path)
    (tmp_path / "hub" / NAME / "refs" / "v1").write_text(B)
    assert (B, A) == (locks(tmp_path).fetched(NAME, "v1"), locks(tmp_path).fetched(NAME))
    assert {NAME: A, f"{NAME}@v1": B} == written(tmp_path)
    assert [NAME] == locked_models(models_lock(tmp_path / "data"))


def test_models_that_are_locked_at_once_all_have_their_line(tmp_path: Path):
    """No writer loses the line of another."""
    names = [f"org/model-{number}" for number in range(12)]
    for name in names:
        publish_model(tmp_path / "hub", A, name)
    with ThreadPoolExecutor(6) as pool:
        assert {A} == set(pool.map(locks(tmp_path).fetched, names))
    assert dict.fromkeys(names, A) == written(tmp_path)


@pytest.mark.parametrize("text", ["no toml", f'"{NAME}" = "main"', f'["{NAME}"]\nrevision = "{A}"'])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str):
    """It is never read as if nothing were locked."""
    file = Path(models_lock(tmp_path / "data"))
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(str(file))):
        locks(tmp_path).cached(NAME)


def test_the_table_has_every_model_that_the_project_names():
    """Of both profiles, recipes, baselines and MiniCheck; those of endpoints of OpenAI are none."""
    local, paper = engine_choices("local", {}), engine_choices("paper", {})
    named = {POLICY, MINICHECK_7B, JUDGE, QUESTIONS, local.sentence_model, local.tokenizer}
    named |= {TINY_JUDGE}
    named |= {one.model for one in (*local.servers, *paper.servers) if not one.needs_key}
    named |= {one.requested for one in CHAT_MODELS if one.port == "open"}
    named |= {one.model for one in EXPERIMENTS if not one.on_tiny_base}
    named |= {one.repo_id for one in MODELS.values()}
    named |= {server.model for layout in LAYOUTS for server in layout.servers}
    assert named == {row.name for row in HUB_MODELS}


def test_the_gpu_page_shows_the_table():
    """``docs/how-to/gpus.md`` has each model with its licence and commit, and whose code runs."""
    page = joined((ROOT / "docs/how-to/gpus.md").read_text("utf-8"))
    for row in HUB_MODELS:
        assert f"| {row.name} | {row.used_for} | {row.licence} |" in page
        assert row.commit in page
    trusted = set(re.findall(r"vllm serve (\S+) .*--trust-remote-code", page))
    assert {row.name for row in HUB_MODELS if row.remote_code} == trusted


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
        entry = SystemEntry(name="a", method="simple", model=NAME, **fields)  # type: ignore[arg-type]
        locks = ModelLocks(lock(tmp_path, A, NAME))
        server = ServerFields(vllm=["vllm"])
        model = EvaluationModelResource(results_dir=str(tmp_path), server=server)
        engine = EntryEngine(entry, model, locks)
        words = engine.server(A).command.words(1)
        return engine.client().engine, words[words.index("--revision") + 1]

    assert (f"chat:{NAME}@{A}", A) == parts(runs="server")
    assert f"chat:{NAME}" == parts(base_url="http://127.0.0.1:1/v1")[0]


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
    words = [sys.executable, "-c", CHILD, str(tmp_path), A]
    names = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    env = os.environ | names | {"PYTHONPATH": PYTHONPATH}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
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
