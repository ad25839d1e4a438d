"""Rulings that a word decides, heads trained on them, and a training run that stored them."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl

from decomposerl import schemas
from decomposerl.judge.call import Judge, JudgeCall, Ruling
from decomposerl.judge.distillation import (
    DistillationSettings,
    RuledCall,
    judge_examples,
    ruled_calls,
)
from decomposerl.judge.heads import HeadSettings
from decomposerl.judge.plan import plan
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.training.experiment import Experiment, plain_values
from plain_rows import plain, table_of
from resources.store.parquet import write_parquet
from resources.training.judge_heads import HeadsRun, train_heads

KEY = "cd" * 8
QUICK = HeadSettings(
    rank=4, alpha=16, dropout=0.0, learning_rate=1e-2, epochs=10, patience=6, batch=16, least=4
)
SPLIT = DistillationSettings(test_share=0.25, dev_share=0.25)


class WordJudge:
    """Says yes where the short text names a cat; a claim about a dog is refuted."""

    engine = "words:1"

    def judge(self, calls: list[JudgeCall]) -> list[Ruling]:
        """One ruling per call."""
        return [Ruling.from_text(_said(call)) for call in calls]


def _said(call: JudgeCall) -> str:
    short = call.claim if call.task == "coverage" else " ".join((call.question, *call.answers))
    if call.task == "coverage":
        return "Supported" if "cat" in short else "Refuted" if "dog" in short else "NotEnoughInfo"
    return ("1" if "cat" in short else "0") * (5 if call.task == "atomicity" else 1)


def rollouts(claims: int = 48, each: int = 2) -> list[Rollout]:
    """Traces with one question each, about a cat, a dog or a mat in turns, by claim."""
    made = []
    for number in range(claims * each):
        group, of = divmod(number, each)
        thing, asked = ("cat dog mat".split()[(group + step) % 3] for step in (0, of))
        text = (
            f"<question>the {asked} sat on a mat {number}?</question><answer>the {asked} ran"
            f"</answer><verification>{('Supported', 'Refuted')[of % 2]}</verification>"
        )
        claim, evidence = (
            f"the {thing} was born in {group}",
            f"a mat was won. a mat ran to {group}.",
        )
        label = ("Supported", "Refuted")[group % 2]
        made.append(
            Rollout(f"c{group}", of, claim, evidence, parse_trace(text), label, 1)  # type: ignore[arg-type]
        )
    return made


def ruled(judge: Judge, made: list[Rollout]) -> list[RuledCall]:
    """Their calls with the judge's rulings."""
    calls = plan(made).calls
    rulings = dict(zip((one.key for one in calls), judge.judge(list(calls)), strict=True))
    return list(ruled_calls(made, rulings))


def examples() -> pl.DataFrame:
    """``JUDGE_EXAMPLES`` of the word judge."""
    return judge_examples(ruled(WordJudge(), rollouts()), WordJudge.engine, SPLIT)


def heads_run(folder: Path, encoder: str, **settings: object) -> HeadsRun:
    """A run that trains heads on ``examples`` in ``folder``."""
    file = folder / "examples.parquet"
    if not file.is_file():
        write_parquet(examples(), file)
    return HeadsRun(
        examples=file,
        folder=folder / "tiny_judge",
        encoder=encoder,
        settings=QUICK.model_copy(update=settings),
    )


def trained_heads(folder: Path, encoder: str, note: Callable[[str], None] = str) -> Path:
    """The folder of heads trained on the word judge's rulings."""
    run = heads_run(folder, encoder)
    train_heads(run, note)
    return run.folder


def write_run(data: Path, judge: Judge, made: list[Rollout], recipe: Experiment) -> Path:
    """The logs of a run of one step with these rollouts, as far as the tiny judge reads them."""
    folder = data / "policy" / recipe.name
    name = "step-000000.attempt-01.parquet"
    folder.mkdir(parents=True)
    record = {"key": KEY, "attempts": [{"attempt": 1, "resumed_from": 0}]}
    (folder / "run.json").write_text(json.dumps(record), "utf-8")
    config = {"experiment": plain_values(recipe), "limits": {"most_cycles": 40}}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    claims = {one.group: one.evidence for one in made}
    frame = pl.DataFrame({"claim_id": [*claims], "evidence": [*claims.values()]})
    write_parquet(frame, folder / f"inputs/{KEY}/claims.parquet")
    planned = plan(made)
    calls = planned.frame(judge.judge(list(planned.calls)), judge.engine)
    write_parquet(calls, folder / "judge_calls" / name)
    rows = table_of(schemas.ROLLOUTS, [_row(one) for one in made])
    write_parquet(rows, folder / "rollouts" / name)
    return folder


def _row(one: Rollout) -> dict[str, object]:
    cycle = one.trace.cycles[0]
    text = (
        f"<question>{cycle.question}</question><answer>{cycle.answer}</answer>"
        f"<verification>{one.trace.verdict}</verification>"
    )
    return (
        plain("rollouts")
        | {"run": KEY, "group": one.group, "rollout": one.number, "claim": one.claim}
        | {"label": one.label, "verdict": one.trace.verdict, "completion": text, "n_star": 1}
        | {"prompt_tokens": 9, "completion_tokens": 9, "total": 1.0}
    )
