"""The server of the live trace page, for this machine alone.

It answers on the loopback address and refuses requests that name another host, which a page of the
web can make a browser send (DNS rebinding). A mark is accepted only from the page itself.
"""

import gzip
import json
import socket
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from decomposerl.errors import ConfigError, DecomposeRLError, EvaluationError
from decomposerl.evaluation.marks import Mark, mark_from
from decomposerl.reports.trace_page.details import json_bytes
from resources.traces.marks import MarksFile

if TYPE_CHECKING:
    from dagster_project.view import LiveTraces
    from resources.traces.collection import CollectedTraces

LOOPBACK = "127.0.0.1"
_HOSTS = {LOOPBACK, "localhost", "::1"}
MOST_BODY = 64 * 1024
"""Bytes of one mark."""
_JSON = "application/json"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page has the rest, by hash
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_Answer = Callable[[Request], Awaitable[Response]]
_Asked = TypeVar("_Asked")


class ViewServer:
    """The routes of the page over its traces and the marks on them."""

    def __init__(self, page: str, traces: "LiveTraces", marks: MarksFile) -> None:
        self._page, self._traces, self._marks = page, traces, marks

    @property
    def app(self) -> Starlette:
        """The application."""
        gets: dict[str, Callable[[Request], Response]] = {
            "/": lambda _: Response(self._page, media_type="text/html"),
            "/data/index": self._index,
            "/data/block/{number:int}": self._block,
            "/data/judge/{number:int}/{place:int}": self._judge,
            "/marks.jsonl": self._export,
        }
        routes = [Route(path, _guarded(answer), methods=["GET"]) for path, answer in gets.items()]
        marks = _guarded(self._all_marks, self._add_mark)
        return Starlette(routes=[*routes, Route("/marks", marks, methods=["GET", "POST"])])

    def _index(self, request: Request) -> Response:
        return _json(self._traces.current().index, request)

    def _block(self, request: Request) -> Response:
        collected = self._traces.last()
        if (stale := _stale(request, collected)) is not None:
            return stale
        try:
            packed = collected.blocks.packed(request.path_params["number"])
        except IndexError:
            return _refusal(404, "there is no such block")
        return _packed(packed, request)

    def _judge(self, request: Request) -> Response:
        number, place = (request.path_params[name] for name in ("number", "place"))
        if (stale := _stale(request, self._traces.last())) is not None:
            return stale
        rulings = self._traces.judge(number, place)
        if rulings is None:
            return _refusal(404, "there is no such trace")
        return _json(rulings, request)

    def _all_marks(self, request: Request) -> Response:
        return _json([mark.as_json() for mark in self._marks.marks()], request)

    def _export(self, _: Request) -> Response:
        named = {"Content-Disposition": 'attachment; filename="marks.jsonl"'}
        return Response(self._marks.content(), media_type="application/x-ndjson", headers=named)

    def _add_mark(self, body: bytes) -> Response:
        try:
            mark = self._checked(json.loads(body))
        except (ValueError, RecursionError, EvaluationError) as error:
            return _refusal(400, str(error))
        try:
            self._marks.append(mark)
        except OSError as error:  # a full disk, for example
            return _refusal(507, f"{self._marks.path} cannot be written: {error.strerror or error}")
        return JSONResponse(mark.as_json())

    def _checked(self, values: object) -> Mark:
        """The mark of a JSON value, on a trace that is shown.

        Raises:
            EvaluationError: it is no mark, or there is no such trace.
        """
        if not isinstance(values, dict):
            raise EvaluationError("a mark is a JSON object")
        mark = mark_from(values, datetime.now(UTC).isoformat(timespec="milliseconds"))
        index = self._traces.last().index
        places = {system["key"]: place for place, system in enumerate(index["systems"])}
        columns = (index[name] for name in ("claim_id", "system", "step", "rollout"))
        if (mark.claim_id, places.get(mark.system), mark.step, mark.rollout) not in zip(
            *columns, strict=True
        ):
            raise EvaluationError("there is no such trace: claim, system, step and rollout")
        return mark


def _guarded(
    get: Callable[[Request], Response], post: Callable[[bytes], Response] | None = None
) -> _Answer:
    """The answer to a request for this machine; a ``post`` only from the page itself."""

    async def answer(request: Request) -> Response:
        host = request.headers.get("host", "")
        if _hostname(host) not in _HOSTS:
            response = _refusal(403, "this server answers for the loopback address alone")
        elif request.method != "POST":
            response = await run_in_threadpool(_answered, get, request)
        elif post is None or (why := _foreign(request, host)):
            response = _refusal(403, why if post else "nothing can be sent here")
        elif (body := await _body(request)) is None:
            response = _refusal(413, f"a mark has at most {MOST_BODY:,} bytes")
        else:
            response = await run_in_threadpool(_answered, post, body)
        response.headers.update(_HEADERS)
        return response

    return answer


def _answered(answer: Callable[[_Asked], Response], asked: _Asked) -> Response:
    """The answer, or why there is none: files are gone, or one cannot be read."""
    try:
        return answer(asked)
    except (DecomposeRLError, OSError) as error:
        return _refusal(503, str(error))


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _stale(request: Request, collected: "CollectedTraces") -> Response | None:
    """The refusal of a page whose index is older than what was collected last."""
    if request.query_params.get("v", collected.index["stamp"]) == collected.index["stamp"]:
        return None
    return _refusal(409, "the files have changed; reload the page")


def _foreign(request: Request, host: str) -> str:
    """Why a request that changes something is not the page's; empty where it is."""
    if request.headers.get("origin") != f"http://{host}":
        return "marks are accepted from the page itself alone"
    if request.headers.get("content-type", "").partition(";")[0].strip() != _JSON:
        return f"a mark is sent as {_JSON}"
    return ""


async def _body(request: Request) -> bytes | None:
    """The body, or None if it is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            return None
    return body


def _json(value: object, request: Request) -> Response:
    return _packed(gzip.compress(json_bytes(value), compresslevel=1, mtime=0), request)


def _packed(data: bytes, request: Request) -> Response:
    """JSON that is compressed already, unpacked for a client that cannot."""
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(data, media_type=_JSON, headers={"Content-Encoding": "gzip"})
    return Response(gzip.decompress(data), media_type=_JSON)


def _refusal(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status_code=status)


def bound_socket(port: int) -> socket.socket:
    """A socket on the loopback address; port 0 takes a free one.

    Raises:
        ConfigError: the port is taken.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        raise ConfigError(f"port {port} of {LOOPBACK} cannot be used: {error.strerror}") from error
    return listening


def serve(app: Starlette, listening: socket.socket) -> None:
    """Answer until the process is interrupted."""
    import uvicorn

    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[listening])
