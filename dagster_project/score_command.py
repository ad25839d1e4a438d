"""The options and the output of ``decomposerl score`` and ``decomposerl serve-rewards``."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dagster_project import own_model
from dagster_project.terminal import (
    Format,
    FormatOption,
    print_note,
    print_rows,
    print_text,
    report_errors,
)
from decomposerl.errors import ConfigError

if TYPE_CHECKING:
    from dagster_project.score import ScoreRun


UNREADABLE = 3
"""Exit code: some lines could not be read, the others were scored."""
Weights = Annotated[
    list[str] | None, typer.Option(help="NAME=NUMBER; repeatable; 0 switches a reward off.")
]
Abstention = Annotated[
    Literal["honest", "literal", "part"],
    typer.Option(help="literal: as the paper's formula, where dodging pays."),
]
Grounding = Annotated[
    Literal["literal", "required"],
    typer.Option(help="required: coverage and necessity pay for correct answers only."),
]
Silence = Annotated[
    Literal["literal", "refutes"],
    typer.Option(help="refutes: an honest abstention about a part refutes the claim."),
]
Restating = Annotated[
    Literal["literal", "marked"],
    typer.Option(help="marked: a question that restates the claim earns nothing."),
]
Atomicity = Annotated[Literal["fraction", "strict"], typer.Option(help="k/5, or all five.")]
Failures = Annotated[
    Literal["drop_group", "drop_rollout", "zero", "raise"],
    typer.Option(help="How a missing judge verdict counts."),
]
Share = Annotated[float | None, typer.Option(help="Share of claims that keep their label, 0..1.")]
Unreadable = Annotated[
    bool, typer.Option("--allow-unreadable", help="Exit with 0 even if lines were skipped.")
]
Recorded = Annotated[
    Path | None, typer.Option(help="A judge_calls table to use instead of the judge.")
]
Traces = Annotated[Path, typer.Argument(help="JSONL: claim, evidence, trace; '-': standard input.")]
AtOnce = Annotated[int, typer.Option(min=1, help="Requests that are scored at a time.")]
MostCycles = Annotated[
    int, typer.Option(min=1, help="A trace with more is not judged, as in training.")
]
MostCalls = Annotated[
    int, typer.Option(min=0, help="Calls to a judge's endpoint in all; 0: no limit.")
]
Necessity = Annotated[Literal["min", "mean"], typer.Option(help="Over the questions of a trace.")]
Votes = Annotated[
    Literal["judge", "policy"], typer.Option(help="Whose majority replaces a missing label.")
]

ThreeWay = Annotated[
    bool, typer.Option("--three-way", help="Not Enough Information is a verdict and a label, too.")
]


@report_errors
def score(  # noqa: PLR0913 - each is one option
    traces: Traces,
    *,
    out: Annotated[Path | None, typer.Option(help="Reward table; default: next to TRACES.")] = None,
    weight: Weights = None,
    necessity: Necessity = "min",
    abstention: Abstention = "honest",
    atomicity: Atomicity = "fraction",
    votes: Votes = "judge",
    failures: Failures = "drop_group",
    grounding: Grounding = "literal",
    silence: Silence = "literal",
    restating: Restating = "literal",
    three_way: ThreeWay = False,
    labelled_share: Share = None,
    judge_calls: Recorded = None,
    endpoint: own_model.EndpointOption = "",
    model: own_model.ModelOption = "",
    key_env: own_model.KeyOption = "",
    allow_unreadable: Unreadable = False,
    questions: Annotated[bool, typer.Option(help="Also print each question's values.")] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Score traces with the reward ensemble; print the table and write it as Parquet.

    TRACES has one JSON object per line: claim, evidence and trace; optionally label, n_star or
    questions, group, rollout, truncated. See docs/how-to/serve-rewards.md. Lines that cannot be
    read go to the rejects file, the others are scored, and the exit code is 3.
    """
    from dagster_project.progress_display import shown_progress
    from dagster_project.score import Labels, score_file
    from decomposerl.rewards.settings import RewardSettings
    from decomposerl.schemas import LABELS, VERDICTS

    paper = RewardSettings(_weights(weight), necessity, abstention, atomicity, votes, failures)
    settings = replace(paper, grounding=grounding, silence=silence, restating=restating)
    labels = Labels(labelled_share, VERDICTS if three_way else LABELS)
    own_model.use_as_judge(own_model.named_model(endpoint, model, key_env), judge_calls)
    with shown_progress():
        run = score_file(traces, settings, labels, judge_calls, out)
    _print_scores(run, output, questions=questions)
    if run.unreadable and not allow_unreadable:
        raise typer.Exit(UNREADABLE)


@report_errors
def serve_rewards(  # noqa: PLR0913 - each is one option
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one.")] = 8005,
    at_once: AtOnce = 8,
    most_megabytes: Annotated[int, typer.Option(min=1, help="Largest body of a request.")] = 64,
    most_cycles: MostCycles = 40,
    most_calls: MostCalls = 0,
    weight: Weights = None,
    necessity: Necessity = "min",
    abstention: Abstention = "honest",
    atomicity: Atomicity = "fraction",
    votes: Votes = "judge",
    failures: Failures = "drop_group",
    grounding: Grounding = "literal",
    silence: Silence = "literal",
    restating: Restating = "literal",
    three_way: ThreeWay = False,
    labelled_share: Share = None,
    judge_calls: Recorded = None,
) -> None:
    """Serve the rewards over HTTP, for a trainer in another environment.

    POST /v1/rewards takes whole groups of rollouts with the fields that 'score' reads and returns
    each reward's value, null where it does not count. GET /v1/health says what scores. There is no
    authentication. Ctrl-C and SIGTERM finish the requests under way.
    See docs/how-to/serve-rewards.md.
    """
    from dagster_project.reward_server import serve_at
    from dagster_project.reward_service import opened_service
    from dagster_project.score import Labels
    from decomposerl.rewards.settings import RewardSettings
    from decomposerl.schemas import LABELS, VERDICTS

    paper = RewardSettings(_weights(weight), necessity, abstention, atomicity, votes, failures)
    settings = replace(paper, grounding=grounding, silence=silence, restating=restating)
    labels = Labels(labelled_share, VERDICTS if three_way else LABELS)
    service = opened_service(
        settings, labels, most_cycles, recorded=judge_calls, most_calls=most_calls
    )
    serve_at(host, port, service, at_once, most_megabytes * 1_000_000)


def _weights(pairs: list[str] | None) -> dict[str, float]:
    """``NAME=NUMBER`` words as weights.

    Raises:
        ConfigError: a word has another form.
    """
    weights = {}
    for pair in pairs or []:
        name, equals, number = pair.partition("=")
        try:
            weights[name.strip()] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise ConfigError(f"--weight is '{pair}'; it must be NAME=NUMBER, such as diversity=0")
    return weights


def _print_scores(run: "ScoreRun", output: Format, *, questions: bool) -> None:
    """The table on standard output; engines, problems and files on standard error."""
    from decomposerl.reports.reward_report import (
        question_pages,
        reward_frame,
        reward_markdown,
        reward_text,
    )

    scored, wide = run.scoring.rewards, reward_frame(run.scoring.rewards)
    if output.is_data:
        print_rows(wide, output)
    else:
        print_text(reward_text(wide) if output is Format.TEXT else reward_markdown(wide))
        if questions:
            print_text(f"\n{question_pages(scored)}")
    for line in run.notes():
        print_note(line)
