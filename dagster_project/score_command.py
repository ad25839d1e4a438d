"""The options and the output of ``decomposerl score`` and ``decomposerl serve-rewards``."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from dagster_project import own_model
from dagster_project.terminal import Format, FormatOption, report_errors
from decomposerl.errors import ConfigError
from decomposerl.rewards.settings import RewardSettings

if TYPE_CHECKING:
    from dagster_project.score import Scoring

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
Recorded = Annotated[
    Path | None, typer.Option(help="A judge_calls table to use instead of the judge.")
]


def _with_scoring(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options that weigh and read rewards, in place of ``scoring``."""
    kinds, usual = get_type_hints(RewardSettings), RewardSettings()
    added: dict[str, tuple[Any, object, str]] = {
        "weight": (list[str] | None, None, "NAME=NUMBER; repeatable; 0 switches a reward off."),
        **{name: (kinds[name], getattr(usual, name), text) for name, text in _READINGS.items()},
        "three_way": (bool, False, "Not Enough Information is a verdict and a label, too."),
        "labelled_share": (float | None, None, "Share of claims that keep their label, 0..1."),
    }

    @functools.wraps(command)
    def given(**options: Any) -> None:  # noqa: ANN401 - typer checks them
        from dagster_project.score import Scoring
        from decomposerl.schemas import LABELS, VERDICTS

        weight, three_way, share = map(options.pop, ("weight", "three_way", "labelled_share"))
        settings = RewardSettings(_weights(weight), **{n: options.pop(n) for n in _READINGS})
        command(scoring=Scoring(settings, VERDICTS if three_way else LABELS, share), **options)

    own = [*inspect.signature(command).parameters.values()]
    place = [one.name for one in own].index("scoring")
    own[place : place + 1] = [
        own[place].replace(
            name=name,
            default=default,
            annotation=Annotated[kind, typer.Option(f"--{name.replace('_', '-')}", help=text)],
        )
        for name, (kind, default, text) in added.items()
    ]
    vars(given)["__signature__"] = inspect.Signature(own)
    given.__annotations__ = {one.name: one.annotation for one in own}
    return given


@report_errors
@_with_scoring
def score(  # noqa: PLR0913 - each is one option
    *,
    traces: Annotated[
        Path, typer.Argument(help="JSONL: claim, evidence, trace; '-': standard input.")
    ],
    out: Annotated[Path | None, typer.Option(help="Reward table; default: next to TRACES.")] = None,
    scoring: "Scoring",
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
    from dagster_project.score import score_file

    own_model.use_as_judge(own_model.named_model(endpoint, model, key_env), judge_calls)
    rejected = score_file(
        traces, scoring, recorded=judge_calls, out=out, output=output, questions=questions
    )
    if rejected and not allow_unreadable:
        raise typer.Exit(UNREADABLE)


@report_errors
@_with_scoring
def serve_rewards(  # noqa: PLR0913 - each is one option
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
    scoring: "Scoring",
    judge_calls: Recorded = None,
) -> None:
    """Serve the rewards over HTTP, for a trainer in another environment.

    POST /v1/rewards takes whole groups of rollouts with the fields that 'score' reads and returns
    each reward's value, null where it does not count. GET /v1/health says what scores. There is no
    authentication; requests of web pages and to another host's name are refused. Ctrl-C and SIGTERM
    give the requests under way some seconds. See docs/how-to/serve-rewards.md.
    """
    from dagster_project.reward_server import Limits, RewardServer, serve

    limits = Limits(most_megabytes * 1_000_000, most_questions, most_cycles)
    server = RewardServer(host, port, at_once)
    serve(server, scoring, limits, most_calls=most_calls, recorded=judge_calls)


def _weights(pairs: list[str] | None) -> dict[str, float]:
    """``NAME=NUMBER`` words as weights.

    Raises:
        ConfigError: a word has another form.
    """
    weights = {}
    for pair in pairs or ():
        name, _, number = pair.partition("=")
        try:
            weights[name.strip()] = float(number)
        except ValueError as error:
            raise ConfigError(
                f"--weight is '{pair}'; it must be NAME=NUMBER, such as diversity=0"
            ) from error
    return weights
