"""A trained policy as a system: which of its weights are evaluated, and how it answers.

DecomposeRL at inference writes one trace per claim, greedily (paper, section 3.1). No judge is
called. Calls per claim: 1, and one for each further sample where agreement is measured. The verdict
is the trace's; faults of the grammar are counted in a note and change nothing. A trace that the
token limit cut before its verdict is truncated, one without a readable verdict is unparsed; no
trace is repaired.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    Procedure,
    Steps,
    Verification,
    ask,
)
from decomposerl.errors import ConfigError
from decomposerl.evaluation.systems import System
from decomposerl.prompts.policy import NAME
from decomposerl.traces.grammar import parse_trace
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView, Experiment
from resources.store.integrity import read_parquet, verified
from resources.training.run_store import RunFolder, read_outcome

if TYPE_CHECKING:
    from resources.store.parquet import DataFolder

CheckpointRule = Literal["final", "best_on_dev"]
DEV_SPLIT, DEV_MEASURE = "held_out_greedy", "balanced_accuracy"
PROMPT = NAME
REVISION = 1
"""Part of the prompt hash. Raise it with any change of this file, of the evidence view or of the
grammar that may change a verdict, a trace or a call: stored answers are then not reused."""
AGREEMENT = "agreement"
"""The note with the share of samples whose verdict is that of the greedy trace."""
_EVERY_CHECKPOINT = 1_000_000  # more than any run keeps


@dataclass(frozen=True, slots=True)
class SelectedCheckpoint:
    """The chosen step, its score on held-out claims (None if not measured), and why.

    ``candidates`` is how many steps could have been chosen.
    """

    step: int
    rule: CheckpointRule
    dev_score: float | None
    candidates: int


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """The run's folder, the adapter to evaluate, and what was chosen."""

    folder: Path
    adapter: Path
    selected: SelectedCheckpoint


def chosen_policy(
    data: "DataFolder", experiment: str, rule: CheckpointRule = "final"
) -> ChosenPolicy:
    """The adapter of a recipe to evaluate.

    Raises:
        ConfigError: the policy was not trained yet, or the rule finds no candidate.
    """
    run = RunFolder(data.path / "policy" / experiment)
    if not run.outcome.is_file():
        raise ConfigError(
            f"{run.path} holds no trained policy. Train it first: decomposerl train {experiment}"
        )
    outcome = read_outcome(run)
    saved = {one.step: one.path for one in run.checkpoints(_EVERY_CHECKPOINT).all()}
    saved |= run.measured_adapters()
    selected = select_checkpoint(read_parquet(run.curves), saved, outcome.steps, rule)
    final = selected.step == outcome.steps
    adapter = outcome.adapter if final else saved[selected.step]
    if adapter.is_dir():
        verified(adapter)
    return ChosenPolicy(run.path, adapter, selected)


def select_checkpoint(
    curves: pl.DataFrame, saved: Collection[int], final: int, rule: CheckpointRule = "final"
) -> SelectedCheckpoint:
    """The step to evaluate. ``curves`` is ``CURVES``, ``saved`` the steps whose weights are kept.

    ``final`` is the step that the run ended with; its adapter is always kept. By default it is the
    one: no score is used to choose, so no score is biased by the choice (the paper does not say).
    ``best_on_dev`` is of the saved and measured steps the one with the highest balanced accuracy
    over the run's held-out claims, decoded greedily as a benchmark is; of equal ones the earliest,
    which is closest to the base model. Held-out claims come from the funnel's own pool, so test
    claims have no influence.

    Raises:
        ConfigError: the rule is ``best_on_dev`` and no saved step was measured.
    """
    rows = curves.drop_nulls("mean").filter(split=DEV_SPLIT, measure=DEV_MEASURE)
    measured: dict[int, float] = dict(rows.sort("step").select("step", "mean").iter_rows())
    if rule == "final":
        return SelectedCheckpoint(final, rule, measured.get(final), 1)
    candidates = sorted({*saved, final} & set(measured))
    if not candidates:
        raise ConfigError(
            "best_on_dev needs a saved checkpoint with a measure on held-out claims; the run has "
            "none: train with held-out claims, or evaluate the final one"
        )
    best = max(candidates, key=lambda step: (measured[step], -step))
    return SelectedCheckpoint(best, rule, measured[best], len(candidates))


def chosen_facts(
    data: "DataFolder", system: System, rule: CheckpointRule
) -> dict[str, str | int | float]:
    """Run metadata about the weights behind a policy's predictions; empty for other systems."""
    if system.model.port != "policy":
        return {}
    chosen = chosen_policy(data, system.model.key, rule)
    selected = chosen.selected
    score = selected.dev_score
    return {
        "adapter": str(chosen.adapter),
        "checkpoint": selected.step,
        "checkpoint rule": selected.rule,
        "checkpoints weighed": selected.candidates,
        **({} if score is None else {"held-out balanced accuracy": score}),
    }


@dataclass(frozen=True, slots=True)
class PolicyDecoding:
    """What decides a policy's answers besides its weights.

    ``view`` is the policy's view of the evidence, None for all of it. ``samples`` further traces
    are drawn at ``temperature`` to measure agreement.
    """

    view: EvidenceView | None = None
    max_tokens: int = 4_500
    samples: int = 0
    temperature: float = 1.0


def decoding_of(experiment: Experiment, samples: int = 0) -> PolicyDecoding:
    """As a recipe's policy was trained: its view, its token limit, its temperature."""
    sampling = experiment.sampling
    return PolicyDecoding(
        experiment.evidence_view, sampling.max_completion_tokens, samples, sampling.temperature
    )


def policy_procedure(decoding: PolicyDecoding) -> Procedure:
    """The procedure of a policy: one greedy trace, then the samples."""

    def procedure(question: ClaimInput) -> Steps:
        evidence = question.evidence
        if decoding.view is not None:
            evidence = evidence_view(question.claim, evidence, decoding.view)
        variables = {"document": evidence, "claim": question.claim}
        greedy = ModelCall("procedure", "prompt", variables, max_tokens=decoding.max_tokens)
        warm = replace(greedy, temperature=decoding.temperature)
        samples = [replace(warm, sample=number) for number in range(1, decoding.samples + 1)]
        answer, *others = yield from ask(greedy, *samples)
        trace = parse_trace(answer.text, answer.labels)
        notes: dict[str, str | int | float | bool] = {"faults": len(trace.faults)}
        if others and trace.verdict is not None:
            verdicts = [parse_trace(other.text, other.labels).verdict for other in others]
            notes[AGREEMENT] = verdicts.count(trace.verdict) / len(verdicts)
        opening = trace.opening or ""
        return Verification.of_reply(trace.verdict, answer, trace.cycles, opening, notes=notes)

    return procedure
