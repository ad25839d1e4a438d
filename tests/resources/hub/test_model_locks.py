"""The commit of a hub model is locked at its first use, and every later use loads that one."""

import logging
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dagster_project.engine_choices import (
    JUDGE,
    MINICHECK_7B,
    POLICY,
    QUESTIONS,
    TINY_JUDGE,
    engine_choices,
)
from decomposerl.errors import ConfigError, EngineMissing
from decomposerl.evaluation.systems import CHAT_MODELS
from decomposerl.training.experiments import EXPERIMENTS
from decomposerl.training.layout import LAYOUTS
from documents import joined
from project import ROOT
from resources.hub.locks import LockState, ModelLocks, locked_models, models_lock, read_model_lock
from resources.hub.models import HUB_MODELS, HubModel
from resources.verifier.minicheck_local import MODELS

NAME = "org/model"
A, B = "a" * 40, "b" * 40


def publish(hub: Path, commit: str, name: str = NAME) -> None:
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
    publish(tmp_path / "hub", A)
    assert A == locks(tmp_path).fetched(NAME)
    publish(tmp_path / "hub", B)
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
    publish(tmp_path / "hub", B)
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
    publish(tmp_path / "hub", A)
    pinned = locks(tmp_path, table=[HubModel(NAME, "tests", "MIT", commit=B)])
    assert B == pinned.fetched(NAME)
    assert {NAME: B} == written(tmp_path)
    other = locks(tmp_path, table=[HubModel(NAME, "tests", "MIT", commit=A)])
    with pytest.raises(ConfigError, match=rf"{A} .*{B}"):
        other.fetched(NAME)


def test_settings_of_a_person_are_kept(tmp_path: Path):
    """A full commit, a folder, and no lock file at all; a branch has a line of its own."""
    publish(tmp_path / "hub", A)
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
        publish(tmp_path / "hub", A, name)
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
    """``docs/how-to/gpus.md`` has each model with its use and licence, and whose code runs."""
    page = joined((ROOT / "docs/how-to/gpus.md").read_text("utf-8"))
    assert [] == [
        row.name
        for row in HUB_MODELS
        if f"| {row.name} | {row.used_for} | {row.licence} |" not in page or row.commit not in page
    ]
    trusted = set(re.findall(r"vllm serve (\S+) .*--trust-remote-code", page))
    assert {row.name for row in HUB_MODELS if row.remote_code} == trusted
