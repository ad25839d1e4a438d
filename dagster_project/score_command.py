"""The options and the output of ``decomposerl score`` and ``decomposerl serve-rewards``."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

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
from decomposerl.rewards.settings import RewardSettings

if TYPE_CHECKING:
    from dagster_project.score import Labels, ScoreRun

UNREADABLE = 3
"""Exit code: some lines could not be read, the others were scored."""
_READINGS = {
    "necessity": "Over the questions of a trace.",
    "abstention": "literal: as the paper's formula, where dodging pays.",
    "atomicity": "k/5, or all five.",
    "votes": "Whose majority replaces a missing label.",
    "failures": "How a missing judge verdict counts.",
    "grounding": "required: coverage and necessity pay for correct answers only.",
    "silence": "refutes: an honest abstention about a part refutes the claim.",
    "restating": "marked: a question that restates the claim earns nothing.",
    "own": "A reward of your own, MODULE:FUNCTION.",
}
"""The options that are fields of ``RewardSettings``, with their help."""
Weights = Annotated[
    list[str] | None, typer.Option(help="NAME=NUMBER; repeatable; 0 switches a reward off.")
]
Share = Annotated[float | None, typer.Option(help="Share of claims that keep their label, 0..1.")]
Recorded = Annotated[
    Path | None, typer.Option(help="A judge_calls table to use instead of the judge.")
]
Traces = Annotated[Path, typer.Argument(help="JSONL: claim, evidence, trace; '-': standard input.")]
ThreeWay = Annotated[
    bool, typer.Option("--three-way", help="Not Enough Information is a verdict and a label, too.")
]


def _with_rewards(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options that weigh and read rewards, in place of their values."""
    kinds, kind = get_type_hints(RewardSettings), inspect.Parameter.KEYWORD_ONLY
    shared: list[tuple[str, object, Any]] = [
        ("weight", None, Weights),
        *(
            (name, getattr(RewardSettings(), name), Annotated[kinds[name], typer.Option(help=text)])
            for name, text in _READINGS.items()
        ),
        ("three_way", False, ThreeWay),
        ("labelled_share", None, Share),
    ]

    @functools.wraps(command)
    def given(**options: Any) -> None:  # noqa: ANN401 - typer checks them
        from dagster_project.score import Labels
        from decomposerl.schemas import LABELS, VERDICTS

        weights, three_way, share = map(options.pop, ("weight", "three_way", "labelled_share"))
        readings = {name: options.pop(name) for name in _READINGS}
        settings = RewardSettings(_weights(weights), **readings)
        command(settings, Labels(share, VERDICTS if three_way else LABELS), **options)

    own = [*inspect.signature(command).parameters.values()][2:]
    place = [one.name for one in own].index("judge_calls")
    options = (inspect.Parameter(n, kind, default=d, annotation=a) for n, d, a in shared)
    parameters = [*own[:place], *options, *own[place:]]
    vars(given)["__signature__"] = inspect.Signature(parameters)
    given.__annotations__ = {one.name: one.annotation for one in parameters}
    return given


@report_errors
@_with_rewards
def score(  # noqa: PLR0913 - each is one option
    settings: RewardSettings,
    labels: "Labels",
    *,
    traces: Traces,
    out: Annotated[Path | None, typer.Option(help="Reward table; default: next to TRACES.")] = None,
    judge_calls: Recorded = None,
    endpoint: own_model.EndpointOption = "",
    model: own_model.ModelOption = "",
    key_env: own_model.KeyOption = "",
    allow_unreadable: Annotated[
        bool, typer.Option("--allow-unreadable", help="Exit with 0 even if lines were skipped.")
    ] = False,
    questions: Annotated[bool, typer.Option(help="Also print each question's values.")] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Score traces with the reward ensemble; print the table and write it as Parquet.

    TRACES has one JSON object per line: claim, evidence and trace; optionally label, n_star or
    questions, group, rollout, truncated; or what 'verify --json' writes. See
    docs/how-to/serve-rewards.md. Lines that cannot be read go to the rejects file, the others are
    scored, and the exit code is 3.
    """
    from dagster_project.progress_display import shown_progress
    from dagster_project.score import score_file

    own_model.use_as_judge(own_model.named_model(endpoint, model, key_env), judge_calls)
    with shown_progress():
        run = score_file(traces, settings, labels, judge_calls, out)
    _print_scores(run, output, questions=questions)
    if run.unreadable and not allow_unreadable:
        raise typer.Exit(UNREADABLE)


@report_errors
@_with_rewards
def serve_rewards(  # noqa: PLR0913 - each is one option
    settings: RewardSettings,
    labels: "Labels",
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one.")] = 8005,
    at_once: Annotated[int, typer.Option(min=1, help="Requests that are scored at a time.")] = 8,
    most_megabytes: Annotated[int, typer.Option(min=1, help="Largest body of a request.")] = 16,
    most_questions: Annotated[
        int, typer.Option(min=1, help="Questions of a request that are judged.")
    ] = 2_000,
    most_cycles: Annotated[
        int, typer.Option(min=1, help="A trace with more is not judged, as in training.")
    ] = 40,
    most_calls: Annotated[
        int, typer.Option(min=0, help="Calls to a judge's endpoint in all; 0: no limit.")
    ] = 0,
    judge_calls: Recorded = None,
) -> None:
    """Serve the rewards over HTTP, for a trainer in another environment.

    POST /v1/rewards takes whole groups of rollouts with the fields that 'score' reads and returns
    each reward's value, null where it does not count. GET /v1/health says what scores. There is no
    authentication; requests of web pages and to another host's name are refused. Ctrl-C and SIGTERM
    give the requests under way some seconds. See docs/how-to/serve-rewards.md.
    """
    from dagster_project.reward_server import Limits, opened_service, serve_at

    limits = Limits(most_megabytes * 1_000_000, most_questions, most_cycles)
    service = opened_service(settings, labels, limits, recorded=judge_calls, most_calls=most_calls)
    serve_at(host, port, service, at_once)


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
