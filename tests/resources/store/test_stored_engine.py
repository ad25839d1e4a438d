"""Stored engine results: nothing asked twice, nothing trusted that is not whole."""

import pickle
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from mapped_work import SENTENCES, SILENCE, PaidWords, WordsOf, answer_words, noted
from resources.decomposer.stored import StoredDecomposer
from resources.embedder.stored import StoredEmbedder
from resources.entities.stored import StoredEntities
from resources.mapper.processes import ProcessMapper
from resources.store import result_store
from resources.store.result_store import ResultStores, UnreadableShardWarning, key_of
from resources.store.stored_engine import AskEngine, Mapped
from resources.verifier.stored import StoredVerifier
from strategies import law


class Engines:
    """All four ports over pure functions of the text; can fail at its n-th call."""

    def __init__(self, name: str = "fake:1", fail_at: int = 0, offset: float = 0.0) -> None:
        """``fail_at`` counts calls from 1; 0 never fails."""
        self.engine, self.asked, self._fail_at, self._calls = name, [], fail_at, 0
        self._offset, self.silent = offset, set()
        self.fault: BaseException = KeyboardInterrupt()

    def _note(self, items: Sequence[object]) -> None:
        self._calls += 1
        if self._calls == self._fail_at:
            raise self.fault
        self.asked.extend(items)

    def support_probability(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """A number made of both texts."""
        self._note(pairs)
        return np.array([int(key_of(*p)[:8], 16) / 16**8 + self._offset for p in pairs])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Three numbers made of the text, unit length."""
        self._note(texts)
        raw = np.array([[int(key_of(t)[i], 16) + 1 for i in range(3)] for t in texts], np.float32)
        raw = raw.reshape(-1, 3)
        return raw / np.linalg.norm(raw, axis=1, keepdims=True)

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """The words."""
        self._note(texts)
        return [text.split() for text in texts]

    def decompose(self, pairs: Sequence[tuple[str, str]]) -> list[list[str] | None]:
        """The claim's words as questions; null for silent claims."""
        self._note(pairs)
        return [None if c in self.silent else [f"{w}?" for w in c.split()] for _, c in pairs]


TEXTS = st.lists(st.text(max_size=8), max_size=12)
PAIRS = st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=12)
NUMBERED = [("evidence", f"claim {n}") for n in range(10)]


@law(40)
@given(texts=TEXTS, pairs=PAIRS, batch=st.integers(1, 5))
def test_stored_answers_equal_direct_answers(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    pairs: list[tuple[str, str]],
    batch: int,
):
    """For any inputs, doubled or not, the stored engine answers as the engine does, twice."""
    store, direct = ResultStores(tmp_path_factory.mktemp("store")), Engines()
    for _ in range(2):
        scores = StoredVerifier(Engines(), store, batch).support_probability(pairs)
        vectors = StoredEmbedder(Engines(), store, batch).embed(texts)
        assert np.array_equal(direct.support_probability(pairs), scores)
        assert np.array_equal(direct.embed(texts), vectors)
        assert direct.entities(texts) == StoredEntities(Engines(), store, batch).entities(texts)
        assert direct.decompose(pairs) == StoredDecomposer(Engines(), store, batch).decompose(pairs)


@law(40)
@given(pairs=PAIRS, batch=st.integers(1, 5))
def test_a_second_pass_calls_nothing(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], batch: int
):
    """Each distinct input is asked once ever; all else counts as hits.

    Moving a letter from the evidence to the claim gives another key of 32 hex digits.
    """
    assert key_of("ab", "c") != key_of("a", "bc")
    assert 32 == len(key_of("a"))
    store = ResultStores(tmp_path_factory.mktemp("store"))
    first, second = (StoredVerifier(Engines(), store, batch) for _ in range(2))
    first.support_probability(pairs)
    second.support_probability(pairs)
    assert len(set(pairs)) == first.calls
    assert len(pairs) - len(set(pairs)) == first.hits
    assert (0, len(pairs)) == (second.calls, second.hits)


def test_a_killed_pass_resumes_with_the_rest(tmp_path: Path):
    """What two batches answered before the kill is kept; results equal an unbroken pass."""
    store = ResultStores(tmp_path)
    broken = StoredVerifier(Engines(fail_at=3), store, batch_size=3)
    with pytest.raises(KeyboardInterrupt):
        broken.support_probability(NUMBERED)
    resumed = StoredVerifier(engine := Engines(), store, batch_size=3)
    scores = resumed.support_probability(NUMBERED)
    assert NUMBERED[6:] == engine.asked
    assert (4, 6) == (resumed.calls, resumed.hits)
    assert np.array_equal(Engines().support_probability(NUMBERED), scores)


def test_engines_never_share_results(tmp_path: Path):
    """Two engine names that look alike as folder names keep their answers apart."""
    store = ResultStores(tmp_path)
    StoredVerifier(Engines("fake:1"), store).support_probability(NUMBERED)
    other = StoredVerifier(Engines("fake/1", offset=1.0), store)
    assert np.all(other.support_probability(NUMBERED) >= 1.0)
    assert len(NUMBERED) == other.calls


def test_a_shard_of_another_engine_stops_the_run(tmp_path: Path):
    """A shard copied into another engine's folder is named, with both engines and the cure."""
    store = ResultStores(tmp_path)
    StoredVerifier(Engines("one", offset=1.0), store).support_probability(NUMBERED)
    StoredVerifier(Engines("two"), store).support_probability(NUMBERED[:1])
    mine, other = (next(tmp_path.glob(f"verifier/{n}-*/*.parquet")) for n in ("two", "one"))
    copy = mine.parent / "0000000000000000.parquet"
    copy.write_bytes(other.read_bytes())
    again = StoredVerifier(Engines("two"), store)
    cure = rf"0000000000000000.*'one'.*'two'.*{other.parent.name}"
    with pytest.raises(EngineError, match=cure):
        again.support_probability(NUMBERED)
    assert 0 == again.calls
    copy.unlink()
    assert np.array_equal(
        Engines().support_probability(NUMBERED), again.support_probability(NUMBERED)
    )


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "text"])
def test_a_damaged_shard_is_moved_aside_and_asked_again(tmp_path: Path, damage: str):
    """Truncation, emptiness, a flipped byte or foreign text never reach an answer."""
    store = ResultStores(tmp_path)
    vectors = StoredEmbedder(Engines(), store).embed(["a", "b", "c"])
    shard = next(tmp_path.glob("embedder/*/*.parquet"))
    data = bytearray(shard.read_bytes())
    if damage == "flipped":
        import pyarrow.parquet as pq

        values = pq.ParquetFile(shard).metadata.row_group(0).column(1)
        data[values.data_page_offset + values.total_compressed_size // 2] ^= 0xFF
    cut = {"truncated": data[: len(data) // 2], "empty": b"", "text": b"nonsense"}
    shard.write_bytes(bytes(cut.get(damage, data)))
    again = StoredEmbedder(Engines(), store)
    with pytest.warns(UnreadableShardWarning, match=shard.name):
        answered = again.embed(["a", "b", "c"])
    assert np.array_equal(vectors, answered)
    assert 3 == again.calls
    assert [f"{shard.stem}.unreadable"] == [p.name for p in shard.parent.glob("*.unreadable")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(vectors, StoredEmbedder(Engines(), store).embed(["a", "b", "c"]))


def test_a_null_answer_is_asked_again(tmp_path: Path):
    """A claim without an answer is not stored; an empty list is an answer and is."""
    store, engine = ResultStores(tmp_path), Engines()
    engine.silent = {"quiet"}
    pairs = [("e", "two words"), ("e", "quiet"), ("e", "")]
    first = StoredDecomposer(engine, store).decompose(pairs)
    assert [["two?", "words?"], None, []] == first
    later = StoredDecomposer(Engines(), store)
    assert [["two?", "words?"], ["quiet?"], []] == later.decompose(pairs)
    assert 1 == later.calls


def test_many_small_shards_become_one(tmp_path: Path):
    """A pass of many batches ends with one shard that holds them all."""
    store = ResultStores(tmp_path)
    pairs = [("e", str(n)) for n in range(3 * result_store.MANY_SHARDS)]
    StoredVerifier(Engines(), store, batch_size=1).support_probability(pairs)
    assert 1 == len(list(tmp_path.glob("verifier/*/*.parquet")))
    assert not list(tmp_path.glob("verifier/*/*.tmp"))
    again = StoredVerifier(Engines(), store)
    again.support_probability(pairs)
    assert 0 == again.calls


def test_large_shards_are_left_alone(tmp_path: Path):
    """Merging stops at the size where rewriting costs more than it saves."""
    store = ResultStores(tmp_path)
    pairs = [("e", str(n)) for n in range(10 * 2_000)]
    StoredVerifier(Engines(), store, batch_size=2_000).support_probability(pairs)
    assert 2 == len(list(tmp_path.glob("verifier/*/*.parquet")))


def words_of(mapped: Mapped) -> list[list[str]]:
    rows = {int(r): v for one in mapped.parts for r, v in zip(one.rows, one.values, strict=True)}
    return [rows[row].as_py() for row in sorted(rows)]


def test_a_paid_batch_that_is_run_again_asks_for_the_rest_alone(tmp_path: Path):
    """A worker that is lost after it stored an answer is replaced by one that finds it."""
    store = ResultStores(tmp_path / "results").of("words", "words:1")
    asked = AskEngine("words", WordsOf(tmp_path), answer_words, store)
    keys = [key_of(text) for text in SENTENCES]
    first = asked((keys[:6], SENTENCES[:6]))
    elsewhere = pickle.loads(pickle.dumps(asked))  # noqa: S301 - as a worker does
    again = elsewhere((keys[:6], SENTENCES[:6]))
    more = asked((keys[:8], SENTENCES[:8]))
    assert (first.asked, again.asked, more.asked) == (6, 0, 2)
    assert words_of(first) == words_of(again) == words_of(more)[:6]
    assert 2 == len(noted(tmp_path, "asked"))


def test_what_workers_paid_for_is_in_the_bucket(machines: tuple[Path, Path], tmp_path: Path):
    """Workers know the folder alone, so the process that maps sends it, also after a failure."""
    one, two = (ResultStores(folder / "engine_results") for folder in machines)
    mapper = ProcessMapper(1)
    unread = [*SENTENCES[:4], SILENCE]
    with pytest.raises(ValueError, match="no words"):
        PaidWords(WordsOf(tmp_path), one, 2, mapper).ask(unread)
    for asked in (4, 6):
        there = PaidWords(WordsOf(tmp_path), two, 2)
        assert [text.split() for text in SENTENCES[:asked]] == there.ask(SENTENCES[:asked])
        assert 0 == there.calls
        PaidWords(WordsOf(tmp_path), one, 2, mapper).ask(SENTENCES[:6])
    mapper.close()


def test_an_exception_of_an_engine_names_port_batch_and_key(tmp_path: Path):
    """So that a person finds the claim among millions."""
    engine = Engines(fail_at=1)
    engine.fault = ValueError("no such token")
    with pytest.raises(ValueError, match="no such token") as caught:
        StoredVerifier(engine, ResultStores(tmp_path)).support_probability(NUMBERED)
    named = f"verifier: 10 items from key {key_of(*NUMBERED[0])}"
    assert [named, "in batch 0"] == caught.value.__notes__
