"""Training as a Ray job, with a dashboard that fails; a real cluster's is in ``test_ray``."""

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from resources.training.process import DONE
from resources.training.ray_jobs import TrainingJobs

pytest.importorskip("ray")


class Dashboard(BaseHTTPRequestHandler):
    """Takes a job that has ended at once, and has lost its output."""

    stopped: list[str]  # of the subclass that a server has

    def do_GET(self) -> None:
        """Its version, or a job."""
        if self.path.endswith("/logs"):
            self._answer(500, {})
        elif self.path == "/api/version":
            self._answer(200, dict.fromkeys(("version", "ray_version", "ray_commit"), "4"))
        else:
            job = {"type": "SUBMISSION", "submission_id": "job", "job_id": None}
            ended = {"status": "SUCCEEDED", "entrypoint": "true", "driver_exit_code": DONE}
            self._answer(200, job | ended)

    def do_POST(self) -> None:
        """Take a job, or stop one."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.endswith("/stop"):
            self.stopped.append(self.path)
            self._answer(200, {"stopped": True})
        else:
            self._answer(200, {"submission_id": "job", "job_id": "job"})

    def _answer(self, status: int, body: Mapping[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's
        """Say nothing."""


@pytest.fixture
def stopped() -> list[str]:
    """The jobs that were stopped."""
    return []


@pytest.fixture
def jobs(stopped: list[str]) -> Iterator[TrainingJobs]:
    """Jobs at such a dashboard."""
    handler = type("Named", (Dashboard,), {"stopped": stopped})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield TrainingJobs(address=f"http://127.0.0.1:{server.server_address[1]}")
    server.shutdown()
    server.server_close()
    serving.join()


def test_a_job_whose_output_is_lost_still_ends_as_it_did(tmp_path: Path, jobs: TrainingJobs):
    """Its results are files: the log says what is missing."""
    log = tmp_path / "train.log"
    assert DONE == jobs.run(["true"], log, 1, "a run")
    assert "== a run\nthe output of Ray job job cannot be read" in log.read_text("utf-8")


def test_a_run_that_is_interrupted_as_it_starts_a_job_stops_it(
    tmp_path: Path, jobs: TrainingJobs, stopped: list[str]
):
    """Between the submission and the wait too."""

    def interrupted(_: Mapping[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jobs.run(["true"], tmp_path / "train.log", 1, "a run", interrupted)
    assert ["/api/jobs/job/stop"] == stopped
