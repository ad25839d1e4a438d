"""Vectors over HTTP, from a small endpoint on loopback that misbehaves on request, and in process.

There from a tiny BERT that is built here and computed plainly besides.
"""

import base64
import hashlib
import json
import shutil
import time
import traceback
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import SecretStr
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, BertTokenizer

from decomposerl.errors import ConfigError, EngineError, EngineMissing
from fault_server import DRIPPING, Answer, FaultServer, streaming
from fault_server import MODEL as SERVED
from resources.embedder.hosted import BYTES_PER_TOKEN, HostedEmbedder
from resources.embedder.sentence_transformers_engine import SentenceEmbedder
from resources.store.result_store import ResultStores
from resources.store.stored_engine import EmbeddingsStopped
from resources.store.stored_ports import StoredEmbedder
from strategies import law

MODEL, WIDTH, KEY = "text-embedding-tiny", 6, "sk-secret-5501"


def raw_vector(text: str, width: int = WIDTH) -> list[float]:
    """Numbers made of the text, of no particular length."""
    return [float(byte) - 100.0 for byte in hashlib.sha256(text.encode()).digest()[:width]]


def unit_vectors(texts: list[str], width: int = WIDTH) -> NDArray[np.float32]:
    """What an embedder must answer."""
    raw = np.array([raw_vector(text, width) for text in texts]).reshape(-1, width)
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), dtype=np.float32)


class Endpoint(FaultServer):
    """An embedding endpoint; ``spoil`` in an answer's change says what is wrong with a reply.

    Of a batch with a text above ``longest`` it gives nonsense.
    """

    longest = 1_000_000

    def _well(self, asked: dict[str, Any], answer: Answer) -> bytes:
        spoil = answer.change.get("spoil", "")
        if max(map(len, asked["input"])) > self.longest:
            return b"{not json"
        width = asked.get("dimensions", WIDTH) + (1 if spoil == "wide" else 0)
        rows = [raw_vector(one, width) for one in asked["input"][1 if spoil == "short" else 0 :]]
        if spoil in {"zero", "nan"}:
            rows[-1] = [float(spoil.replace("zero", "0"))] * width
        if spoil == "uneven":
            rows[-1] = rows[-1][:-1]
        plain = spoil == "plain" or asked.get("encoding_format") != "base64"
        data = [
            {"index": index, "embedding": row if plain else encoded(row)}
            for index, row in enumerate(rows)
        ]
        if spoil == "twice":
            data[-1]["index"] = 0
        if spoil == "unreadable":
            data[-1]["embedding"] = "not base64!"
        model = "another" if spoil == "another" else asked["model"]
        return json.dumps({"object": "list", "model": model, "data": data[::-1]}).encode()


def spoilt(kind: str, delay_s: float = 0.0) -> Answer:
    """A reply with this fault, or this status; an empty one is well."""
    if kind.isdigit():
        refused = b'{"error": {"message": "refused, given {authorization}"}}'
        return Answer(int(kind), {"Retry-After": "1"}, refused, delay_s)
    return Answer(cut=kind == "cut", delay_s=delay_s, change={"spoil": kind})


def encoded(row: list[float]) -> str:
    return base64.b64encode(np.asarray(row, dtype="<f4").tobytes()).decode()


def serving(*kinds: str, usual: str = "") -> Endpoint:
    """An endpoint whose first replies have these faults."""
    return Endpoint([spoilt(kind) for kind in kinds], spoilt(usual))


def embedder(endpoint: FaultServer, **settings: Any) -> HostedEmbedder:  # noqa: ANN401
    return HostedEmbedder(endpoint.url, MODEL, SecretStr(KEY), **settings)


def test_vectors_are_unit_float32_in_the_order_asked():
    """The endpoint answers backwards, in base64 or in plain numbers; the order asked comes out."""
    texts = [f"text {n}" for n in range(7)]
    with serving("plain", "", "plain") as endpoint:
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


def test_batches_are_in_flight_together_and_no_more_than_allowed():
    """Three requests are at work at the endpoint at a time; the answer is in order."""
    texts = [f"text {n}" for n in range(6)]
    with Endpoint(usual=spoilt("", 0.3)) as endpoint:
        vectors = embedder(endpoint, batch_items=1, in_flight=3, retries=0).embed(texts)
        assert np.array_equal(unit_vectors(texts), vectors)
        assert 3 == endpoint.most_in_flight


def test_dimensions_and_instruction_are_sent():
    """The endpoint is asked for so many numbers, of the text behind the instruction."""
    with serving() as endpoint:
        engine = embedder(endpoint, dimensions=4, instruction="Query:")
        assert np.array_equal(unit_vectors(["Query:a"], 4), engine.embed(["a"]))
        assert (4, ["Query:a"]) == (endpoint.asked[0]["dimensions"], endpoint.asked[0]["input"])
        embedder(endpoint).embed(["a"])
        assert "dimensions" not in endpoint.asked[1]


@pytest.mark.parametrize("fault", ["429", "500", "503", "cut"])
def test_passing_faults_are_retried(fault: str):
    """Busy, broken and cut replies are asked again; 429 not before the time it names."""
    started = time.monotonic()
    with serving(fault) as endpoint:
        assert np.array_equal(unit_vectors(["a", "b"]), embedder(endpoint).embed(["a", "b"]))
        assert 2 == len(endpoint.asked)
    assert fault != "429" or time.monotonic() - started >= 0.95


WRONG = {
    "another": f"'{MODEL}'.*'another'",
    "short": "3 texts with 2 vectors",
    "twice": "3 texts with 3 vectors, 2 ",
    "wide": r"\[7\].*6",
    "uneven": r"\[5, 6\]",
    "zero": "zero",
    "nan": "not finite",
    "unreadable": "cannot be read",
}
NO_JSON = {"html": (b"<html>", "JSONDecodeError"), "nonsense": (b"{not json", "failed")}


def test_a_reply_that_was_not_asked_for_is_refused():
    """Another model, number or size of vectors, and nonsense, are named; a 4xx is not retried."""
    script = [*map(spoilt, WRONG), *(Answer(body=body) for body, _ in NO_JSON.values())]
    with Endpoint(script) as endpoint:
        for said in [*WRONG.values(), *(said for _, said in NO_JSON.values())]:
            with pytest.raises(EngineError, match=said):
                embedder(endpoint, dimensions=WIDTH, retries=0).embed(["a", "b", "c"])
    with serving("400", "401", "404") as endpoint:
        for number, fault in enumerate(("400", "401", "404"), start=1):
            with pytest.raises(EngineError, match=rf"'{MODEL}'.*{fault}"):
                embedder(endpoint).embed(["a"])
            assert number == len(endpoint.asked)
    # Where no size was asked for, the vectors of one reply and of two must still agree.
    with serving("uneven") as endpoint, pytest.raises(EngineError, match=r"\[5, 6\]"):
        embedder(endpoint).embed(["a", "b"])
    with serving("", "wide") as endpoint, pytest.raises(EngineError, match=r"\[6, 7\]"):
        embedder(endpoint, batch_items=1, in_flight=1).embed(["a", "b"])


@pytest.mark.parametrize("fault", ["500", "another", "short"])
def test_a_failed_batch_hands_over_what_came(fault: str):
    """The vectors of the others were paid for: the error holds them, by the texts' places."""
    texts = [f"text {n}" for n in range(11)]
    script = [spoilt("", 0.5), spoilt(fault, 0.3), spoilt("", 0.5)]
    with Endpoint(script) as endpoint, pytest.raises(EmbeddingsStopped) as caught:
        embedder(endpoint, batch_items=4, in_flight=3, retries=0).embed(texts)
    rows, vectors = caught.value.rows.tolist(), caught.value.vectors
    assert 11 - 4 <= len(rows) <= 11 - 3
    assert np.array_equal(unit_vectors([texts[row] for row in rows]), vectors)
    assert np.float32 == vectors.dtype
    with serving(fault) as endpoint, pytest.raises(EmbeddingsStopped) as nothing:
        embedder(endpoint, retries=0).embed(["a"])
    assert (0, 0) == (len(nothing.value.rows), len(nothing.value.vectors))


def test_vectors_that_came_before_a_failure_are_stored(tmp_path: Path):
    """The next run asks only for the batch that failed, also where it was the last one."""
    texts = [f"text {n}" for n in range(12)]
    with serving("", "500") as endpoint:
        engine = embedder(endpoint, batch_items=4, in_flight=1, retries=0)
        with pytest.raises(EmbeddingsStopped):
            StoredEmbedder(engine, ResultStores(tmp_path), batch_size=8).embed(texts)
        endpoint.asked.clear()
        again = StoredEmbedder(engine, ResultStores(tmp_path), batch_size=8)
        assert np.array_equal(unit_vectors(texts), again.embed(texts))
        assert texts[4:] == [text for body in endpoint.asked for text in body["input"]]


@pytest.mark.parametrize("index", [0, 3, 6])
def test_the_text_at_fault_is_named(index: int):
    """Of a refused batch the one text is found: how long it is, and how it begins."""
    texts = [f"text {n}" for n in range(7)]
    texts[index] = "much too long " * 50
    with serving("400") as endpoint:
        endpoint.longest = 100
        with pytest.raises(EngineError, match=r"700 .*'much too long") as e:
            embedder(endpoint).embed(texts)
        assert len(str(e.value)) < 300
        assert len(endpoint.asked) <= 1 + 3


@pytest.mark.parametrize("fault", ["401", "500", "cut", "another"])
def test_the_key_is_sent_and_never_shown(fault: str):
    """An endpoint that repeats the key in its error does not get it into ours."""
    with serving("", fault) as endpoint:
        engine = embedder(endpoint, retries=0)
        engine.embed(["a"])
        with pytest.raises(EngineError) as caught:
            engine.embed(["a"])
        assert {f"Bearer {KEY}"} == set(endpoint.authorizations)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = "".join(traceback.format_exception(error)) + repr(engine) + engine.engine
    assert KEY not in shown
    assert fault != "401" or "Bearer ***" in str(error)


def test_the_engine_names_all_that_decides_a_vector():
    """Model, revision, dimensions and instruction part engines; speed settings do not."""
    parting = {"revision": "a1"}, {"dimensions": 8}, {"instruction": "a:"}, {"instruction": "b:"}
    changes: list[dict[str, Any]] = [{}, *parting]
    names = [HostedEmbedder("u", MODEL, **change).engine for change in changes]
    assert len(changes) == len(set(names))
    assert names[0] == HostedEmbedder("v", MODEL, batch_items=2, in_flight=1).engine
    for wrong in ({"batch_items": 0}, {"in_flight": 0}, {"dimensions": -1}, {"timeout_s": 0}):
        with pytest.raises(ConfigError):
            HostedEmbedder("u", MODEL, **wrong)


# A hostile endpoint: replies without end, and nonsense around and in vectors


def listing(data: object, **more: Any) -> Answer:  # noqa: ANN401 - any JSON
    """A reply with these vectors' entries."""
    reply = {"model": SERVED, "data": data, **more}
    return Answer(body=json.dumps(reply).encode())


def answering(*embeddings: Any, **more: Any) -> Answer:  # noqa: ANN401 - any JSON
    return listing([{"index": n, "embedding": one} for n, one in enumerate(embeddings)], **more)


def test_usage_spoils_no_vector():
    """What an endpoint says of its usage is not read."""
    reported = ["many", {"prompt_tokens": -1}, {"prompt_tokens": 10**30}, [None], float("inf")]
    with FaultServer([answering([3.0, 4.0], usage=one) for one in reported]) as served:
        for _ in reported:
            found = HostedEmbedder(served.url, SERVED).embed(["a"])
            assert np.allclose([[0.6, 0.8]], found)


NONSENSE = {
    "no object": Answer(body=b'["a"]'),
    "data is text": listing("ab"),
    "entries are numbers": listing([1]),
    "index is a list": listing([{"index": [0], "embedding": [1.0]}]),
    "huge number": answering([10**400]),
    "text in it": answering(["a", 1.0]),
    "nested": answering([[1.0, 2.0]]),
    "no vector": answering(None),
    "an object": answering({"a": 1}),
    "overflow": answering([1e308, 1e308]),
    "deep": Answer(body=b'{"data": ' + b"[" * 100_000),
    "a number of digits": Answer(body=b'{"model": ' + b"9" * 9_999 + b"}"),
    "half a pair": Answer(body=b'{"model": "\\ud800"}'),
    "body without end": streaming("200 OK", b" " * 65_536),
    "far retry": Answer(429, {"Retry-After": "Fri, 31 Dec 99999 23:59:59 GMT"}, b"{}"),
    "retry nan": Answer(429, {"Retry-After": "nan"}, b"{}"),
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_one_error_and_keeps_the_other_answering(answer: Answer):
    """Typed, short, of text that a file can hold; what was paid for is handed over."""
    with FaultServer([answering([1.0]), answer], usual=answer) as served:
        one_by_one = {"retries": 1, "batch_items": 1, "in_flight": 1}
        engine = HostedEmbedder(served.url, SERVED, **one_by_one)
        with pytest.raises(EmbeddingsStopped) as caught:
            engine.embed(["a", "b"])
        assert [0] == caught.value.rows.tolist()
        assert len(str(caught.value).encode()) < 600
        assert served.sent < 80_000_000


@pytest.mark.parametrize("answer", DRIPPING.values(), ids=DRIPPING)
def test_a_dripping_reply_ends(answer: Answer):
    """At twice the wait for a piece, as often as it may be tried; it is not asked for again."""
    with FaultServer(usual=answer) as served:
        started = time.monotonic()
        with pytest.raises(EngineError, match="TimeoutError"):
            HostedEmbedder(served.url, SERVED, timeout_s=0.5).embed(["a"])
        assert time.monotonic() - started < 30
        assert 1 == len(served.asked)


# In process


WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a cat sat on the mat query : long short".split()
TEXTS = ["a cat", "the cat sat on the mat", "long", "unknown words on a mat", ""]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with mean pooling, saved as sentence-transformers saves its models."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    plain, saved = (tmp_path_factory.mktemp(name) for name in ("bert", "tiny"))
    (plain / "vocab.txt").write_text("\n".join(WORDS), "utf-8")
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        initializer_range=0.5,
    )
    BertModel(config).eval().save_pretrained(plain)
    BertTokenizer(str(plain / "vocab.txt")).save_pretrained(plain)
    body = Transformer(str(plain), max_seq_length=32)
    SentenceTransformer(modules=[body, Pooling(16, pooling_mode="mean")], device="cpu").save(
        str(saved)
    )
    return saved


def plainly(folder: Path, texts: list[str]) -> NDArray[np.float32]:
    """Each text alone through the bare model; the mean over its tokens, unit length."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    rows = []
    for text in texts:
        with torch.no_grad():
            hidden = model.eval()(**tokenizer(text, return_tensors="pt")).last_hidden_state
        mean = hidden[0].mean(dim=0).numpy()
        rows.append(mean / np.linalg.norm(mean))
    return np.array(rows, dtype=np.float32)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_vectors_equal_a_plain_computation(folder: Path, batch_size: int):
    """In any batches: the mean of the token vectors, unit length, in the order asked."""
    vectors = SentenceEmbedder(str(folder), batch_size=batch_size).embed(TEXTS)
    assert (np.float32, (5, 16)) == (vectors.dtype, vectors.shape)
    assert np.allclose(plainly(folder, TEXTS), vectors, atol=1e-5)
    assert np.ptp(vectors, axis=0).max() > 0.1
    assert 0 == len(SentenceEmbedder(str(folder)).embed([]))


def test_the_prompt_stands_before_every_text(folder: Path):
    """A prompt gives the vector of prompt and text together."""
    vectors = SentenceEmbedder(str(folder), prompt="query : ").embed(TEXTS[:2])
    expected = plainly(folder, [f"query : {text}" for text in TEXTS[:2]])
    assert np.allclose(expected, vectors, atol=1e-5)
    assert not np.allclose(plainly(folder, TEXTS[:2]), vectors, atol=1e-2)


def test_the_engine_names_the_folder_and_its_prompt(folder: Path, tmp_path: Path):
    """Content of the folder, number type and prompt part engines; the batch size does not."""
    name = SentenceEmbedder(str(folder)).engine
    assert name.startswith(f"sentence:{folder.name}-")
    assert name == SentenceEmbedder(str(folder), batch_size=1).engine
    assert name != SentenceEmbedder(str(folder), prompt="query : ").engine
    assert name != SentenceEmbedder(str(folder), dtype="bfloat16").engine
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    assert name == SentenceEmbedder(str(copy)).engine
    (copy / "modules.json").write_text("[]", "utf-8")
    assert name != SentenceEmbedder(str(copy)).engine


def test_a_model_that_is_not_here_is_a_download_command(tmp_path: Path):
    """A hub name that is not in the cache, and a folder without a model, say what to do."""
    with pytest.raises(ConfigError):
        SentenceEmbedder("m", batch_size=0)
    missing = SentenceEmbedder("no-such-org/no-such-model", revision="a1b2")
    with pytest.raises(EngineMissing, match="no-such-org/no-such-model --revision a1b2"):
        missing.embed(["a"])
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(EngineMissing, match=str(tmp_path)):
        SentenceEmbedder(str(tmp_path)).embed(["a"])


def test_a_device_that_torch_cannot_use_is_an_error(folder: Path):
    """The error names the device; nothing falls back to the processor."""
    if torch.cuda.is_available():
        pytest.skip("torch can use a GPU here")
    with pytest.raises(EngineError, match="'cuda'"):
        SentenceEmbedder(str(folder), device="cuda").embed(["a"])
