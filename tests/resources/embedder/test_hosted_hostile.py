"""A hostile embedding endpoint: replies without end, and nonsense around and in vectors."""

import json
import time
from typing import Any

import numpy as np
import pytest

from decomposerl.errors import EngineError
from fault_server import DRIPPING, MODEL, Answer, FaultServer, streaming
from resources.embedder.hosted import EmbeddingsStopped, HostedEmbedder


def vectors(*embeddings: Any, **more: Any) -> Answer:  # noqa: ANN401 - any JSON
    data = [{"index": n, "embedding": one} for n, one in enumerate(embeddings)]
    return Answer(body=json.dumps({"model": MODEL, "data": data, **more}).encode())


@pytest.mark.parametrize(
    "usage", ["many", {"prompt_tokens": -1}, {"prompt_tokens": 10**30}, [None], float("inf")]
)
def test_usage_spoils_no_vector(usage: object):
    """What an endpoint says of its usage is not read."""
    with FaultServer(usual=vectors([3.0, 4.0], usage=usage)) as served:
        found = HostedEmbedder(served.url, MODEL).embed(["a"])
    assert np.allclose([[0.6, 0.8]], found)


NONSENSE = {
    "no object": Answer(body=b'["a"]'),
    "data is text": Answer(body=json.dumps({"model": MODEL, "data": "ab"}).encode()),
    "entries are numbers": Answer(body=json.dumps({"model": MODEL, "data": [1]}).encode()),
    "index is a list": Answer(
        body=json.dumps({"model": MODEL, "data": [{"index": [0], "embedding": [1.0]}]}).encode()
    ),
    "huge number": vectors([10**400]),
    "text in it": vectors(["a", 1.0]),
    "nested": vectors([[1.0, 2.0]]),
    "no vector": vectors(None),
    "an object": vectors({"a": 1}),
    "overflow": vectors([1e308, 1e308]),
    "deep": Answer(body=b'{"data": ' + b"[" * 100_000),
    "a number of digits": Answer(body=b'{"model": ' + b"9" * 9_999 + b"}"),
    "half a pair": Answer(body=b'{"model": "\\ud800"}'),
    "body without end": streaming("200 OK", b" " * 65_536),
    "far retry": Answer(429, {"Retry-After": "Fri, 31 Dec 99999 23:59:59 GMT"}, b"{}"),
    "retry nan": Answer(429, {"Retry-After": "nan"}, b"{}"),
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_one_error_and_keeps_the_other_vectors(answer: Answer):
    """Typed, short, of text that a file can hold; what was paid for is handed over."""
    with FaultServer([vectors([1.0]), answer], usual=answer) as served:
        engine = HostedEmbedder(served.url, MODEL, retries=1, batch_items=1, in_flight=1)
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
        with pytest.raises(EngineError, match="timed out"):
            HostedEmbedder(served.url, MODEL, timeout_s=0.5).embed(["a"])
        assert time.monotonic() - started < 30
        assert 1 == len(served.asked)
