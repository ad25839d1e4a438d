"""``decomposerl serve-rewards``: the ensemble over HTTP, for trainers of other environments.

A request holds whole groups of rollouts, with the fields that ``decomposerl score`` reads; the
reply has each reward's value, state, weight and what counts. ``docs/how-to/serve-rewards.md`` is
the contract. The server is the standard library's, as it has to hold three lines that a web
framework leaves open: who may ask, how long a client may take, and a stop.
"""

import ipaddress
import json
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from threading import Lock, Semaphore
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from dagster_project.environment import read_settings
from dagster_project.row_forms import in_score_form
from dagster_project.score import Scoring, opened_engines
from dagster_project.terminal import print_note
from decomposerl.errors import ConfigError, DecomposeRLError
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.rewards.scoring import active_rewards, reward_rollouts
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
from resources.chat.engine import ChatEngine
from resources.process.interrupt import more_time
from resources.training.process import RunLimits

MOST_CYCLES = RunLimits().most_cycles
"""As in training: a longer trace is not judged."""
STOP_S = 7.0
"""Seconds that a stop gives the requests under way; it takes 10 at most."""
_POLL_S = 0.05
_MOST_CONNECTIONS = 512
_PART = 65_536  # bytes of a body that are read at a time
_MOST_DIGITS = 15  # of its length
_SHOWN = 100  # problems in one reply
_FIELDS = ("rollouts", "group_size")
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104 - compared, not listened on
_WAITS = f"the requests under way have {STOP_S:g} s"
_STOPPED = f"no further request is taken; those under way have {STOP_S:g} s, then status 503"
_UNFINISHED = "the server stops and did not finish this request; send it again"
Reply = dict[str, object]


class RequestError(Exception):
    """A request that is refused: the status, and the reply that says why."""

    def __init__(self, status: HTTPStatus, error: str, **more: object) -> None:
        self.answer: tuple[HTTPStatus, Reply] = status, {"error": error, **more}


def _bad(error: str, problems: Sequence[Problem] = ()) -> RequestError:
    """What is wrong in a body, first in words and then all of it as data."""
    listed = [{"row": p.line, "field": p.field, "reason": p.reason} for p in problems[:_SHOWN]]
    more = f" (and {len(problems) - 1:,} further problems)" if len(problems) > 1 else ""
    return RequestError(HTTPStatus.BAD_REQUEST, f"{error}{more}", problems=listed)


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
    scoring: Scoring
    limits: Limits = Limits()
    _embedding: Lock = field(default_factory=Lock)

    def health(self) -> Reply:
        """What scores here: profile, engines, rewards with weight and range, readings."""
        readings = asdict(self.scoring.rewards)
        del readings["weights"]
        return {
            "status": "ok",
            "profile": self.profile,
            "judge": self.judge.engine,
            "embedder": self.embedder.engine,
            "rewards": [
                {"name": one.name, "weight": one.weight, "low": one.low, "high": one.high}
                for one in active_rewards(self.scoring.rewards)
            ],
            "readings": readings,
            "labelled_share": self.scoring.labelled_share,
            "most_cycles": self.limits.most_cycles,
            "verdicts": [WRITTEN[label] for label in self.scoring.labels],
        }

    def answer(self, body: bytes) -> tuple[HTTPStatus, Reply]:
        """Status and reply of a request; only a fault of this program raises."""
        try:
            return HTTPStatus.OK, self._scored(body)
        except RequestError as error:
            return error.answer
        except ConfigError as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)}
        except DecomposeRLError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}

    def _scored(self, body: bytes) -> Reply:
        records, notes = _records(body, self.scoring.labels)
        rollouts = self.scoring.rollouts(records)
        most, most_cycles = self.limits.most_questions, self.limits.most_cycles
        cycles = [len(rollout.trace.cycles) for rollout in rollouts]
        if (asked := sum(number for number in cycles if number <= most_cycles)) > most:
            raise RequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the rollouts ask {asked:,} questions; at most {most:,} are judged in a request: "
                "send fewer groups",
            )
        judge = self.judge.renewed() if isinstance(self.judge, ChatEngine) else self.judge
        embedder = _InTurn(self.embedder, self._embedding)
        scored = reward_rollouts(rollouts, judge, embedder, self.scoring.rewards, most_cycles)
        return {
            "rollouts": scored.objects(),
            "judge": judge.engine,
            "embedder": embedder.engine,
            "distinct_calls": scored.judge_calls["call_key"].n_unique(),
            "notes": notes,
        }


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


def _records(body: bytes, labels: tuple[Verdict, ...]) -> tuple[list[TraceRecord], list[str]]:
    """What a request has to be scored, and notes on what of it is not read.

    Raises:
        RequestError: something is wrong; nothing of it is scored.
    """
    values = json_object(body.decode("utf-8", "surrogateescape"))
    if isinstance(values, str):
        raise _bad(f"body: {values}")
    rows, size = values.get("rollouts"), values.get("group_size")
    if not isinstance(rows, list) or not rows:
        raise _bad("'rollouts' must be a list of at least one object")
    if size is not None and (type(size) is not int or size < 1):
        raise _bad("'group_size' must be a whole number from 1 on")
    unknown = [name for name in values if name not in _FIELDS]
    for name in unknown:
        if meant := meant_field(name, values, _FIELDS):
            raise _bad(f"'{safe_name(name)}' is no field; '{meant}' is absent: rename it")
    records, problems = read_trace_rows([*map(in_score_form, rows)], "rollouts", labels)
    if wrong := [one for one in problems if one.dropped] or _incomplete(records, size):
        raise _bad(str(wrong[0]), wrong)
    notes = [*(f"'{safe_name(name)}' is not read" for name in unknown), *map(str, problems)]
    # A completion without an end must not refuse its group, nor cost the seconds of its reading.
    long = {record.line for record in records if len(record.text) > MOST_BYTES["trace"]}
    notes += [f"rollouts, row {line}: the trace is too long, and read as empty" for line in long]
    return [replace(one, text="") if one.line in long else one for one in records], notes


def _incomplete(records: Sequence[TraceRecord], size: int | None) -> list[Problem]:
    """Groups that have not ``size`` rollouts: the majority vote of a part may differ."""
    first = {record.group: record.line for record in reversed(records)}
    said = "'{}' has {} rollouts in this request, not {}"
    return [
        Problem("rollouts", first[name], "group", said.format(name, number, size), unit="row")
        for name, number in Counter(record.group for record in records).items()
        if size is not None and number != size
    ]


class RewardServer(ThreadingHTTPServer):
    """``POST /v1/rewards`` and ``GET /v1/health`` of a service.

    A thread reads each connection; ``at_once`` of them score at a time. Port 0 takes a free one.

    Raises:
        ConfigError: host or port cannot be used.
    """

    daemon_threads = True
    request_queue_size = _MOST_CONNECTIONS
    service: RewardService
    health: Reply
    server_bind = TCPServer.server_bind  # that of HTTP asks for the name of the host

    def __init__(self, host: str, port: int, at_once: int) -> None:
        """Listen, so that a port that is taken shows before an engine is started."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), RewardRequest)
        except (OSError, OverflowError, TypeError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigError(f"--host {host} --port {port} cannot be used: {why}") from error
        address, port = self.socket.getsockname()[:2]
        self.url = f"http://[{address}]:{port}" if ":" in host else f"http://{address}:{port}"
        self.places = Semaphore(at_once)
        self.requests: set[RewardRequest] = set()
        self._names = _LOOPBACK | {n.casefold() for n in (host, address, socket.gethostname())}

    def serve(self, service: RewardService) -> None:
        """Answer until ``shutdown``, or an interrupt of this thread.

        Raises:
            EngineMissing: an engine is not installed: now, not in a request.
        """
        self.service, self.health = service, service.health()
        self.serve_forever(_POLL_S)

    def owns(self, host: str) -> bool:
        """Whether a Host header names this server: loopback, or the address that it listens on.

        Where that is every address any number counts: a page can have a name sent, and no number.
        """
        try:
            name = (urlsplit(f"//{host}").hostname or "").casefold()
            everywhere = bool(self._names & _EVERYWHERE)
            return name in self._names or (everywhere and bool(ipaddress.ip_address(name)))
        except ValueError:
            return False

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as there
        """Read a connection in a thread, as long as there are not too many."""
        if len(self.requests) >= _MOST_CONNECTIONS:
            request.close()
        else:
            super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Cut clients off that take too long: a time-out of each read alone would never end."""
        for request in list(self.requests):
            if not request.received and monotonic() > request.end:
                with suppress(OSError):  # it ended by itself
                    request.connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as there
        """A client that is gone is no fault of this program."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def stop(self, grace_s: float = STOP_S) -> None:
        """Finish the requests under way, as far as ``grace_s`` allows, and refuse the others."""
        self.server_close()
        end = monotonic() + grace_s
        while (waiting := [r for r in list(self.requests) if r.received]) and monotonic() < end:
            sleep(_POLL_S)
        for request in waiting:
            request.reply(HTTPStatus.SERVICE_UNAVAILABLE, {"error": _UNFINISHED})


class RewardRequest(BaseHTTPRequestHandler):
    """The one request of a connection.

    Judge calls cost money and the server asks for no key, so it answers no page of the web, also
    where that page makes a browser send its own name here (DNS rebinding).
    """

    server: RewardServer
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds of one read or write
    received = False  # as a whole

    def setup(self) -> None:
        """Give the client its time."""
        super().setup()
        self.end = monotonic() + self.server.service.limits.receive_s
        self._unanswered = Lock()
        self.server.requests.add(self)

    def finish(self) -> None:
        """End the connection."""
        self.server.requests.discard(self)
        super().finish()

    def do_GET(self) -> None:
        """Health."""
        try:
            self._check_client("/v1/health")
            self.reply(HTTPStatus.OK, self.server.health)
        except RequestError as error:
            self.reply(*error.answer)

    def do_POST(self) -> None:
        """Rewards. A body that is refused is read, too, so that the reply arrives."""
        given = self.headers.get("Content-Length", "")
        length = int(given[:_MOST_DIGITS]) if given.isdecimal() else -1
        try:
            self._check_client("/v1/rewards")
            self._check_body(length)
        except RequestError as error:
            while length > 0 and (part := self.rfile.read(min(length, _PART))):
                length -= len(part)
            self.reply(*error.answer)
            return
        body = self.rfile.read(length)
        if len(body) < length:
            return  # the client is gone, or was cut off
        self.received = True
        with self.server.places:
            answer = self.server.service.answer(body)
        self.reply(*answer)

    def _check_client(self, path: str) -> None:
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if not self.server.owns(host):
            raise RequestError(HTTPStatus.FORBIDDEN, f"this server is not '{safe_name(host)}'")
        site = self.headers.get("Sec-Fetch-Site", "none")
        if origin not in {None, f"http://{host}"} or site not in {"none", "same-origin"}:
            raise RequestError(HTTPStatus.FORBIDDEN, "a page of another site may ask nothing here")
        if self.path != path:
            raise RequestError(HTTPStatus.NOT_FOUND, "there is no such address")

    def _check_body(self, length: int) -> None:
        kind, most = self.headers.get_content_type(), self.server.service.limits.most_bytes
        if kind != "application/json":  # which no page of another site may send unasked
            said = f"the content type is {safe_name(kind)}; it must be application/json"
            raise RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, said)
        if length < 0:
            raise RequestError(HTTPStatus.LENGTH_REQUIRED, "a request needs its Content-Length")
        if length > most:
            said = f"the body has more than {most:,} bytes"
            raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said)

    def reply(self, status: HTTPStatus, reply: Reply) -> None:
        """Answer, unless it was answered: the server's stop does not wait for the service."""
        if not self._unanswered.acquire(blocking=False):
            return
        content = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: a trainer sends thousands of requests."""


def serve(
    server: RewardServer,
    scoring: Scoring,
    limits: Limits,
    *,
    most_calls: int,
    recorded: Path | None,
) -> None:
    """Serve until SIGTERM or SIGINT, by the engines of the profile (``opened_engines``).

    Raises:
        ConfigError: the environment is wrong.
        EngineError: ``recorded`` is no table of rulings.
        EngineMissing: the embedder is not installed.
    """
    with server, opened_engines(recorded, most_calls) as engines:
        service = RewardService(read_settings().profile, *engines, scoring, limits)
        print_note(f"judge={service.judge.engine}, question embedder={service.embedder.engine}")
        print_note(f"rewards on {server.url}/v1/rewards")
        with more_time(_WAITS, _STOPPED):
            try:
                server.serve(service)
            finally:
                server.stop()
