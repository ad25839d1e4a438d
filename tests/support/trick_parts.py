"""Claims about mills with silver questions, scripted traces, and a run that turns to dodging."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from decomposerl.judge.call import Judge
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import SILVER_DECOMPOSED
from decomposerl.training.curves import CurvePoint, curve_rows
from decomposerl.training.tricks import TRICKS, KnownClaim, honest
from fakes import BagOfWordsEmbedder
from resources.judge.rule_judge import RuleJudge
from resources.judge.scoring import reward_rollouts
from resources.store.parquet import write_parquet
from resources.training.data import Completion, rollouts_of
from resources.training.rollout_log import RolloutLog, StepBatch
from resources.training.trick_runs import ScriptedTraces, known_claims, scripted_traces
from strategies import example_row, frame_of

MILL = (
    "The {0} mill grinds oats for the valley. The wheel of the {0} mill is made of larch. "
    "Visitors come in summer. The {0} mill stands beside the river Osk."
)
KEY = "ab" * 8
NAMES = ("Torbeck", "Ilva", "Marrek", "Nolda", "Perrin", "Quill")
THIRTY = tuple(f"{one}{two}" for one in NAMES for two in ("", "ow", "ard", "een", "by"))


def pool(names: tuple[str, ...] = NAMES) -> pl.DataFrame:
    """Claims about mills: the first is borne out, the second has one wrong part, and so on."""
    rows = [
        example_row(
            claim=f"The {name} mill grinds oats and its wheel is made of {stuff}.",
            evidence=MILL.format(name),
            label=label,
            questions=[f"What does the {name} mill grind?", f"What is the {name} wheel made of?"],
        )
        for at, name in enumerate(names)
        for label, stuff in [(("Supported", "larch"), ("Refuted", "bronze"))[at % 2]]
    ]
    return frame_of(SILVER_DECOMPOSED, rows)


def scripted(names: tuple[str, ...] = NAMES, judge: Judge | None = None) -> ScriptedTraces:
    """Every script on every claim, by the rule judge unless another one is given."""
    known = known_claims(pool(names), RuleJudge())
    return scripted_traces(known, judge or RuleJudge(), BagOfWordsEmbedder())


def write_run(data: Path, steps: int) -> None:
    """A run whose policy is honest at first and dodges from half of its steps on."""
    folder = data / "policy/tiny_long"
    write_parquet(pool(), folder / f"inputs/{KEY}/claims.parquet")
    (folder / "run.json").write_text(
        json.dumps({"key": KEY, "attempts": [{"attempt": 1, "resumed_from": 0}]}), "utf-8"
    )
    known, dodge = known_claims(pool(), RuleJudge()), TRICKS[8]
    assert dodge.name == "dodge"
    log = RolloutLog(folder, KEY, 1)
    for step, write in ((0, honest), (steps, dodge.write)):
        log.write(step_batch(step, known, (write,)), "held_out_sampled")
    for step in range(steps):
        write = dodge.write if step >= steps // 2 else honest
        sampled = step_batch(step, [known[step % len(known)]], (honest, write))
        log.write(sampled)
        points = {"truncated": CurvePoint(0.5 if step else 0.0)}
        log.write_curves(step, "train", curve_rows(KEY, "tiny_long", step, "train", points))


def step_batch(
    step: int, known: Sequence[KnownClaim], scripts: Sequence[Callable[[KnownClaim], str]]
) -> StepBatch:
    """Each claim with each script, rewarded."""
    batch = [completion(one, write) for one in known for write in scripts]
    rollouts = rollouts_of(batch, len(scripts))
    judged = reward_rollouts(rollouts, RuleJudge(), BagOfWordsEmbedder(), RewardSettings())
    return StepBatch(step, batch, judged)


def completion(known: KnownClaim, write: Callable[[KnownClaim], str]) -> Completion:
    """The script's trace as if it had been sampled."""
    return Completion(
        *(known.claim_id, known.claim, known.evidence, known.label, 2, "hover"),
        labelled=True,
        prompt_digest="0" * 64,
        prompt_tokens=9,
        tokens=(1, 2),
        text=write(known),
        truncated=False,
    )
