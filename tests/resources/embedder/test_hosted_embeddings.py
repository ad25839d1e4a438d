"""Vectors over HTTP, from a small endpoint on loopback that misbehaves on request."""

import base64
import hashlib
import json
import threading
import time
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import SecretStr

import fault_server
from decomposerl.errors import ConfigError, EngineError
from fault_server import DRIPPING, FaultServer, streaming
from resources.embedder.hosted import BYTES_PER_TOKEN, EmbeddingsStopped, HostedEmbedder
from resources.embedder.stored import StoredEmbedder
from resources.store.result_store import ResultStores
from strategies import law

MODEL, WIDTH, KEY = "text-embedding-tiny", 6, "sk-secret-5501"


def raw_vector(text: str, width: int = WIDTH) -> list[float]:
    """Numbers made of the text, of no particular length."""
    return [float(byte) - 100.0 for byte in hashlib.sha256(text.encode()).digest()[:width]]


def unit_vectors(texts: list[str], width: int = WIDTH) -> NDArray[np.float32]:
    """What an embedder must answer."""
    raw = np.array([raw_vector(text, width) for text in texts]).reshape(-1, width)
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), dtype=np.float32)


class Endpoint(ThreadingHTTPServer):
    """An embedding endpoint; ``faults`` are used up one a request, then it behaves."""

    daemon_threads = True

    def __init__(self) -> None:
        """On a free port of loopback."""
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.faults: list[str] = []
        self.longest = 1_000_000
        self.asked: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.together: threading.Barrier | None = None
        self.open, self.most_open = 0, 0
        self.lock = threading.Lock()

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no news."""


class Answer(BaseHTTPRequestHandler):
    """One request for vectors."""

    server: Endpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """The next fault, or the vectors."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append(body)
            self.server.times.append(time.monotonic())
            fault = self.server.faults.pop(0) if self.server.faults else ""
            fault = "400" if max(map(len, body["input"])) > self.server.longest else fault
            self.server.open += 1
            self.server.most_open = max(self.server.most_open, self.server.open)
        if self.server.together is not None:
            self.server.together.wait(30)
        with self.server.lock:
            self.server.open -= 1  # before the reply, which may bring the next request
        if fault == "cut":
            self.close_connection = True
        elif fault == "html":
            self._send(200, b"<html>a proxy</html>", "text/html")
        elif fault == "nonsense":
            self._send(200, b"{not json")
        elif fault.isdigit():
            reported = {"error": {"message": f"refused, given {self.headers['Authorization']}"}}
            self._send(int(fault), json.dumps(reported).encode())
        else:
            self._send(200, json.dumps(self._reply(body, fault)).encode())

    def _reply(self, body: dict[str, Any], fault: str) -> dict[str, Any]:
        width = body.get("dimensions", WIDTH) + (1 if fault == "wide" else 0)
        texts = body["input"][1:] if fault == "short" else body["input"]
        rows = [raw_vector(text, width) for text in texts]
        if fault in {"zero", "nan"}:
            rows[-1] = [0.0 if fault == "zero" else float("nan")] * width
        if fault == "uneven":
            rows[-1] = rows[-1][:-1]
        plain = fault == "plain" or body.get("encoding_format") != "base64"
        data = [
            {"index": index, "embedding": row if plain else encoded(row)}
            for index, row in enumerate(rows)
        ]
        if fault == "twice":
            data[-1]["index"] = 0
        if fault == "unreadable":
            data[-1]["embedding"] = "not base64!"
        model = "another" if fault == "another" else body["model"]
        return {"object": "list", "model": model, "data": data[::-1]}

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status == 429:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def encoded(row: list[float]) -> str:
    return base64.b64encode(np.asarray(row, dtype="<f4").tobytes()).decode()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def embedder(endpoint: Endpoint, **settings: Any) -> HostedEmbedder:  # noqa: ANN401 - any setting
    return HostedEmbedder(endpoint.url, MODEL, SecretStr(KEY), **settings)


def test_vectors_are_unit_float32_in_the_order_asked(endpoint: Endpoint):
    """The endpoint answers backwards, in base64 or in plain numbers; the order asked comes out."""
    texts = [f"text {n}" for n in range(7)]
    endpoint.faults = ["plain", "", "plain"]
    vectors = embedder(endpoint, batch_items=3, in_flight=1).embed(texts)
    assert np.float32 == vectors.dtype
    assert np.array_equal(unit_vectors(texts), vectors)
    assert [3, 3, 1] == [len(body["input"]) for body in endpoint.asked]
    assert (0, 0) == embedder(endpoint).embed([]).shape


@law(25)
@given(st.data())
def test_any_texts_in_any_batches(data: st.DataObject):
    """Batches hold all texts in order, within both bounds; only a long text exceeds one, alone."""
    texts = data.draw(st.lists(st.text(max_size=12), min_size=1, max_size=20))
    items, tokens = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 12))
    engine = HostedEmbedder("http://x/v1", MODEL, batch_items=items, batch_tokens=tokens)
    batches = list(engine._batches(texts))
    assert texts == [text for batch in batches for text in batch]
    for batch in batches:
        size = sum(-(-len(text.encode()) // BYTES_PER_TOKEN) for text in batch)
        assert 1 <= len(batch) <= items
        assert size <= tokens or 1 == len(batch)
    greedy = all(
        len(one) == items
        or sum(-(-len(t.encode()) // BYTES_PER_TOKEN) for t in [*one, two[0]]) > tokens
        for one, two in pairwise(batches)
    )
    assert greedy


def test_batches_are_in_flight_together_and_no_more_than_allowed(endpoint: Endpoint):
    """Three requests wait for each other at the endpoint, twice; the answer is in order."""
    endpoint.together = threading.Barrier(3)
    texts = [f"text {n}" for n in range(6)]
    vectors = embedder(endpoint, batch_items=1, in_flight=3, retries=0).embed(texts)
    assert np.array_equal(unit_vectors(texts), vectors)
    assert 3 == endpoint.most_open


def test_dimensions_and_instruction_are_sent(endpoint: Endpoint):
    """The endpoint is asked for so many numbers, of the text behind the instruction."""
    engine = embedder(endpoint, dimensions=4, instruction="Query:")
    assert np.array_equal(unit_vectors(["Query:a"], 4), engine.embed(["a"]))
    assert (4, ["Query:a"]) == (endpoint.asked[0]["dimensions"], endpoint.asked[0]["input"])
    embedder(endpoint).embed(["a"])
    assert "dimensions" not in endpoint.asked[1]


@pytest.mark.parametrize("fault", ["429", "500", "503", "cut"])
def test_passing_faults_are_retried(endpoint: Endpoint, fault: str):
    """Busy, broken and cut replies are asked again; 429 not before the time it names."""
    endpoint.faults = [fault]
    assert np.array_equal(unit_vectors(["a", "b"]), embedder(endpoint).embed(["a", "b"]))
    first, second = endpoint.times
    assert fault != "429" or second - first >= 0.95


WRONG = {
    "another": f"'{MODEL}'.*'another'",
    "short": "3 texts with 2 vectors",
    "twice": "3 texts with 3 vectors, 2 ",
    "wide": r"\[7\].*6",
    "uneven": r"\[5, 6\]",
    "zero": "zero",
    "nan": "not finite",
    "unreadable": "cannot be read",
    "html": "JSONDecodeError",
    "nonsense": "failed",
}


def test_a_reply_that_was_not_asked_for_is_refused(endpoint: Endpoint):
    """Another model, number or size of vectors, and nonsense, are errors that say so.

    Another 4xx is not retried.
    """
    for fault, said in WRONG.items():
        endpoint.faults = [fault]
        with pytest.raises(EngineError, match=said):
            embedder(endpoint, dimensions=WIDTH, retries=0).embed(["a", "b", "c"])
    for fault in ("400", "401", "404"):
        endpoint.faults = [fault]
        endpoint.asked.clear()
        with pytest.raises(EngineError, match=rf"'{MODEL}'.*{fault}"):
            embedder(endpoint).embed(["a"])
        assert 1 == len(endpoint.asked)


def test_batches_of_two_sizes_are_refused(endpoint: Endpoint):
    """Where no size was asked for, two replies must still agree."""
    endpoint.faults = ["", "wide"]
    with pytest.raises(EngineError, match=r"\[6, 7\]"):
        embedder(endpoint, batch_items=1, in_flight=1).embed(["a", "b"])


@pytest.mark.parametrize("fault", ["500", "another", "short"])
def test_a_failed_batch_hands_over_what_came(endpoint: Endpoint, fault: str):
    """The vectors of the others were paid for: the error holds them, by the texts' places."""
    texts = [f"text {n}" for n in range(11)]
    endpoint.faults = ["", fault, ""]
    endpoint.together = threading.Barrier(3)
    with pytest.raises(EmbeddingsStopped) as caught:
        embedder(endpoint, batch_items=4, in_flight=3, retries=0).embed(texts)
    rows, vectors = caught.value.rows.tolist(), caught.value.vectors
    assert 11 - 4 <= len(rows) <= 11 - 3
    assert np.array_equal(unit_vectors([texts[row] for row in rows]), vectors)
    assert np.float32 == vectors.dtype
    endpoint.faults, endpoint.together = ["500"], None
    with pytest.raises(EmbeddingsStopped) as nothing:
        embedder(endpoint, retries=0).embed(["a"])
    assert (0, 0) == (len(nothing.value.rows), len(nothing.value.vectors))


def test_vectors_that_came_before_a_failure_are_stored(endpoint: Endpoint, tmp_path: Path):
    """The next run asks only for the batch that failed, also where it was the last one."""
    texts = [f"text {n}" for n in range(12)]
    endpoint.faults = ["", "500"]
    engine = embedder(endpoint, batch_items=4, in_flight=1, retries=0)
    with pytest.raises(EmbeddingsStopped):
        StoredEmbedder(engine, ResultStores(tmp_path), batch_size=8).embed(texts)
    endpoint.asked.clear()
    again = StoredEmbedder(engine, ResultStores(tmp_path), batch_size=8)
    assert np.array_equal(unit_vectors(texts), again.embed(texts))
    assert texts[4:] == [text for body in endpoint.asked for text in body["input"]]


@pytest.mark.parametrize("index", [0, 3, 6])
def test_the_text_at_fault_is_named(endpoint: Endpoint, index: int):
    """Of a refused batch the one text is found: how long it is, and how it begins."""
    texts = [f"text {n}" for n in range(7)]
    texts[index] = "much too long " * 50
    endpoint.longest = 100
    with pytest.raises(EngineError, match=r"700 .*'much too long") as e:
        embedder(endpoint).embed(texts)
    assert len(str(e.value)) < 300
    assert len(endpoint.asked) <= 1 + 3


@pytest.mark.parametrize("fault", ["401", "500", "cut", "another"])
def test_the_key_is_sent_and_never_shown(endpoint: Endpoint, fault: str):
    """An endpoint that repeats the key in its error does not get it into ours."""
    engine = embedder(endpoint, retries=0)
    engine.embed(["a"])
    endpoint.faults = [fault]
    with pytest.raises(EngineError) as caught:
        engine.embed(["a"])
    error: BaseException | None = caught.value
    assert error is not None
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = "".join(traceback.format_exception(error)) + repr(engine) + engine.engine
    assert KEY not in shown
    assert fault != "401" or "Bearer ***" in str(error)


def test_the_url_may_be_a_function_called_at_the_first_text(endpoint: Endpoint):
    """A server that must be started first is asked for its address once, and not too early."""
    calls = []
    engine = HostedEmbedder(lambda: calls.append("started") or endpoint.url, MODEL)
    assert "hosted:" + MODEL == engine.engine
    assert [] == calls
    assert np.array_equal(engine.embed(["a"]), engine.embed(["a"]))
    assert ["started"] == calls


def test_the_engine_names_all_that_decides_a_vector():
    """Model, revision, dimensions and instruction part engines; speed settings do not."""
    parting = {"revision": "a1"}, {"dimensions": 8}, {"instruction": "a:"}, {"instruction": "b:"}
    changes: list[dict[str, Any]] = [{}, *parting]
    names = [HostedEmbedder("u", MODEL, **change).engine for change in changes]
    assert len(changes) == len(set(names))
    assert names[0] == HostedEmbedder("v", MODEL, batch_items=2, in_flight=1).engine


def test_settings_that_cannot_work_are_refused():
    """A setting out of range is an error before anything is sent."""
    for wrong in ({"batch_items": 0}, {"in_flight": 0}, {"dimensions": -1}, {"timeout_s": 0}):
        with pytest.raises(ConfigError):
            HostedEmbedder("u", MODEL, **wrong)


# A hostile endpoint: replies without end, and nonsense around and in vectors


def listing(data: object, **more: Any) -> fault_server.Answer:  # noqa: ANN401 - any JSON
    """A reply with these vectors' entries."""
    reply = {"model": fault_server.MODEL, "data": data, **more}
    return fault_server.Answer(body=json.dumps(reply).encode())


def answering(*embeddings: Any, **more: Any) -> fault_server.Answer:  # noqa: ANN401 - any JSON
    return listing([{"index": n, "embedding": one} for n, one in enumerate(embeddings)], **more)


def test_usage_spoils_no_vector():
    """What an endpoint says of its usage is not read."""
    reported = ["many", {"prompt_tokens": -1}, {"prompt_tokens": 10**30}, [None], float("inf")]
    with FaultServer([answering([3.0, 4.0], usage=one) for one in reported]) as served:
        for _ in reported:
            found = HostedEmbedder(served.url, fault_server.MODEL).embed(["a"])
            assert np.allclose([[0.6, 0.8]], found)


NONSENSE = {
    "no object": fault_server.Answer(body=b'["a"]'),
    "data is text": listing("ab"),
    "entries are numbers": listing([1]),
    "index is a list": listing([{"index": [0], "embedding": [1.0]}]),
    "huge number": answering([10**400]),
    "text in it": answering(["a", 1.0]),
    "nested": answering([[1.0, 2.0]]),
    "no vector": answering(None),
    "an object": answering({"a": 1}),
    "overflow": answering([1e308, 1e308]),
    "deep": fault_server.Answer(body=b'{"data": ' + b"[" * 100_000),
    "a number of digits": fault_server.Answer(body=b'{"model": ' + b"9" * 9_999 + b"}"),
    "half a pair": fault_server.Answer(body=b'{"model": "\\ud800"}'),
    "body without end": streaming("200 OK", b" " * 65_536),
    "far retry": fault_server.Answer(429, {"Retry-After": "Fri, 31 Dec 99999 23:59:59 GMT"}, b"{}"),
    "retry nan": fault_server.Answer(429, {"Retry-After": "nan"}, b"{}"),
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_one_error_and_keeps_the_other_answering(answer: Answer):
    """Typed, short, of text that a file can hold; what was paid for is handed over."""
    with FaultServer([answering([1.0]), answer], usual=answer) as served:
        one_by_one = {"retries": 1, "batch_items": 1, "in_flight": 1}
        engine = HostedEmbedder(served.url, fault_server.MODEL, **one_by_one)
        with pytest.raises(EmbeddingsStopped) as caught:
            engine.embed(["a", "b"])
        assert [0] == caught.value.rows.tolist()
        assert len(str(caught.value).encode()) < 600
        assert served.sent < 80_000_000


@pytest.mark.parametrize("answer", DRIPPING.values(), ids=DRIPPING)
def test_a_dripping_reply_ends(answer: Answer):
    """Twice the wait for a piece is all that a whole reply gets; it is not asked for again."""
    with FaultServer(usual=answer) as served:
        started = time.monotonic()
        with pytest.raises(EngineError, match="timed"):
            HostedEmbedder(served.url, fault_server.MODEL, timeout_s=0.5).embed(["a"])
        assert time.monotonic() - started < 30
        assert 1 == len(served.asked)
