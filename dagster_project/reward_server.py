"""The HTTP server behind ``decomposerl serve-rewards``, for trainers of other environments."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from http import HTTPStatus
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

from dagster_project.reward_service import Reply, RewardService
from dagster_project.terminal import print_note
from decomposerl.errors import ConfigError
from decomposerl.extras import require
from resources.process.interrupt import more_time

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from uvicorn import Server

_MOST_CONNECTIONS = 512
_STOPS = (signal.SIGINT, signal.SIGTERM)
_STOPPED = "no further request is taken; those under way are finished first"
_WAITS = "the requests under way are being finished"


def reward_app(service: RewardService, pool: Executor, most_bytes: int) -> "Starlette":
    """``POST /v1/rewards`` and ``GET /v1/health``.

    The threads of ``pool`` score the requests; what they have no time for waits. A body of more
    than ``most_bytes`` is refused.

    Raises:
        EngineMissing: starlette, or the embedder, is not installed.
    """
    require("starlette", "uvicorn")
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    health = service.health()  # a missing engine is an error now, not in the first request

    async def rewards(request: "Request") -> "Response":
        if "origin" in request.headers:  # else any page in a browser here could spend judge calls
            return JSONResponse({"error": "a page of a browser asks"}, HTTPStatus.FORBIDDEN)
        try:
            body = await _body(request, most_bytes)
        except ClientDisconnect:
            return JSONResponse({}, HTTPStatus.BAD_REQUEST)  # which nobody reads
        if body is None:
            said: Reply = {"error": f"the body has more than {most_bytes:,} bytes"}
            return JSONResponse(said, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        status, said = await asyncio.get_running_loop().run_in_executor(pool, service.answer, body)
        return JSONResponse(said, status)

    return Starlette(
        routes=[
            Route("/v1/rewards", rewards, methods=["POST"]),
            Route("/v1/health", lambda _: JSONResponse(health), methods=["GET"]),
        ]
    )


async def _body(request: "Request", most: int) -> bytes | None:
    """The body, None where it is too long; it is read to its end, so that the reply arrives."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= most:
            parts.append(part)
    return b"".join(parts) if size <= most else None


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        ConfigError: host or port cannot be used.
    """
    opened = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(_MOST_CONNECTIONS)
    except (OSError, OverflowError, TypeError, ValueError) as error:
        opened.close()
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"--host {host} --port {port} cannot be used: {why}") from error
    return opened


def address_of(opened: socket.socket) -> str:
    """The URL of a socket that listens."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def web_server(app: "Starlette") -> "Server":
    """The server, which logs nothing but its own faults. A signal stops it gently."""
    import uvicorn

    class Gentle(uvicorn.Server):
        """Does not send itself a signal once more, which would be taken for a second one."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Stop at a signal, while it runs in the main thread."""
            if current_thread() is not main_thread():
                yield
                return
            before = {one: signal.signal(one, self.handle_exit) for one in _STOPS}
            try:
                yield
            finally:
                for one, handler in before.items():
                    signal.signal(one, handler)

    config = uvicorn.Config(
        app,
        loop="asyncio",  # uvloop would take the signals from ``resources.process.interrupt``
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        limit_concurrency=_MOST_CONNECTIONS,
    )
    return Gentle(config)


def serve_at(
    host: str,
    port: int,
    opening: AbstractContextManager[RewardService],
    at_once: int,
    most_bytes: int,
) -> None:
    """Serve until SIGTERM or SIGINT; requests under way are finished first.

    ``at_once`` requests are scored at a time; ``most_bytes`` is as in ``reward_app``.

    Raises:
        ConfigError: host or port cannot be used.
        EngineMissing: as ``reward_app``.
    """
    pool = ThreadPoolExecutor(at_once, "rewards")
    with listening(host, port) as opened, pool, opening as service:
        app = reward_app(service, pool, most_bytes)
        print_note(f"judge={service.judge.engine}, question embedder={service.embedder.engine}")
        print_note(f"rewards on {address_of(opened)}/v1/rewards")
        with more_time(_WAITS, _STOPPED):
            web_server(app).run(sockets=[opened])
