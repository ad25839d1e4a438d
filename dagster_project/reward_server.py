"""``decomposerl serve-rewards``: the ensemble over HTTP, for trainers of other environments.

A request holds whole groups of rollouts, with the fields that ``decomposerl score`` reads; the
reply has each reward's value, state, weight and what counts. ``docs/how-to/serve-rewards.md`` is
the contract. The server is the standard library's, as it has to hold three lines that a web
framework leaves open: who may ask (``reward_http``), how long a client may take, and a stop.
"""

import contextlib
import math
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock
from time import monotonic, sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dagster_project.environment import read_settings
from dagster_project.reward_http import Reply, RewardHandler
from dagster_project.row_forms import in_score_form
from dagster_project.score import (
    ALL_LABELS,
    Labels,
    check_settings,
    opened_engines,
    rollouts_of_records,
)
from dagster_project.terminal import print_note
from decomposerl.errors import ConfigError, DecomposeRLError
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.rewards.composite import active_rewards
from decomposerl.rewards.settings import RewardSettings
from decomposerl.rewards.table import reward_objects
from decomposerl.schemas import WRITTEN, Verdict
from decomposerl.traces.records import (
    MOST_BYTES,
    Problem,
    TraceRecord,
    json_object,
    meant_field,
    read_trace_rows,
    safe_name,
)
from decomposerl.traces.rollout import Rollout
from resources.chat.engine import ChatEngine
from resources.judge.scoring import JudgedBatch, reward_rollouts
from resources.process.interrupt import more_time
from resources.training.process import RunLimits

MOST_CYCLES = RunLimits().most_cycles
"""As in training: a longer trace is not judged."""
STOP_S = 7.0
"""Seconds that a stop gives the requests under way; it takes 10 at most."""
_LAST_REPLIES_S = 1.0
_POLL_S = 0.05
_MOST_CONNECTIONS = 512
_FIELDS = ("rollouts", "group_size")
_SHOWN = 100  # problems in one reply
_WAITS = f"the requests under way have {STOP_S:g} s"
_STOPPED = f"no further request is taken; those under way have {STOP_S:g} s, then status 503"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may cost. ``most_cycles`` is as in ``reward_rollouts``.

    ``most_questions`` are those that are judged and embedded, over all rollouts. A client has
    ``receive_s`` to send its request: byte by byte it would hold a thread for ever.
    """

    most_bytes: int = 16_000_000
    most_questions: int = 2_000
    most_cycles: int = MOST_CYCLES
    receive_s: float = 60.0


@dataclass(frozen=True, slots=True)
class RewardService:
    """Scores requests; threads may share one."""

    profile: str
    judge: Judge
    embedder: Embedder
    settings: RewardSettings
    labels: Labels = ALL_LABELS
    limits: Limits = Limits()
    _embedding: Lock = field(default_factory=Lock)

    def health(self) -> Reply:
        """What scores here: profile, engines, rewards with weight and range, readings."""
        readings = asdict(self.settings)
        weights = readings.pop("weights")
        return {
            "status": "ok",
            "profile": self.profile,
            "judge": self.judge.engine,
            "embedder": self.embedder.engine,
            "rewards": [
                {
                    "name": reward.name,
                    "weight": float(weights.get(reward.name, reward.weight)),
                    "low": float(reward.low),
                    "high": float(reward.high),
                }
                for reward in active_rewards(self.settings)
            ],
            "readings": readings,
            "labelled_share": self.labels.share,
            "most_cycles": self.limits.most_cycles,
            "verdicts": [WRITTEN[label] for label in self.labels.names],
        }

    def answer(self, body: bytes) -> tuple[HTTPStatus, Reply]:
        """Status and reply of a request; only a fault of this program raises."""
        given = _groups_of(body, self.labels.names)
        if isinstance(given, dict):
            return HTTPStatus.BAD_REQUEST, given
        records, notes = given
        rollouts = rollouts_of_records(records, self.labels.share)
        cycles = [len(rollout.trace.cycles) for rollout in rollouts]
        asked = sum(number for number in cycles if number <= self.limits.most_cycles)
        if asked > (most := self.limits.most_questions):
            why = f"the rollouts ask {asked:,} questions; at most {most:,} are judged in a request"
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"{why}: send fewer groups"}
        try:
            judged = self._judged(rollouts)
        except DecomposeRLError as error:
            wrong = isinstance(error, ConfigError)
            status = HTTPStatus.INTERNAL_SERVER_ERROR if wrong else HTTPStatus.SERVICE_UNAVAILABLE
            return status, {"error": str(error)}
        return HTTPStatus.OK, {
            "rollouts": reward_objects(judged.rewards),
            "judge": self.judge.engine,
            "embedder": self.embedder.engine,
            "distinct_calls": judged.distinct_calls,
            "notes": notes,
        }

    def _judged(self, rollouts: Sequence[Rollout]) -> JudgedBatch:
        judge = self.judge.renewed() if isinstance(self.judge, ChatEngine) else self.judge
        embedder = _InTurn(self.embedder, self._embedding)
        return reward_rollouts(rollouts, judge, embedder, self.settings, self.limits.most_cycles)


@dataclass(frozen=True, slots=True)
class _InTurn:
    """The embedder, for one thread at a time: its store of results is not for several."""

    inner: Embedder
    lock: Lock

    @property
    def engine(self) -> str:
        return self.inner.engine

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        with self.lock:
            return self.inner.embed(texts)


def _groups_of(
    body: bytes, labels: tuple[Verdict, ...]
) -> tuple[list[TraceRecord], list[str]] | Reply:
    """What a request asks to score and what of it is not read, or the reply that refuses it."""
    values = json_object(body.decode("utf-8", "surrogateescape"))
    if isinstance(values, str):
        return _refusal(f"the body {values}" if values.startswith("is ") else f"the body: {values}")
    rows, size = values.get("rollouts"), values.get("group_size")
    if not isinstance(rows, list) or not rows:
        return _refusal("'rollouts' must be a list of at least one object")
    if size is not None and (type(size) is not int or size < 1):
        return _refusal("'group_size' must be a whole number from 1 on")
    unknown = [name for name in values if name not in _FIELDS]
    for name in unknown:
        if meant := meant_field(name, values, _FIELDS):
            return _refusal(f"'{safe_name(name)}' is no field; '{meant}' is absent: rename it")
    given = [in_score_form(row) if isinstance(row, dict) else row for row in rows]
    records, problems = read_trace_rows(given, "rollouts", labels)
    wrong = [one for one in problems if one.dropped] or _incomplete(records, size)
    if wrong:
        more = f" (and {len(wrong) - 1:,} further problems)" if len(wrong) > 1 else ""
        return _refusal(f"{wrong[0]}{more}", wrong)
    notes = [*(f"'{safe_name(name)}' is not read" for name in unknown), *map(str, problems)]
    # A completion without an end must not refuse its group, nor cost the seconds of its reading.
    long = {record.line for record in records if len(record.text) > MOST_BYTES["trace"]}
    notes += [f"rollouts, row {line}: the trace is too long, and read as empty" for line in long]
    return [replace(one, text="") if one.line in long else one for one in records], notes


def _refusal(error: str, problems: Sequence[Problem] = ()) -> Reply:
    listed = [
        {"row": one.line, "field": one.field, "reason": one.reason} for one in problems[:_SHOWN]
    ]
    return {"error": error, "problems": listed}


def _incomplete(records: Sequence[TraceRecord], size: int | None) -> list[Problem]:
    """Groups that have not ``size`` rollouts: the majority vote of a part may differ."""
    first = {one.group: one.line for one in reversed(records)}
    numbers = Counter(one.group for one in records).items() if size is not None else ()
    return [
        Problem(
            "rollouts",
            first[group],
            "group",
            f"'{group}' has {number} rollouts in this request, not {size}",
            unit="row",
        )
        for group, number in numbers
        if number != size
    ]


@contextmanager
def opened_service(
    settings: RewardSettings,
    labels: Labels = ALL_LABELS,
    limits: Limits = Limits(),
    *,
    recorded: Path | None = None,
    most_calls: int = 0,
) -> Iterator[RewardService]:
    """The service with the engines of the profile; what they start ends with the block.

    The last two are as in ``opened_engines``.

    Raises:
        ConfigError: as ``check_settings``, or the environment is wrong.
        EngineError: ``recorded`` is no table of rulings.
    """
    check_settings(settings, labels)
    profile = read_settings().profile
    with opened_engines(recorded, most_calls) as (judge, embedder):
        if recorded is not None:
            judge.judge([])  # reads the table
        yield RewardService(profile, judge, embedder, settings, labels, limits)


class RewardServer(ThreadingHTTPServer):
    """``POST /v1/rewards`` and ``GET /v1/health`` of a service, at a socket that listens.

    A thread reads each connection; ``at_once`` threads score, and what they have no time for waits.
    ``host`` is the listening address as its user wrote it.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(
        self, opened: socket.socket, service: RewardService, at_once: int, host: str = "127.0.0.1"
    ) -> None:
        """Raises ``EngineMissing`` where an engine is not installed: now, not in a request."""
        address = opened.getsockname()[:2]
        super().__init__(address, RewardHandler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.service, self.health = opened, service, service.health()
        self.names = {host, address[0], socket.gethostname()}
        self.most_bytes = service.limits.most_bytes
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        self.url = f"http://{shown}:{address[1]}"
        self._pool = ThreadPoolExecutor(at_once, "rewards")
        self._waiting: set[Event] = set()
        self._clients: dict[socket.socket, float] = {}

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as there
        """Read a connection in a thread, as long as there are not too many."""
        if len(self._clients) >= _MOST_CONNECTIONS:
            request.close()
            return
        self._clients[request] = monotonic() + self.service.limits.receive_s
        super().process_request(request, client_address)

    def received(self, connection: socket.socket) -> None:
        """A request is here: the time that it still takes is this server's own."""
        self._clients[connection] = math.inf

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as there
        """End a connection."""
        super().shutdown_request(request)
        self._clients.pop(request, None)

    def service_actions(self) -> None:
        """Cut clients off that take too long to send their request."""
        for connection, end in list(self._clients.items()):
            if monotonic() > end:
                with contextlib.suppress(OSError):  # it ended by itself
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as there
        """A client that is gone is no fault of this program."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def answer(self, body: bytes) -> tuple[HTTPStatus, Reply]:
        """What the service answers, or that the server stops."""
        done = Event()
        self._waiting.add(done)
        try:
            future = self._pool.submit(self.service.answer, body)
            future.add_done_callback(lambda _: done.set())
            done.wait()
            if future.done() and not future.cancelled():
                return future.result()
        except RuntimeError:  # of a pool that takes no more
            pass
        finally:
            self._waiting.discard(done)
        said = "the server stops and did not finish this request; send it again"
        return HTTPStatus.SERVICE_UNAVAILABLE, {"error": said}

    def stop(self, grace_s: float = STOP_S) -> None:
        """Finish the requests under way, as far as ``grace_s`` allows, and refuse the others."""
        self.server_close()
        self._pool.shutdown(wait=False)
        _until(lambda: not self._waiting, grace_s)
        for done in list(self._waiting):
            done.set()
        _until(lambda: math.inf not in self._clients.values(), _LAST_REPLIES_S)


def _until(holds: Callable[[], bool], seconds: float) -> None:
    end = monotonic() + seconds
    while not holds() and monotonic() < end:
        sleep(_POLL_S)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        ConfigError: host or port cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.getaddrinfo(host, port, family)  # create_server leaves a socket open at a bad name
        return socket.create_server((host, port), family=family, backlog=_MOST_CONNECTIONS)
    except (OSError, OverflowError, TypeError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"--host {host} --port {port} cannot be used: {why}") from error


def serve_at(
    host: str, port: int, opening: AbstractContextManager[RewardService], at_once: int
) -> None:
    """Serve until SIGTERM or SIGINT; ``at_once`` requests are scored at a time.

    Raises:
        ConfigError: host or port cannot be used.
        EngineMissing: the embedder is not installed.
    """
    with listening(host, port) as opened, opening as service:
        server = RewardServer(opened, service, at_once, host)
        print_note(f"judge={service.judge.engine}, question embedder={service.embedder.engine}")
        print_note(f"rewards on {server.url}/v1/rewards")
        with more_time(_WAITS, _STOPPED):
            try:
                server.serve_forever(_POLL_S)
            finally:
                server.stop()
