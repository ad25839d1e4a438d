"""``decomposerl serve-rewards``: the ensemble over HTTP, for trainers of other environments.

A request holds whole groups of rollouts, with the fields that ``decomposerl score`` reads; the
reply has each reward's value, state, weight and what counts. ``docs/how-to/serve-rewards.md`` is
the contract. uvicorn speaks HTTP; who may ask, how long a client may take and what a stop says are
held here.
"""

import asyncio
import ipaddress
import json
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from http import HTTPStatus
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from dagster_project.row_forms import in_score_form
from decomposerl.errors import ConfigError, DecomposeRLError
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.rewards.scoring import active_rewards, reward_rollouts
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import LABELS, WRITTEN, Verdict
from decomposerl.traces.records import (
    MOST_BYTES,
    Problem,
    json_object,
    meant_field,
    read_trace_rows,
    safe_name,
)
from decomposerl.traces.rollout import Rollout
from resources.chat.engine import ChatEngine
from resources.training.process import RunLimits

MOST_CYCLES = RunLimits().most_cycles  # a longer trace is neither judged nor embedded
LARGEST_BODY = 16_000_000  # bytes
STOP_S = 7  # that a stop gives the requests under way; it takes 10 at most
_AT_ONCE = 8  # requests that are scored; the judge's own concurrency bounds its calls
_MOST_CONNECTIONS = 512
_SHOWN = 100  # problems in one reply
_UNFINISHED = "the server stops and did not finish this request; send it again"
Reply = dict[str, object]
Answer = tuple[HTTPStatus, Reply]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class RequestError(Exception):
    """A request that is refused: the first problem in words, and all of them as data."""

    def __init__(self, error: str, problems: Sequence[Problem] = ()) -> None:
        listed = [{"row": p.line, "field": p.field, "reason": p.reason} for p in problems[:_SHOWN]]
        more = f" (and {len(problems) - 1:,} further problems)" if len(problems) > 1 else ""
        self.reply = Reply(error=f"{error}{more}", problems=listed)


@dataclass(frozen=True, slots=True)
class RewardService:
    """Scores requests; threads may share one. ``labels`` are the verdicts that a trace may have.

    ``most_questions`` of a request are judged and embedded at most, over all rollouts.
    """

    judge: Judge
    embedder: Embedder
    settings: RewardSettings
    labels: tuple[Verdict, ...] = LABELS
    most_questions: int = 2_000

    def health(self) -> Reply:
        """What scores here: engines, rewards with weight and range, readings."""
        readings = asdict(self.settings)
        del readings["weights"]
        return {
            "status": "ok",
            "judge": self.judge.engine,
            "embedder": self.embedder.engine,
            "rewards": [
                {"name": one.name, "weight": one.weight, "low": one.low, "high": one.high}
                for one in active_rewards(self.settings)
            ],
            "readings": readings,
            "verdicts": [WRITTEN[label] for label in self.labels],
        }

    def answer(self, body: bytes) -> Answer:
        """Status and reply of a request; only a fault of this program raises."""
        try:
            return self._scored(body)
        except RequestError as error:
            return HTTPStatus.BAD_REQUEST, error.reply
        except ConfigError as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)}
        except DecomposeRLError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}

    def _scored(self, body: bytes) -> Answer:
        rollouts, notes = _rollouts(body, self.labels)
        cycles = [len(rollout.trace.cycles) for rollout in rollouts]
        if (sent := sum(n for n in cycles if n <= MOST_CYCLES)) > self.most_questions:
            most = f"at most {self.most_questions:,} are judged in a request: send fewer groups"
            error = f"the rollouts ask {sent:,} questions; {most}"
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": error}
        # An outage ends with its request: the next one asks the endpoint again.
        judge = self.judge.renewed() if isinstance(self.judge, ChatEngine) else self.judge
        scored = reward_rollouts(rollouts, judge, self.embedder, self.settings, MOST_CYCLES)
        return HTTPStatus.OK, {
            "rollouts": scored.objects(),
            "judge": judge.engine,
            "embedder": self.embedder.engine,
            "distinct_calls": scored.judge_calls["call_key"].n_unique(),
            "notes": notes,
        }


def _rollouts(body: bytes, labels: tuple[Verdict, ...]) -> tuple[list[Rollout], list[str]]:
    """What a request has to be scored, and notes on what of it is not read.

    Raises:
        RequestError: something is wrong; nothing of it is scored.
    """
    values = json_object(body.decode("utf-8", "surrogateescape"))
    if isinstance(values, str):
        raise RequestError(f"body: {values}")
    for name in values.keys() - {"rollouts", "group_size"}:
        meant = meant_field(name, values, ("rollouts", "group_size"))
        instead = f"; '{meant}' is absent: rename it" if meant else ""
        raise RequestError(f"'{safe_name(name)}' is no field of a request{instead}")
    rows, size = values.get("rollouts"), values.get("group_size")
    if not isinstance(rows, list) or not rows:
        raise RequestError("'rollouts' must be a list of at least one object")
    if size is not None and (type(size) is not int or size < 1):
        raise RequestError("'group_size' must be a whole number from 1 on")
    rows, notes = list(map(in_score_form, rows)), []
    # A completion without an end must not refuse its group, nor cost the seconds of its reading.
    for row, value in enumerate(rows):
        text = value.get("trace") if isinstance(value, dict) else None
        if isinstance(text, str) and len(text) > MOST_BYTES["trace"]:
            rows[row] = value | {"trace": ""}
            notes.append(f"rollouts, row {row}: the trace is too long, and read as empty")
    rollouts, problems = read_trace_rows(rows, "rollouts", labels)
    wrong = [problem for problem in problems if problem.dropped]
    sizes = Counter(rollout.group for rollout in rollouts.values())
    # The majority vote of a part of a group may differ from that of the whole.
    for row, one in rollouts.items() if size is not None and not wrong else ():
        if (number := sizes[one.group]) != size:
            said = f"'{one.group}' has {number} rollouts in this request, not {size}"
            wrong.append(Problem("rollouts", row, "group", said, unit="row"))
    if wrong:
        raise RequestError(str(wrong[0]), wrong)
    return list(rollouts.values()), [*map(str, problems), *notes]


class RewardServer:
    """A service on a port that is taken at once, before an engine is started; 0 is a free one.

    Judge calls cost money and the server asks for no key, so it answers no page of the web, also
    where that page makes a browser send its own name here (DNS rebinding).

    Raises:
        ConfigError: host or port cannot be used.
    """

    def __init__(self, host: str, port: int, receive_s: float = 60.0) -> None:
        """A client has ``receive_s`` to send its request, and then to read the reply."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            place = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4]
            bound = socket.create_server(place[:2], family=family, backlog=_MOST_CONNECTIONS)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigError(f"--host {host} --port {port} cannot be used: {why}") from error
        address, port = bound.getsockname()[:2]
        self.url = f"http://[{address}]:{port}" if ":" in host else f"http://{address}:{port}"
        self.socket, self._receive_s = bound, receive_s
        self._names = {"localhost", host.casefold(), socket.gethostname().casefold()}

    @contextmanager
    def serving(self, service: RewardService) -> Iterator[None]:
        """Answer in a thread; the block's end leaves requests under way ``STOP_S`` to finish.

        Raises:
            EngineMissing: an engine is not installed: now, not in a request.
        """
        import uvicorn

        self._service, self._health = service, service.health()
        config = uvicorn.Config(
            self._application,
            interface="asgi3",
            http=_timed_protocol(self._receive_s),
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_level="error",
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=STOP_S,
        )
        server, self._pool = uvicorn.Server(config), ThreadPoolExecutor(_AT_ONCE)
        # Apart from the main thread, in which uvicorn would take the signals of the command.
        thread = Thread(target=server.run, args=([self.socket],), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _application(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request, as ASGI has it. A body that is refused is read, too, so that it arrives."""
        answer, body, more = self._answer_to(scope), bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"] if answer is None else b""
            more = message["more_body"]
            if len(body) > LARGEST_BODY:
                error = f"the body has more than {LARGEST_BODY:,} bytes"
                body, answer = bytearray(), (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": error})
        if answer is None:
            scored = partial(self._service.answer, bytes(body))
            try:
                answer = await asyncio.get_running_loop().run_in_executor(self._pool, scored)
            except asyncio.CancelledError:  # a stop does not wait for the service
                answer = HTTPStatus.SERVICE_UNAVAILABLE, {"error": _UNFINISHED}
        status, content = answer[0], json.dumps(answer[1]).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _answer_to(self, scope: Message) -> Answer | None:
        """What address and headers alone decide: health, or why a request may not be answered."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        names = (b"host", b"origin", b"sec-fetch-site", b"content-type")
        host, origin, site, kind = (headers.get(name, "") for name in names)
        kind = kind.partition(";")[0].strip().lower()
        if not self._owns(host):
            return HTTPStatus.FORBIDDEN, {"error": f"this server is not '{safe_name(host)}'"}
        if origin not in {"", f"http://{host}"} or site not in {"", "none", "same-origin"}:
            return HTTPStatus.FORBIDDEN, {"error": "a page of another site may ask nothing here"}
        if (scope["method"], scope["path"]) == ("GET", "/v1/health"):
            return HTTPStatus.OK, self._health
        if (scope["method"], scope["path"]) != ("POST", "/v1/rewards"):
            return HTTPStatus.NOT_FOUND, {"error": "there is no such address"}
        if kind == "application/json":  # which no page of another site may send unasked
            return None
        error = f"the content type is '{safe_name(kind)}'; it must be application/json"
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, {"error": error}

    def _owns(self, host: str) -> bool:
        """Whether a Host header may mean this server: a number, or one of its names.

        A page can have its own name sent here, but no number.
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in self._names or bool(ipaddress.ip_address(name))
        except ValueError:
            return False


def _timed_protocol(seconds: float) -> type[asyncio.Protocol]:
    """The HTTP of uvicorn, which itself sets no limit, with ``seconds`` for a request and a reply.

    A time-out of each read alone would never end a client that sends byte by byte.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class TimedProtocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.loop.call_later(seconds, self._cut_off)

        def _cut_off(self) -> None:
            if self.cycle is None or self.cycle.more_body:
                self.transport.abort()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.loop.call_later(seconds, self.transport.abort)

    return TimedProtocol
