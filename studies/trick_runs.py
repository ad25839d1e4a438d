"""Tricks in traces: scripted ones, scored and watched, and those that a training run shows.

A scripted policy plays a trick on every claim; judge and embedder are those of the rewards. A
run's rollouts are read from its log, with the rulings that it was trained on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from decomposerl.errors import TrainingError
from decomposerl.judge.call import Judge, JudgeCall, needed_calls, rulings_from_frame
from decomposerl.ports import Embedder
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.scoring import RewardedBatch, reward_batch, reward_rollouts, signals_of
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.training.curves import Split, history
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView, Experiment
from decomposerl.training.health import HealthSettings, Measures, health_findings, spread_key
from resources.judge.rule_judge import clean
from resources.store.parquet import DataFolder
from resources.training.data import Completion
from resources.training.metrics_log import SPLITS, batch_points
from resources.training.rollout_log import StepBatch, read_log
from resources.training.run_inputs import inputs_of, policy_folder
from studies.trick_found import share_bounds
from studies.trick_scripts import TRICKS, KnownClaim, honest, tricks_in
from studies.trick_signs import Observed
from studies.trick_tables import TRICK_SIGNS, TRICKS_FOUND

_NEAREST = EvidenceView(most_sentences=1)
_TRACES = 1 + len(TRICKS)
_GROUP, _GROUPS_A_STEP = 8, 2
_FEW, _MOST = 1, 7
"""Rollouts of a group that play the trick before and after it spread."""


@dataclass(frozen=True, slots=True)
class ScriptedTraces:
    """The honest trace and every trick's of each claim, in this order, with their rulings."""

    cases: tuple[RewardCase, ...]
    engine: str

    def rewards(self, settings: RewardSettings) -> RewardedBatch:
        """What the traces earn under ``settings``."""
        return reward_batch(self.cases, settings)


def known_claims(claims: pl.DataFrame, judge: Judge) -> list[KnownClaim]:
    """Claims (``SILVER_DECOMPOSED``) with the sentence that answers each silver question.

    It is the nearest one by the words that it shares, where ``judge`` calls the question
    answerable.
    """
    rows = list(claims.iter_rows(named=True))
    calls = [
        JudgeCall("answerability", row["evidence"], question=question)
        for row in rows
        for question in row["questions"]
    ]
    rulings = iter(judge.judge(calls))
    return [
        KnownClaim(
            claim_id=row["claim_id"],
            claim=row["claim"],
            evidence=row["evidence"],
            label=row["label"],
            questions=tuple(row["questions"]),
            quotes=tuple(
                evidence_view(question, row["evidence"], _NEAREST) if next(rulings).value else None
                for question in row["questions"]
            ),
        )
        for row in rows
    ]


def scripted_traces(
    claims: Sequence[KnownClaim], judge: Judge, embedder: Embedder
) -> ScriptedTraces:
    """Every script on every claim, judged once for all readings."""
    rollouts = [
        Rollout(
            group=one.claim_id,
            number=number,
            claim=one.claim,
            evidence=one.evidence,
            trace=parse_trace(text),
            label=one.label,
            n_star=len(one.questions),
        )
        for one in claims
        for number, text in enumerate([honest(one), *(trick.write(one) for trick in TRICKS)])
    ]
    cases = reward_rollouts(rollouts, judge, embedder, RewardSettings()).cases
    return ScriptedTraces(cases, f"{judge.engine}, {embedder.engine}")


def tricks_shown(cases: Sequence[RewardCase]) -> list[dict[str, bool]]:
    """Which tricks each rollout shows, by name."""
    return [
        tricks_in(Observed(case.rollout, case.signals, _addressed(case.rollout))) for case in cases
    ]


def _addressed(rollout: Rollout) -> tuple[bool, ...]:
    """For each cycle whether its words speak to the judge."""
    return tuple(
        clean(cycle.question).orders or clean(cycle.answer).orders for cycle in rollout.trace.cycles
    )


def sign_table(traces: ScriptedTraces, settings: RewardSettings) -> pl.DataFrame:
    """``TRICK_SIGNS``: which signs show each trick, and which health rules object to it."""
    seen = tricks_shown(traces.cases)
    rows = []
    for at, trick in enumerate(TRICKS, start=1):
        own = [one[trick.name] for one in seen[at::_TRACES]]
        false = [one[trick.name] for one in seen[::_TRACES]]
        rules = _objections(traces.cases, at, settings)
        shares = (sum(own) / len(own), sum(false) / len(false))
        rows.append((trick.name, trick.title, len(own), *shares, rules, traces.engine))
    return TRICK_SIGNS.conform(pl.DataFrame(rows, schema=TRICK_SIGNS.schema, orient="row"))


def _objections(cases: Sequence[RewardCase], trick: int, settings: RewardSettings) -> list[str]:
    """Rules that object after the trick has spread, and not before."""
    health = HealthSettings(mask_truncated=False)
    before = list(_simulated(cases, trick, _FEW, health.window, settings))
    after = list(_simulated(cases, trick, _MOST, health.window, settings))
    known = {finding.rule for finding in health_findings(before, health)}
    return [
        finding.rule
        for finding in health_findings([*before, *after], health)
        if finding.rule not in known
    ]


def _simulated(
    cases: Sequence[RewardCase], trick: int, playing: int, steps: int, settings: RewardSettings
) -> Iterator[Measures]:
    """The measures of steps in which ``playing`` of each group's rollouts play the trick."""
    claims = len(cases) // _TRACES
    for step in range(steps):
        wanted = [(step * _GROUPS_A_STEP + at) % claims for at in range(_GROUPS_A_STEP)]
        drawn = [
            _numbered(cases[claim * _TRACES + (trick if number < playing else 0)], number)
            for claim in dict.fromkeys(wanted)
            for number in range(_GROUP)
        ]
        completions = [_completion(case.rollout) for case in drawn]
        batch = StepBatch(step, completions, reward_batch(drawn, settings))
        points = batch_points(batch, settings)
        yield {name: point.mean for name, point in points.items()} | {
            spread_key(name): point.spread for name, point in points.items()
        }


def _numbered(case: RewardCase, number: int) -> RewardCase:
    return replace(case, rollout=replace(case.rollout, number=number))


def _completion(rollout: Rollout) -> Completion:
    """A scripted trace as if it had been sampled; it has no tokens."""
    if rollout.label is None or rollout.n_star is None:
        raise ValueError(f"the scripted trace of '{rollout.group}' has no label or n*")
    return Completion(
        claim_id=rollout.group,
        claim=rollout.claim,
        evidence=rollout.evidence,
        label=rollout.label,
        n_star=rollout.n_star,
        source="",
        labelled=True,
        prompt_digest="",
        prompt_tokens=0,
        tokens=(),
        text="",
        truncated=False,
    )


def found_tricks(data: DataFolder, recipe: Experiment) -> pl.DataFrame:
    """``TRICKS_FOUND`` of a recipe's run: signs by step and split, health rules at each step.

    Raises:
        TrainingError: it has not been trained, or only before its first step.
    """
    folder, copies = policy_folder(data, recipe.name), inputs_of(data, recipe)
    if copies is None or read_log(folder, "rollouts").is_empty():
        raise TrainingError(f"{folder} has no rollouts; first: decomposerl train {recipe.name}")
    paths = [path for path in (copies.claims, copies.held_out) if path is not None]
    texts = pl.concat([pl.read_parquet(path, columns=["claim_id", "evidence"]) for path in paths])
    evidence = dict(texts.iter_rows())
    health = HealthSettings(mask_truncated=recipe.grpo.mask_truncated)
    train, *held_out = [_found(folder, recipe.name, split, evidence) for split in SPLITS]
    rules = _health(folder, recipe.name, train["engine"].first(), health)
    return TRICKS_FOUND.conform(pl.concat([train, *held_out, rules]))


def _found(
    folder: Path, experiment: str, split: Split, evidence: Mapping[str, str]
) -> pl.DataFrame:
    log, calls = read_log(folder, "rollouts", split), read_log(folder, "judge_calls", split)
    rows: list[tuple[object, ...]] = []
    for (step,), frame in log.group_by("step", maintain_order=True):
        rulings = calls.filter(pl.col("step") == step)
        engine = rulings["engine"].first() or ""
        shown = pl.DataFrame(tricks_shown(_logged(frame, rulings, evidence)))
        surplus = frame["total"] - frame.select(pl.col("total").mean().over("group"))["total"]
        for trick in TRICKS:
            plays = shown[trick.name]
            ends = share_bounds(plays, frame["group"])
            found = (frame.height, plays.mean(), *ends, surplus.filter(plays).mean(), engine)
            rows.append((experiment, split, step, "trick", trick.name, *found))
    return pl.DataFrame(rows, schema=TRICKS_FOUND.schema, orient="row")


def _logged(
    frame: pl.DataFrame, calls: pl.DataFrame, evidence: Mapping[str, str]
) -> list[RewardCase]:
    rollouts = [
        Rollout(
            group=row["group"],
            number=row["rollout"],
            claim=row["claim"],
            evidence=evidence.get(row["group"], ""),
            trace=parse_trace(row["completion"]),
            label=row["label"],
            n_star=row["n_star"],
            truncated=row["truncated"],
        )
        for row in frame.iter_rows(named=True)
    ]
    logged, cases = rulings_from_frame(calls), list[RewardCase]()
    for rollout in rollouts:
        needed = needed_calls(rollout)
        known = {call: logged[call.key] for call in needed.values() if call.key in logged}
        cases.append(RewardCase(rollout, signals_of(rollout, needed, known)))
    return cases


def _health(
    folder: Path, experiment: str, engine: object, settings: HealthSettings
) -> pl.DataFrame:
    """What the rules say after each step."""
    steps = history(read_log(folder, "curves"))
    rows = [
        (experiment, "train", step, "health", finding.rule, 0, 1.0, *(None,) * 3, engine)
        for step in range(len(steps))
        for finding in health_findings(steps[: step + 1], settings)
    ]
    return pl.DataFrame(rows, schema=TRICKS_FOUND.schema, orient="row")
