"""Rulings that a word decides, heads trained on them, and a training run that stored them."""

import json
from pathlib import Path

import polars as pl

from decomposerl import schemas
from decomposerl.judge.call import Judge, JudgeCall, Ruling, needed_calls
from decomposerl.judge.distillation import (
    DistillationSettings,
    HeadSettings,
    RuledCall,
    heads_of,
    judge_examples,
    ruled_calls,
)
from decomposerl.rewards.scoring import calls_frame, rulings_on
from decomposerl.schemas import LABELS
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.training.experiment import Experiment, plain_values
from plain_rows import plain, table_of
from resources.store.parquet import write_parquet
from resources.training.judge_heads import HeadsRun

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
        return [Ruling.from_text(self._said(call)) for call in calls]

    def _said(self, call: JudgeCall) -> str:
        if call.task == "coverage":
            said = (
                word
                for word, thing in zip(LABELS, ("cat", "dog"), strict=True)
                if thing in call.claim
            )
            return next(said, "NotEnoughInfo")
        named = "cat" in " ".join((call.question, *call.answers))
        return str(int(named)) * len(heads_of(call.task))


def rollouts(claims: int = 48, each: int = 2) -> list[Rollout]:
    """Traces with one question each, about a cat, a dog or a mat in turns, by claim."""
    made = []
    for number in range(claims * each):
        group, of = divmod(number, each)
        thing, asked = ("cat dog mat".split()[(group + step) % 3] for step in (0, of))
        text = (
            f"<question>the {asked} sat on a mat {number}?</question><answer>the {asked} ran"
            f"</answer><verification>{LABELS[of % 2]}</verification>"
        )
        told = (f"the {thing} was born in {group}", f"a mat was won. a mat ran to {group}.")
        made.append(Rollout(f"c{group}", of, *told, parse_trace(text), LABELS[group % 2], 1))
    return made


def calls_of_all(made: list[Rollout]) -> list[JudgeCall]:
    """Their distinct calls, in the order of first use."""
    return list(dict.fromkeys(call for one in made for call in needed_calls(one).values()))


def ruled(judge: Judge, made: list[Rollout]) -> list[RuledCall]:
    """Their calls with the judge's rulings."""
    calls = calls_of_all(made)
    rulings = zip((one.key for one in calls), judge.judge(calls), strict=True)
    return list(ruled_calls(made, dict(rulings)))


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
    needed = [needed_calls(one) for one in made]
    rulings = rulings_on(needed, judge)
    calls = calls_frame(made, needed, rulings, judge.engine)
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
