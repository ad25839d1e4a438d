"""A trained policy as a system: which of its weights are evaluated, and how it answers.

DecomposeRL at inference writes one trace per claim, greedily (paper, section 3.1). No judge is
called. The verdict is the trace's; faults of the grammar are counted in a note and change nothing.
A trace that the token limit cut before its verdict is truncated, one without a readable verdict is
unparsed; no trace is repaired. Also which claims of the data folder training has used: the leak
check, and the unused dev split.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
from resources.store.integrity import read_parquet, verified
from resources.store.parquet import DataFolder
from resources.training.run_inputs import inputs_of, notes_folder
from resources.training.run_store import RunFolder, read_outcome

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


@dataclass(frozen=True, slots=True)
class PolicyDecoding:
    """What decides a policy's answers besides its weights.

    ``view`` is the policy's view of the evidence, None for all of it.
    """

    view: EvidenceView | None = None
    max_tokens: int = 4_500


def decoding_of(recipe: Experiment) -> PolicyDecoding:
    """As a recipe's policy was trained: its view and its token limit."""
    return PolicyDecoding(recipe.evidence_view, recipe.sampling.max_completion_tokens)


def policy_procedure(decoding: PolicyDecoding) -> Procedure:
    """The procedure of a policy: one greedy trace."""

    def procedure(question: ClaimInput) -> Steps:
        evidence = question.evidence
        if decoding.view is not None:
            evidence = evidence_view(question.claim, evidence, decoding.view)
        variables = {"document": evidence, "claim": question.claim}
        greedy = ModelCall("procedure", "prompt", variables, max_tokens=decoding.max_tokens)
        (answer,) = yield from ask(greedy)
        trace = parse_trace(answer.text, answer.labels)
        notes = {"faults": len(trace.faults)}
        opening = trace.opening or ""
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
    run = system.model.key
    if system.model.port != "policy":
        adapter = Path(system.entry.adapter if system.entry else "").resolve()
        policies = (data.path / "policy").resolve()
        if policies not in adapter.parents:
            return []
        run = adapter.relative_to(policies).parts[0]
        if run not in {one.name for one in EXPERIMENTS}:
            return []
    copies = inputs_of(data, experiment(run))
    if copies is None:  # runs of earlier versions recorded their held-out claims only
        return [notes_folder(data, run) / "held_out.parquet"]
    return [copies.claims, *([copies.held_out] if copies.held_out else [])]
