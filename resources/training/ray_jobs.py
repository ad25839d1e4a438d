"""A training process as a Ray job, by dagster-ray's Pipes client.

The client submits the job, waits for its end, and stops it where the Dagster run is interrupted;
the job then has ``grace_s`` for a checkpoint. What it prints is on Ray's dashboard and in this
process's output. A job outlives a starter that is killed; the next run of the same policy waits for
its lock, and ``ray job stop`` ends it.

The nodes need this project with its extras, the run's folder at the same path, and keys in their
own environment: a job's variables are shown on Ray's dashboard, so no key is among them.
"""

import asyncio
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg
from pydantic import Field

from decomposerl.errors import TrainingError
from decomposerl.extras import require
from resources.training.messages import StepObserver, shown


class TrainingJobs(dg.Config):
    """Where training processes run: on this machine, or on a Ray cluster."""

    address: str = Field(
        default="", description="the cluster's dashboard, http://HOST:8265; empty: this machine"
    )
    cpus: float = Field(default=1, ge=0, description="that a job reserves")
    gpus: float = Field(default=0, ge=0, description="that a job reserves")
    variables: dict[str, str] = Field(default={}, description="a job's environment, without keys")

    def run(
        self, context: dg.AssetExecutionContext, words: Sequence[str], grace_s: float
    ) -> Sequence[Any]:
        """The messages of a command that reports through Pipes, once it has succeeded.

        Raises:
            EngineMissing: the extra ``ray`` is not installed.
            TrainingError: the cluster takes no job, or the job failed; with Ray's message, which
                has the end of its output.
        """
        require("ray", "dagster_ray")
        from dagster_ray import PipesRayJobClient, PipesRayJobMessageReader

        class Reader(PipesRayJobMessageReader):  # type: ignore[misc]
            """Also shows bars and steps."""

            @contextmanager
            def read_messages(self, handler: Any) -> Iterator[Any]:  # noqa: ANN401 - Dagster's types
                observer = StepObserver(context)
                with shown(handler, observer) as others, super().read_messages(others) as params:
                    yield params

            def handle_job_logs(self, handler: Any) -> None:  # noqa: ANN401 - the same
                with asyncio.Runner() as runner:  # dagster-ray's own loop would stay open
                    asyncio.set_event_loop(runner.get_loop())
                    super().handle_job_logs(handler)

            @property
            def expected_writer_count(self) -> int:  # Dagster's own warns that it is a preview
                return 1

        variables = {**self.variables, "RAY_JOB_STOP_WAIT_TIME_S": str(int(grace_s))}
        try:
            job = PipesRayJobClient(self.address, message_reader=Reader()).run(
                context=context.op_execution_context,
                submit_job_params={
                    "entrypoint": shlex.join(words),
                    "entrypoint_num_cpus": self.cpus,
                    "entrypoint_num_gpus": self.gpus,
                    "runtime_env": {"env_vars": variables},
                },
            )
        except (ConnectionError, RuntimeError) as error:
            raise TrainingError(f"training as a Ray job at {self.address}: {error}") from error
        messages: Sequence[Any] = job.get_custom_messages()
        return messages
