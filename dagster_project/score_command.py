"""The options of ``decomposerl score`` and what it prints.

Left out deliberately: the work (``dagster_project.score``), imported when it is asked for.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dagster_project.terminal import Format, in_red, note, say, say_rows

if TYPE_CHECKING:
    from dagster_project.score import ScoreRun


UNREADABLE = 3
"""Exit code: what could be read was scored, some lines could not be read."""
Weights = Annotated[
    list[str] | None, typer.Option(help="NAME=NUMBER, may be repeated; 0 switches off.")
]
Abstention = Annotated[
    Literal["honest", "literal"], typer.Option(help="Whether dodging pays, as printed.")
]
Atomicity = Annotated[Literal["fraction", "strict"], typer.Option(help="k/5, or all five.")]
Failures = Annotated[
    Literal["drop_group", "drop_rollout", "zero", "raise"],
    typer.Option(help="What a missing ruling does to the sum."),
]
Share = Annotated[float | None, typer.Option(help="Take the label from the other claims, 0..1.")]
Unreadable = Annotated[
    bool, typer.Option("--allow-unreadable", help="Exit 0 also where lines were left out.")
]
Recorded = Annotated[Path | None, typer.Option(help="A judge_calls table in place of the judge.")]


@in_red
def score(  # noqa: PLR0913 - each is one option
    traces: Annotated[Path, typer.Argument(help="JSONL: claim, evidence, trace; '-' is input.")],
    *,
    out: Annotated[Path | None, typer.Option(help="Reward table; default: beside TRACES.")] = None,
    weight: Weights = None,
    necessity: Annotated[Literal["min", "mean"], typer.Option(help="Over questions.")] = "min",
    abstention: Abstention = "honest",
    atomicity: Atomicity = "fraction",
    votes: Annotated[
        Literal["judge", "policy"], typer.Option(help="Whose verdicts stand in for a label.")
    ] = "judge",
    failures: Failures = "drop_group",
    labelled_share: Share = None,
    judge_calls: Recorded = None,
    allow_unreadable: Unreadable = False,
    questions: Annotated[bool, typer.Option(help="Print each question's values too.")] = False,
    output: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TEXT,
) -> None:
    """Score traces with the reward ensemble; print the table and write it as Parquet.

    TRACES holds one JSON object a line: claim, evidence and trace, and where there are any
    label, n_star or questions, group, rollout, truncated. See docs/rewards.md. Exits with 3
    where a line could not be read; the others are scored, and it is kept in the rejects file.
    """
    from dagster_project.score import parse_weights, score_file
    from decomposerl.rewards.settings import RewardSettings

    settings = RewardSettings(
        weights=parse_weights(weight or []),
        necessity=necessity,
        abstention=abstention,
        atomicity=atomicity,
        votes=votes,
        failures=failures,
    )
    run = score_file(traces, settings, labelled_share, judge_calls, out)
    _tell_scores(run, output, questions=questions)
    if run.unreadable and not allow_unreadable:
        raise typer.Exit(UNREADABLE)


def _tell_scores(run: "ScoreRun", output: Format, *, questions: bool) -> None:
    """The table on standard output; engines, problems and files on standard error."""
    from decomposerl.reports.score_report import (
        question_pages,
        score_markdown,
        score_text,
        score_wide,
    )

    scored, wide = run.scoring.rewards, score_wide(run.scoring.rewards)
    if output in {Format.CSV, Format.JSON}:
        say_rows(wide, output)
    else:
        say(score_text(wide) if output is Format.TEXT else score_markdown(wide))
        if questions:
            say(f"\n{question_pages(scored)}")
    for line in run.notes():
        note(line)
