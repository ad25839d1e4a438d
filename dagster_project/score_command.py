"""The options of ``decomposerl score`` and ``decomposerl serve-rewards``."""

from dataclasses import fields
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer

from dagster_project import own_model
from dagster_project.terminal import Format, FormatOption, print_note, report_errors
from decomposerl.errors import ConfigError
from decomposerl.rewards.settings import RewardSettings
from resources.process.interrupt import more_time

UNREADABLE = 3  # the exit code where some lines could not be read; the others were scored
WeightOption = Annotated[
    list[str] | None, typer.Option(help="NAME=NUMBER; repeatable; 0 switches a reward off.")
]
ReadingOption = Annotated[
    list[str] | None, typer.Option(help="NAME=WORD, such as necessity=mean; repeatable.")
]
ThreeWayOption = Annotated[
    bool, typer.Option("--three-way", help="Not Enough Information is a verdict and a label, too.")
]


@report_errors
def score(  # noqa: PLR0913 - each is one option
    *,
    traces: Annotated[
        Path, typer.Argument(help="JSONL: claim, evidence, trace; '-': standard input.")
    ],
    out: Annotated[Path | None, typer.Option(help="Reward table; default: next to TRACES.")] = None,
    weight: WeightOption = None,
    reading: ReadingOption = None,
    three_way: ThreeWayOption = False,
    judge_calls: Annotated[
        Path | None, typer.Option(help="A judge_calls table to use instead of the judge.")
    ] = None,
    endpoint: own_model.EndpointOption = "",
    model: own_model.ModelOption = "",
    key_env: own_model.KeyOption = "",
    output: FormatOption = Format.TEXT,
) -> None:
    """Score traces with the reward ensemble; print the table and write it as Parquet.

    TRACES has one JSON object per line: claim, evidence and trace; optionally label, n_star or
    questions, group, rollout, truncated; or what 'verify --json' writes. See
    docs/how-to/serve-rewards.md. Lines that cannot be read go to the rejects file, the others are
    scored, and the exit code is 3.
    """
    from dagster_project.score import offered_labels, score_file

    settings = reward_settings(weight, reading)
    labels = offered_labels(settings, three_way=three_way)
    own_model.use_as_judge(own_model.named_model(endpoint, model, key_env), judge_calls)
    if score_file(traces, settings, labels, recorded=judge_calls, out=out, output=output):
        raise typer.Exit(UNREADABLE)


@report_errors
def serve_rewards(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one.")] = 8005,
    most_questions: Annotated[
        int, typer.Option(min=1, help="Questions of a request that are judged.")
    ] = 2_000,
    weight: WeightOption = None,
    reading: ReadingOption = None,
    three_way: ThreeWayOption = False,
) -> None:
    """Serve the rewards over HTTP, for a trainer in another environment.

    POST /v1/rewards takes whole groups of rollouts with the fields that 'score' reads and returns
    each reward's value, null where it does not count. GET /v1/health says what scores. There is no
    authentication; requests of web pages and to another host's name are refused. Ctrl-C and SIGTERM
    give the requests under way some seconds. See docs/how-to/serve-rewards.md.
    """
    from dagster_project.reward_server import STOP_S, RewardServer, RewardService
    from dagster_project.score import offered_labels, opened_engines

    settings = reward_settings(weight, reading)
    labels = offered_labels(settings, three_way=three_way)
    server, given = RewardServer(host, port), f"those under way have {STOP_S} s"
    stopped = f"no further request is taken; {given}, then status 503"
    with server.socket, opened_engines() as (judge, embedder), more_time(given, stopped):
        service = RewardService(judge, embedder, settings, labels, most_questions)
        with server.serving(service):
            print_note(f"judge={judge.engine}, question embedder={embedder.engine}")
            print_note(f"rewards on {server.url}/v1/rewards")
            Event().wait()  # for an interrupt


def reward_settings(weights: list[str] | None, readings: list[str] | None) -> RewardSettings:
    """The settings that ``NAME=NUMBER`` and ``NAME=WORD`` words make.

    Raises:
        ConfigError: a word has another form, or there is no such reading.
    """
    numbers: dict[str, float] = {}
    for word in weights or ():
        name, _, number = word.partition("=")
        try:
            numbers[name.strip()] = float(number)
        except ValueError as error:
            wanted = "it must be NAME=NUMBER, such as diversity=0"
            raise ConfigError(f"--weight is '{word}'; {wanted}") from error
    names = [one.name for one in fields(RewardSettings) if one.name != "weights"]
    chosen: dict[str, Any] = dict(word.partition("=")[::2] for word in readings or ())
    if unknown := chosen.keys() - names:
        listed = ", ".join(names)
        raise ConfigError(f"--reading has '{min(unknown)}'; it is NAME=WORD of {listed}")
    return RewardSettings(numbers, **chosen)
