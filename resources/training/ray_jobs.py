"""A training process as a Ray job: the same program, messages, exit status and end.

Takes the words of a command, gives its exit status, as ``resources.process.child`` does on this
machine. The job's output carries the messages (dagster-ray's reader follows it) and is written to
the log when the job ends. An exception here, such as the interrupt of a Dagster run, stops the job:
SIGTERM, and SIGKILL after ``grace_s``. A job outlives a starter that is killed; the next run of the
same policy waits for its lock, and ``ray job stop`` ends it.

The nodes need this project with its extras, the run's folder at the same path, and keys in their
own environment: a job's variables are shown on Ray's dashboard, so no key is among them.
"""

import asyncio
import contextlib
import logging
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from decomposerl.errors import TrainingError
from decomposerl.extras import require
from resources.process.child import run_watched
from resources.process.interrupt import more_time
from resources.training.messages import IN_FILES, Channel, StepObserver, shown
from resources.training.process import DONE, FAILED

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

_LOG = logging.getLogger(__name__)
Launched = Callable[[Mapping[str, Any]], None]
_POLL_S, _STOP_S, _UNREACHABLE_S = 0.5, 15.0, 120.0
_MESSAGE = '{"__dagster_pipes_version"'


class TrainingJobs(dg.Config):
    """Where training processes run: on this machine, or on a Ray cluster."""

    address: str = Field(
        default="", description="the cluster's dashboard, http://HOST:8265; empty: this machine"
    )
    cpus: float = Field(default=1, ge=0, description="that a job reserves")
    gpus: float = Field(default=0, ge=0, description="that a job reserves")
    variables: dict[str, str] = Field(default={}, description="a job's environment, without keys")

    @property
    def channel(self) -> Channel:
        """How a process reports: in a file, or in the output of its job."""
        if not self.address:
            return IN_FILES
        require("ray", "dagster_ray")
        return Channel(_reader, dg.PipesEnvContextInjector)

    def run(
        self,
        words: Sequence[str],
        log: Path,
        grace_s: float,
        title: str,
        launched: Launched | None = None,
    ) -> int:
        """The exit status of a command; its output is appended to ``log`` under ``title``.

        Raises:
            TrainingError: the cluster does not take the job.
        """
        if not self.address:
            return run_watched(words, log, grace_s, title)
        client, job = self._submitted(words, grace_s)
        try:
            if launched is not None:
                ours = {"ray_job_id": job, "ray_address": client.get_address()}
                launched({"extras": ours})
            status = _ended(client, job)
        except BaseException:
            with more_time("the training job is saving a checkpoint"):
                client.stop_job(job)
                _ended(client, job, grace_s + _STOP_S)
            raise
        finally:
            _append(log, title, _output(client, job))
        return status

    def _submitted(self, words: Sequence[str], grace_s: float) -> "tuple[JobSubmissionClient, str]":
        require("ray", "dagster_ray")
        from ray.job_submission import JobSubmissionClient

        variables = {**self.variables, "RAY_JOB_STOP_WAIT_TIME_S": str(int(grace_s))}
        try:
            client = JobSubmissionClient(self.address)
            job = client.submit_job(
                entrypoint=shlex.join(words),
                entrypoint_num_cpus=self.cpus,
                entrypoint_num_gpus=self.gpus,
                runtime_env={"env_vars": variables},
            )
        except (ConnectionError, RuntimeError) as error:
            raise TrainingError(f"no Ray job can be started at {self.address}: {error}") from error
        return client, job


def _ended(client: "JobSubmissionClient", job: str, within_s: float = float("inf")) -> int:
    """Wait until the job ends; its exit status, ``FAILED`` where it has none."""
    until = time.monotonic() + within_s
    while not (info := _info(client, job)).status.is_terminal() and time.monotonic() < until:
        time.sleep(_POLL_S)
    succeeded = DONE if info.status.value == "SUCCEEDED" else FAILED
    return succeeded if info.driver_exit_code is None else info.driver_exit_code


def _info(client: "JobSubmissionClient", job: str) -> Any:  # noqa: ANN401 - Ray's
    """What the cluster says of a job; a dashboard that restarts is waited for."""
    until = time.monotonic() + _UNREACHABLE_S
    while True:
        try:
            return client.get_job_info(job)
        except (OSError, RuntimeError):  # those of requests are OSErrors
            if time.monotonic() > until:
                raise
            time.sleep(_POLL_S)


def _output(client: "JobSubmissionClient", job: str) -> str:
    """What a job printed; why not, where the cluster does not say: its results are files."""
    try:
        return str(client.get_job_logs(job))
    except (OSError, RuntimeError) as error:
        return f"the output of Ray job {job} cannot be read: {error}"


def _append(log: Path, title: str, output: str) -> None:
    """Add a job's output to the log, without its messages."""
    log.parent.mkdir(parents=True, exist_ok=True)
    lines = [line for line in output.splitlines() if not line.startswith(_MESSAGE)]
    with log.open("a", encoding="utf-8") as stream:
        stream.write("\n".join([f"== {title}", *lines, ""]))


def _reader(observer: StepObserver) -> dg.PipesMessageReader:
    """Dagster-ray's reader of a job's output, which also shows bars and steps.

    Its own loop over the output is replaced: it leaves an event loop open with each job, and loses
    a message that comes in two parts.
    """
    from dagster_ray import PipesRayJobMessageReader

    class JobMessages(PipesRayJobMessageReader):  # type: ignore[misc]
        @contextlib.contextmanager
        def read_messages(self, handler: Any) -> Iterator[Any]:  # noqa: ANN401 - Dagster's types
            with shown(handler, observer) as others, super().read_messages(others) as params:
                yield params

        def handle_job_logs(self, handler: Any) -> None:  # noqa: ANN401 - the same
            while self._job_id is None and not self.session_closed.wait(_POLL_S):
                pass
            try:
                if self._job_id is not None:
                    asyncio.run(_follow(self.client, self._job_id, handler))
            except Exception as error:  # noqa: BLE001 - the job goes on, its results are files
                _LOG.warning("further messages of the training job are lost: %s", error)

        @property
        def expected_writer_count(self) -> int:  # Dagster's own warns that it is a preview
            return 1

    return JobMessages()


async def _follow(client: "JobSubmissionClient", job: str, handler: Any) -> None:  # noqa: ANN401 - Dagster's
    """Pass on the messages in a job's output; its other lines go to this process's."""
    from dagster._core.pipes.utils import extract_message_or_forward_to_stdout as pass_on

    rest = ""
    async for chunk in client.tail_job_logs(job):
        *lines, rest = (rest + chunk).split("\n")
        for line in filter(None, lines):
            pass_on(handler, line)
    if rest:
        pass_on(handler, rest)
