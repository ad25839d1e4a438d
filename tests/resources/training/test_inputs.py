"""The copies that a training run takes of its inputs: once, and nothing else is read."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from decomposerl.errors import ConfigError, TrainingError
from decomposerl.evaluation.systems import systems
from decomposerl.schemas import SILVER_DECOMPOSED, TRAINING_CLAIMS
from decomposerl.training.experiment import HeldOut
from decomposerl.training.experiments import experiment
from project import ROOT
from resources.evaluation.training_overlap import dev_claims
from resources.store.parquet import DataFolder, file_sha256, write_parquet
from resources.store.prompts import load_prompt
from resources.training.data import policy_prompt
from resources.training.resource import PolicyTrainerResource
from resources.training.run_inputs import (
    RunInputs,
    base_of,
    gather_inputs,
    policy_folder,
    restart_notice,
)
from resources.training.run_store import RunFolder, begin_attempt
from training_graph import claims

RECIPE = replace(experiment("tiny"), held_out=HeldOut(claims=2))
PROMPT = "<!-- section: prompt -->\nRead {document}. Is it so: {claim}?\n"


@pytest.fixture
def data(tmp_path: Path) -> DataFolder:
    folder = DataFolder(base_dir=str(tmp_path / "data"))
    for table, rows in ((SILVER_DECOMPOSED, 8), (TRAINING_CLAIMS, 3)):
        write_parquet(claims(table, rows), folder.path / f"{table.name}.parquet")
    for name, text in (("config.json", "{}"), ("model.safetensors", "weights")):
        (folder.path / "base_policy").mkdir(exist_ok=True)
        (folder.path / "base_policy" / name).write_text(text)
    return folder


def gathered(data: DataFolder, prompts: str = "", **changes: object) -> RunInputs:
    return gather_inputs(data, replace(RECIPE, **changes), ("judge", "embedder"), prompts)  # type: ignore[arg-type]


def started(inputs: RunInputs) -> RunInputs:
    """As if its trainer had begun."""
    begin_attempt(PolicyTrainerResource(module="m").plan_run(inputs, stop_unhealthy=False))
    return inputs


def contents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): file_sha256(path) for path in files}


def edit(path: Path) -> None:
    """As a person may, in place."""
    path.write_bytes(path.read_bytes() + b" ")


def rewrite(data: DataFolder, rows: int) -> None:
    """As another run does."""
    write_parquet(claims(TRAINING_CLAIMS, rows), data.path / "training_claims.parquet")


def test_copies_hold_what_was_there_and_nothing_reaches_them(data: DataFolder, tmp_path: Path):
    """Claims, held-out claims, base and prompt; edits of the sources in place change no copy."""
    own = tmp_path / "prompts"
    own.mkdir()
    (own / "policy.md").write_text(PROMPT)
    inputs = gathered(data, str(own))
    copies = inputs.claims.parent
    before = contents(copies)
    assert {"claims.parquet", "held_out.parquet", "prompts/policy.md"} < set(before)
    assert before["claims.parquet"] == file_sha256(data.path / "training_claims.parquet")
    assert copies == data.path.resolve() / "policy/tiny/inputs" / inputs.key
    digest = load_prompt("policy", str(own)).digest
    for path in (data.path / "training_claims.parquet", own / "policy.md"):
        edit(path)
    edit(data.path / "base_policy/model.safetensors")
    assert before == contents(copies)
    assert digest == load_prompt("policy", inputs.prompts).digest
    assert Path(inputs.base).parent == copies


def test_the_same_inputs_are_taken_once(data: DataFolder):
    """Same key, same files, not written again; a damaged copy is replaced."""
    first = gathered(data)
    stamp = first.claims.stat().st_mtime_ns
    assert (first.key, stamp) == (gathered(data).key, first.claims.stat().st_mtime_ns)
    edit(first.claims)
    assert first.key == gathered(data).key
    assert file_sha256(first.claims) == file_sha256(data.path / "training_claims.parquet")
    assert [first.key] == [path.name for path in first.claims.parent.parent.iterdir()]


def test_the_verdict_rule_is_the_recipes(data: DataFolder, tmp_path: Path):
    """Another rule or wording begins another run; its prompt has the copied wording."""
    own = tmp_path / "prompts"
    own.mkdir()
    wording = (ROOT / "decomposerl/prompts/question.md").read_text("utf-8")
    keys, texts = [], []
    mine = wording.replace("no third answer", "no other answer")
    for rule, text in (("evidence", wording), ("paper", wording), ("evidence", mine)):
        (own / "question.md").write_text(text)
        inputs = gathered(data, str(own), verdict_rule=rule, model="hub/name")
        run = PolicyTrainerResource(module="m").plan_run(inputs, stop_unhealthy=False)
        keys.append(inputs.key)
        texts.append(policy_prompt(run).sections["prompt"])
    assert 3 == len(set(keys)) == len(set(texts))
    assert ["is silent" in text for text in texts] == [True, False, True]
    assert ["no third answer" in text for text in texts] == [True, True, False]


@pytest.mark.parametrize(
    ("file", "named"),
    [("base_policy/model.safetensors", "base policy"), ("training_claims.parquet", "claims")],
)
def test_changed_inputs_begin_another_run_and_say_so(data: DataFolder, file: str, named: str):
    """The sentence names what changed; the earlier run keeps its copies when it moves aside."""
    first = started(gathered(data))
    assert "" == restart_notice(gathered(data))
    kept = contents(first.claims.parent)
    if file.endswith("parquet"):
        rewrite(data, 4)
    else:
        edit(data.path / file)
    other = gathered(data)
    message = restart_notice(other)
    assert other.key != first.key
    assert named in message
    assert f"run {other.key} begins at step 0" in message
    assert first.key in message
    started(other)
    aside = first.folder / "superseded" / first.key
    assert kept == contents(aside / "inputs" / first.key)
    assert other.claims.is_file()
    assert not first.claims.exists()


def test_a_changed_recipe_is_named_too(data: DataFolder):
    """Where the copies are equal, something else made the key another one."""
    started(gathered(data))
    assert restart_notice(gathered(data, seed=9)).startswith("recipe or engines changed")


def test_copies_of_runs_that_never_began_are_removed(data: DataFolder):
    """Of three gatherings the run's own and the last one stay."""
    first = started(gathered(data))
    rewrite(data, 4)
    second = gathered(data)
    rewrite(data, 5)
    third = gathered(data)
    there = {path.name for path in (first.folder / "inputs").iterdir()}
    assert {first.key, third.key} == there != {second.key}


def test_what_is_missing_or_malformed_leaves_nothing_behind(data: DataFolder, tmp_path: Path):
    """Before a copy is made."""
    with pytest.raises(ConfigError, match="there is no folder of prompts"):
        gathered(data, str(tmp_path / "nowhere"))
    (data.path / "silver_decomposed.parquet").unlink()
    with pytest.raises(TrainingError, match="decomposerl run silver_decomposed --upstream"):
        gathered(data)
    assert not (data.path / "policy").exists()


def test_evaluation_goes_by_what_the_policy_was_trained_on(data: DataFolder):
    """Calibrations leave out its own claims, and its base is the one that the adapter fits."""
    first = started(gathered(data))
    used = {*pl.read_parquet(first.claims)["claim_id"]}
    assert first.held_out is not None
    used |= {*pl.read_parquet(first.held_out)["claim_id"]}
    rewrite(data, 1)
    edit(data.path / "base_policy/model.safetensors")
    (system,) = systems([], ["tiny"])
    split = dev_claims(data, system, 100, 42)
    assert used.isdisjoint(split.claims["claim_id"])
    assert 3 == split.claims.height
    assert first.base == base_of(data, RECIPE)


def test_the_base_is_the_one_that_the_run_recorded(data: DataFolder):
    """Of a run on another base than the recipe's; without a record it is the recipe's."""
    recipe = replace(RECIPE, name="elsewhere", model="hub/name")
    assert "hub/name" == base_of(data, recipe)
    run = RunFolder(policy_folder(data, recipe.name))
    run.path.mkdir(parents=True)
    run.config.write_text(json.dumps({"base": "hub/another"}), "utf-8")
    assert "hub/another" == base_of(data, recipe)


def test_a_policy_learns_from_claims_whose_label_it_may_give(data: DataFolder):
    """Two labels leave the third out, three need it; held-out claims are the same for both."""
    live = data.path / "training_claims.parquet"
    two = gathered(data)
    assert live.read_bytes() == two.claims.read_bytes()
    with pytest.raises(TrainingError, match=r"no training claim has that label.* keep_middle"):
        gathered(data, verdict_rule="three_way")
    frame = pl.read_parquet(live)
    third = pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("NotEnoughInfo"))
    kept = frame.with_columns(label=third.otherwise("label"), label_rule=pl.lit("keep_middle"))
    write_parquet(TRAINING_CLAIMS.conform(kept), live)
    narrowed = gathered(data)
    assert kept[1:].equals(pl.read_parquet(narrowed.claims))
    assert narrowed.held_out is not None
    held_out = narrowed.held_out.read_bytes()
    assert not set(pl.read_parquet(narrowed.held_out)["claim_id"]) & set(kept["claim_id"])
    whole = gathered(data, verdict_rule="three_way")  # its copies replace the others
    assert live.read_bytes() == whole.claims.read_bytes()
    assert whole.held_out is not None
    assert held_out == whole.held_out.read_bytes()
