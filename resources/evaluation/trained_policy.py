"""A trained policy as a system: which of its weights are evaluated, and how it answers.

DecomposeRL at inference writes one trace per claim, greedily (paper, section 3.1). No judge is
called. The verdict is the trace's; faults of the grammar are counted in a note and change nothing.
A trace that the token limit cut before its verdict is truncated, one without a readable verdict is
unparsed; no trace is repaired. Also which claims of the data folder training has used: the leak
check, and the unused dev split.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    Procedure,
    Steps,
    Verification,
    ask,
)
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError, EvaluationError
from decomposerl.evaluation.calibration import dev_split
from decomposerl.evaluation.systems import System
from decomposerl.funnel.catalogue import COMPARED, decontaminate
from decomposerl.funnel.settings import DecontaminationSettings
from decomposerl.ports import Embedder
from decomposerl.prompts.policy import NAME
from decomposerl.traces.grammar import parse_trace
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView, Experiment
from decomposerl.training.experiments import EXPERIMENTS, experiment
from resources.hub.locks import ModelLocks, models_lock
from resources.store.integrity import read_parquet, verified
from resources.store.parquet import DataFolder
from resources.training.run_inputs import base_of, inputs_of, notes_folder
from resources.training.run_store import RunFolder, read_outcome, recorded_in_config

PROMPT = NAME
REVISION = 1
"""Part of the prompt hash. Raise it with any change of this file, of the evidence view or of the
grammar that may change a verdict, a trace or a call: stored answers are then not reused."""
SILVER = "silver_decomposed"
_TRAINING = ("training_claims", "training_claims_random")


def final_adapter(data: DataFolder, recipe: str) -> tuple[Path, int]:
    """The adapter of a recipe to evaluate and its step: the one that the run ended with.

    So no score is used to choose, and none is biased by the choice (the paper does not say). A
    checkpoint is evaluated by an entry of ``systems.toml`` that names it as its adapter.

    Raises:
        ConfigError: the policy was not trained yet.
    """
    run = RunFolder(data.path / "policy" / recipe)
    if not run.outcome.is_file():
        raise ConfigError(
            f"{run.path} holds no trained policy. Train it first: decomposerl train {recipe}"
        )
    outcome = read_outcome(run)
    if outcome.adapter.is_dir():
        verified(outcome.adapter)
    return outcome.adapter, outcome.steps


def policy_facts(data: DataFolder, system: System) -> dict[str, str | int]:
    """Run metadata about the weights behind a policy's predictions; empty for other systems."""
    if system.model.port != "policy":
        return {}
    adapter, step = final_adapter(data, system.model.key)
    return {"adapter": str(adapter), "checkpoint": step}


def policy_fields(data: DataFolder, recipe: Experiment, place: Endpoint) -> dict[str, object]:
    """The fields of an entry of a recipe's adapter on its base, which runs at ``place``.

    The commit of a hub's base is the one it was trained on, else the locked one; at an endpoint it
    is what the settings say.
    """
    (adapter, step), base = final_adapter(data, recipe.name), base_of(data, recipe)
    revision = place.revision
    if place.place != "endpoint":
        recorded = recorded_in_config(RunFolder(data.path / "policy" / recipe.name), "revision")
        revision = recorded or ModelLocks(models_lock(data.path)).fetched(base, revision)
    return {
        "name": f"{recipe.name}-{step}",
        "model": base,
        "revision": revision,
        "adapter": str(adapter.resolve()),
        "recipe": recipe.name,
        "thinking_style": place.thinking_style or "none",
    }


def trace_procedure(view: EvidenceView | None, max_tokens: int) -> Procedure:
    """The procedure of a policy that reads a ``view`` of the evidence: one greedy trace."""

    def procedure(question: ClaimInput) -> Steps:
        evidence = question.evidence
        if view is not None:
            evidence = evidence_view(question.claim, evidence, view)
        variables = {"document": evidence, "claim": question.claim}
        greedy = ModelCall("procedure", "prompt", variables, max_tokens=max_tokens)
        (answer,) = yield from ask(greedy)
        trace = parse_trace(answer.text, answer.labels)
        opening, notes = trace.opening or "", {"faults": len(trace.faults)}
        return Verification.of_reply(trace.verdict, answer, trace.cycles, opening, notes=notes)

    return procedure


def leaks(
    data: DataFolder, training: str, benchmarks: Sequence[str], embedder: Embedder
) -> tuple[pl.DataFrame, int]:
    """Training claims that match a test claim (``DROPS``), and how many test claims there are.

    They are found by the three prongs of decontamination (paper, section 2) in the training set
    ``training``, with the thresholds of the funnel's last run.
    """
    claims = data.read(training, list(COMPARED))
    tests = pl.concat([data.read(f"benchmark/{name}", list(COMPARED)) for name in benchmarks])
    config = data.run("decontaminated")["config"]
    thresholds = DecontaminationSettings.model_validate_json(config)
    return decontaminate(claims, tests, thresholds, embedder).drops, tests.height


def dev_claims(data: DataFolder, system: System, count: int, seed: int) -> tuple[pl.DataFrame, str]:
    """At most ``count`` claims of the silver-decomposed pool that the system has not trained on.

    They are in no training set. For a policy, also as the adapter of an entry, they are neither
    among the claims that its run copied nor among the held-out claims that its checkpoint may have
    been chosen by. With the name of the split, as of ``dev_split``.

    Raises:
        EvaluationError: the pool was not materialized, or every claim of it is used.
    """
    if not data.exists(SILVER):
        raise EvaluationError(
            f"{data.path / SILVER}.parquet is not there: calibrations are fitted on claims of it. "
            f"Make it first: decomposerl run {SILVER} --upstream"
        )
    files = [*(data.file(name) for name in _TRAINING), *_claims_of_run(data, system)]
    used: list[pl.Series] = [
        read_parquet(file, ["claim_id"])["claim_id"] for file in files if file.is_file()
    ]
    silver = data.read(SILVER)
    claims, name = dev_split(silver, used, count, seed)
    if claims.is_empty():
        raise EvaluationError(
            f"none of the {silver.height:,} claims of {SILVER} is outside the training sets: "
            "there is nothing to calibrate on"
        )
    return claims, name


def _claims_of_run(data: DataFolder, system: System) -> list[Path]:
    """Claims that the run of a policy, or of an entry's adapter, trained and was evaluated on."""
    adapter = Path(system.entry.adapter if system.entry else "").resolve()
    folders = {
        recipe.name: (data.path / "policy" / recipe.name).resolve() for recipe in EXPERIMENTS
    }
    run = next((name for name, folder in folders.items() if folder in adapter.parents), "")
    if system.model.port == "policy":
        run = system.model.key
    if not run:
        return []
    copies = inputs_of(data, experiment(run))
    if copies is None:  # runs of earlier versions recorded their held-out claims only
        return [notes_folder(data, run) / "held_out.parquet"]
    return [copies.claims, *([copies.held_out] if copies.held_out else [])]
