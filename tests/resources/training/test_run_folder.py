"""A run on disk: copies of its inputs, attempts, steps, checkpoints; and what its page shows."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from decomposerl.errors import ConfigError, TrainingError
from decomposerl.evaluation.systems import systems
from decomposerl.schemas import SILVER_DECOMPOSED, TRAINING_CLAIMS
from decomposerl.training.curves import TRAIN, CurvePoint, Split, curve_rows
from decomposerl.training.experiment import HeldOut
from decomposerl.training.experiments import experiment
from decomposerl.training.health import spread_key
from project import ROOT
from resources.evaluation.model import dev_claims
from resources.store.integrity import file_sha256
from resources.store.parquet import DataFolder, write_parquet
from resources.store.prompts import load_prompt
from resources.store.temporary import publish_folder
from resources.training.data import policy_prompt
from resources.training.messages import StepObserver
from resources.training.metrics_log import MetricsLog, seconds_spent
from resources.training.process import STEP, StepReport, TrainingOutcome, TrainingRun
from resources.training.resource import PolicyTrainerResource
from resources.training.rollout_log import RolloutLog, all_files, read_log
from resources.training.run_inputs import (
    RunInputs,
    base_of,
    gather_inputs,
    policy_folder,
    restart_notice,
)
from resources.training.run_store import (
    Checkpoints,
    RunFolder,
    begin_attempt,
    finished_outcome,
    read_attempts,
    write_outcome,
)
from training_graph import claims
from training_parts import run_of

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


def gathered(data: DataFolder, prompts: str | Path = "", **changes: object) -> RunInputs:
    recipe = replace(RECIPE, **changes)  # type: ignore[arg-type]
    return gather_inputs(data, recipe, ("judge", "embedder"), str(prompts))


def planned(inputs: RunInputs) -> TrainingRun:
    return PolicyTrainerResource(module="m").plan_run(inputs, stop_unhealthy=False)


def started(inputs: RunInputs) -> RunInputs:
    """As if its trainer had begun."""
    begin_attempt(planned(inputs))
    return inputs


def contents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): file_sha256(path) for path in files}


def edit(*paths: Path) -> None:
    """As a person may, in place."""
    for path in paths:
        path.write_bytes(path.read_bytes() + b" ")


def rewrite(data: DataFolder, rows: int) -> None:
    """As another run does."""
    write_parquet(claims(TRAINING_CLAIMS, rows), data.path / "training_claims.parquet")


def test_copies_hold_what_was_there_and_nothing_reaches_them(data: DataFolder, tmp_path: Path):
    """Copies are taken once, a damaged one is replaced, edits of the sources change none."""
    own, live = tmp_path / "prompts", data.path / "training_claims.parquet"
    own.mkdir()
    (own / "policy.md").write_text(PROMPT)
    inputs = gathered(data, own)
    copies = inputs.claims.parent
    before, stamp = contents(copies), inputs.claims.stat().st_mtime_ns
    assert {"claims.parquet", "held_out.parquet", "prompts/policy.md"} < set(before)
    assert before["claims.parquet"] == file_sha256(live)
    assert copies == data.path.resolve() / "policy/tiny/inputs" / inputs.key
    assert (inputs.key, stamp) == (gathered(data, own).key, inputs.claims.stat().st_mtime_ns)
    edit(inputs.claims)
    assert inputs.key == gathered(data, own).key
    assert [inputs.key] == [path.name for path in copies.parent.iterdir()]
    assert before == contents(copies)
    digest = load_prompt("policy", str(own)).digest
    edit(live, own / "policy.md", data.path / "base_policy/model.safetensors")
    assert before == contents(copies)
    assert digest == load_prompt("policy", inputs.prompts).digest
    assert Path(inputs.base).parent == copies


def test_the_verdict_rule_is_the_recipes(data: DataFolder, tmp_path: Path):
    """Another rule or wording begins another run; its prompt has the copied wording."""
    wording = (ROOT / "decomposerl/prompts/question.md").read_text("utf-8")
    mine = wording.replace("no third answer", "no other answer")
    keys, texts = [], []
    for rule, text in (("evidence", wording), ("paper", wording), ("evidence", mine)):
        (tmp_path / "question.md").write_text(text)
        inputs = gathered(data, tmp_path, verdict_rule=rule, model="hub/name")
        keys.append(inputs.key)
        texts.append(policy_prompt(planned(inputs)).sections["prompt"])
    assert 3 == len(set(keys)) == len(set(texts))
    assert ["is silent" in text for text in texts] == [True, False, True]
    assert ["no third answer" in text for text in texts] == [True, True, False]


@pytest.mark.parametrize(
    ("file", "named"),
    [("base_policy/model.safetensors", "base policy"), ("training_claims.parquet", "claims")],
)
def test_changed_inputs_begin_another_run_and_say_so(data: DataFolder, file: str, named: str):
    """The notice names what changed; the earlier run keeps its copies, needless ones go."""
    first = started(gathered(data))
    assert "" == restart_notice(gathered(data))
    assert restart_notice(gathered(data, seed=9)).startswith("recipe or engines")
    kept = contents(first.claims.parent)
    if file.endswith("parquet"):
        rewrite(data, 4)
    else:
        edit(data.path / file)
    other = gathered(data)
    assert {first.key, other.key} == {path.name for path in (first.folder / "inputs").iterdir()}
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


def test_what_is_missing_or_malformed_leaves_nothing_behind(data: DataFolder, tmp_path: Path):
    """Before a copy is made."""
    with pytest.raises(ConfigError, match="nowhere"):
        gathered(data, tmp_path / "nowhere")
    (data.path / "silver_decomposed.parquet").unlink()
    with pytest.raises(TrainingError, match="decomposerl run silver_decomposed --upstream"):
        gathered(data)
    assert not (data.path / "policy").exists()


def test_evaluation_goes_by_what_the_policy_was_trained_on(data: DataFolder):
    """Calibrations leave its claims out; its base is the recorded one, else the recipe's."""
    first = started(gathered(data))
    used = {*pl.read_parquet(first.claims)["claim_id"]}
    used |= {*pl.read_parquet(first.held_out)["claim_id"]}
    rewrite(data, 1)
    edit(data.path / "base_policy/model.safetensors")
    (system,) = systems([], ["tiny"])
    unused, _ = dev_claims(data, system, 100, 42)
    assert used.isdisjoint(unused["claim_id"])
    assert 3 == unused.height
    assert first.base == base_of(data, RECIPE)
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
    with pytest.raises(TrainingError, match="keep_middle"):
        gathered(data, verdict_rule="three_way")
    frame = pl.read_parquet(live)
    third = pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("NotEnoughInfo"))
    kept = frame.with_columns(label=third.otherwise("label"), label_rule=pl.lit("keep_middle"))
    write_parquet(TRAINING_CLAIMS.conform(kept), live)
    narrowed = gathered(data)
    assert kept[1:].equals(pl.read_parquet(narrowed.claims))
    held_out = narrowed.held_out.read_bytes()
    assert not set(pl.read_parquet(narrowed.held_out)["claim_id"]) & set(kept["claim_id"])
    whole = gathered(data, verdict_rule="three_way")  # its copies replace the others
    assert live.read_bytes() == whole.claims.read_bytes()
    assert held_out == whole.held_out.read_bytes()


@pytest.fixture
def run(tmp_path: Path) -> TrainingRun:
    return run_of(tmp_path / "run", tmp_path)


def checkpoint(run: TrainingRun, step: int) -> Path:
    """An attempt writes a checkpoint."""
    checkpoints = RunFolder(run.folder).checkpoints(2)
    (checkpoints.aside / "written").mkdir(parents=True)
    (checkpoints.aside / "written" / "weights").write_text(str(step))
    checkpoints.publish(step, checkpoints.aside / "written")
    return checkpoints.folder


def sample(run: TrainingRun, attempt: int, *steps: int, split: Split = TRAIN) -> None:
    """An attempt logs a curve of steps, whose values say who wrote them."""
    log = RolloutLog(run.folder, run.key, attempt)
    for step in steps:
        points = {"total": CurvePoint(10.0 * attempt + step), "seconds_judging": CurvePoint(1.0)}
        rows = curve_rows(run.key, "e", step, split, points)
        log.write_curves(step, split, rows)


def totals(run: TrainingRun, split: Split = TRAIN) -> dict[int, float]:
    rows = read_log(run.folder, "curves", split).filter(measure="total")
    return dict(rows.select("step", "mean").iter_rows())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_attempts_count_up_and_go_on_from_the_last_checkpoint(run: TrainingRun):
    """Each goes on from the last complete checkpoint; the last two stay, half-written ones go."""
    first = begin_attempt(run)
    assert (1, 0, None) == (first.number, first.resumed_from, first.checkpoint)
    for step in (2, 4, 6):
        folder = checkpoint(run, step)
    (folder / ".partial" / "checkpoint-8").mkdir(parents=True)
    assert [4, 6] == [one.step for one in RunFolder(run.folder).checkpoints(2).all()]
    second = begin_attempt(run)
    assert (2, 6) == (second.number, second.resumed_from)
    assert "6" == (second.checkpoint.path / "weights").read_text()
    assert ["step-000004", "step-000006"] == names(folder)


def test_what_a_later_attempt_replaces_is_not_read(run: TrainingRun):
    """Steps from the resume point on are the later attempt's alone; half a file is never read."""
    begin_attempt(run)
    sample(run, 1, 0, 1, 2, 3, 4)
    sample(run, 1, 0, 2, 4, split="held_out_greedy")
    checkpoint(run, 2)
    begin_attempt(run)
    (run.folder / "curves" / ".step-000001.attempt-02.parquet.99.partial").write_bytes(b"PAR1")
    assert {0: 10.0, 1: 11.0} == totals(run)
    sample(run, 2, 2, 3)
    assert {0: 10.0, 1: 11.0, 2: 22.0, 3: 23.0} == totals(run)
    assert {0: 10.0, 2: 12.0} == totals(run, "held_out_greedy")  # known at 2, so it holds
    assert 7 == len(list(all_files(run.folder, "curves")))
    assert 7.0 == seconds_spent(run.folder)["judging"]
    assert 3.0 == seconds_spent(run.folder)["held_out"]
    checkpoint(run, 3)
    begin_attempt(run)
    assert {0: 10.0, 1: 11.0, 2: 22.0} == totals(run)


def test_the_metrics_log_takes_over_what_counts(run: TrainingRun):
    """Curves of an earlier attempt stand in the history and in the file, each step once."""
    begin_attempt(run)
    sample(run, 1, 0, 1, 2)
    checkpoint(run, 2)
    attempt = begin_attempt(run)
    metrics = MetricsLog(attempt.folder, RolloutLog(run.folder, run.key, 2), "e")
    metrics.add(2, TRAIN, {"total": CurvePoint(5.0), "judge_failures": CurvePoint(0.5, None, 8)})
    metrics.add(3, "held_out_greedy", {"total": CurvePoint(6.0)})
    assert [10.0, 11.0, 5.0] == [step["total"] for step in metrics.history]
    assert {"held_out_greedy/total": 6.0} == metrics.held_out_at(3)
    assert 0.5 / 20 == metrics.judge_failure_share()
    metrics.write()
    written = pl.read_parquet(attempt.folder.curves)
    assert [0, 1, 2, 3] == written.filter(measure="total")["step"].to_list()


def test_a_folder_takes_the_place_of_an_earlier_one(tmp_path: Path):
    """A published folder is the new one whole."""
    for text in ("one", "two"):
        (tmp_path / "aside").mkdir()
        (tmp_path / "aside" / text).touch()
        publish_folder(tmp_path / "aside", tmp_path / "adapter")
    assert ["two"] == names(tmp_path / "adapter")
    assert ["adapter"] == names(tmp_path)
    assert [] == Checkpoints(tmp_path / "none", 2).all()


def test_another_key_begins_anew_and_keeps_the_old_run_aside(run: TrainingRun):
    """Nothing of a run with another recipe is taken up, and nothing of it is lost."""
    begin_attempt(run)
    sample(run, 1, 0)
    checkpoint(run, 1)
    other = replace(run, key="f" * 16)
    attempt = begin_attempt(other)
    assert (1, 0) == (attempt.number, attempt.resumed_from)
    assert {} == totals(other)
    aside = run.folder / "superseded" / run.key
    assert {0: 10.0} == totals(replace(run, folder=aside))
    assert ["step-000001"] == names(aside / "checkpoints")
    begin_attempt(run)
    assert 1 == len(read_attempts(run.folder))


def test_a_run_is_done_when_its_outcome_says_so(run: TrainingRun):
    """Only an outcome of the same key that did not stop early ends a run; its folder may move."""
    assert finished_outcome(run) is None
    folder = begin_attempt(run).folder
    outcome = TrainingOutcome(2, 0, "budget", folder.adapter, folder.curves, {}, {}, {}, {}, {})
    write_outcome(folder, outcome)
    assert finished_outcome(run) is None
    write_outcome(folder, replace(outcome, stopped=""))
    assert replace(outcome, stopped="") == finished_outcome(run)
    assert finished_outcome(replace(run, key="f" * 16)) is None
    moved = run.folder.rename(run.folder.with_name("moved"))
    moved_outcome = finished_outcome(replace(run, folder=moved))
    assert moved / "adapter" == moved_outcome.adapter


class Page:
    """An asset's context that keeps what is logged."""

    asset_key, partition_key = dg.AssetKey("policy"), "tiny"

    def __init__(self) -> None:
        self.logged: list[dg.AssetObservation] = []

    def log_event(self, event: dg.AssetObservation) -> None:
        """Keep it."""
        self.logged.append(event)


def seen(observer: StepObserver, step: int) -> None:
    """A step whose weighted sum has many decimals and whose loss was not measured."""
    means = {"total": 1 / 3 + step, spread_key("total"): 0.5, "loss": None, "entropy": float("nan")}
    observer.seen({"kind": STEP, **asdict(StepReport(step, 30, 1, means, {}, 90.0))})


def test_a_run_that_trains_shows_its_measures_and_its_curves():
    """For its partition, in few digits, curves from two steps on; ever rarer in a long run."""
    page = Page()
    times = iter((0.0, 1.0, 40.0))
    observer = StepObserver(page, lambda: next(times))
    seen(observer, 1)
    seen(observer, 2)
    first, second = page.logged
    assert (dg.AssetKey("policy"), "tiny") == (first.asset_key, first.partition)
    shown = {name: value.value for name, value in first.metadata.items()}
    assert {"steps done": 1, "steps": 30, "time left": "1 min 30 s", "total": 1.3333} == shown
    assert str(second.metadata["learning curves so far"].value).startswith("![")
    assert "rewards so far" == next(iter(second.metadata))
    assert len(str(second.metadata["rewards so far"].value)) < 1_000
    page, now = Page(), [0.0]
    observer = StepObserver(page, lambda: now[0])
    for step in range(48):
        now[0] = 600.0 * step
        seen(observer, step + 1)
    assert 15 < len(page.logged) < 25
