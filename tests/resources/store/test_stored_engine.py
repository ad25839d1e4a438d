"""Stored engine results: nothing asked twice, nothing trusted that is not whole.

The same bits come back, from a small index, and never two models from one store.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from resources.store import result_store
from resources.store.result_store import (
    MANY_SHARDS,
    ResultStore,
    ResultStores,
    UnreadableShardWarning,
    key_of,
)
from resources.store.stored_ports import (
    StoredDecomposer,
    StoredEmbedder,
    StoredEntities,
    StoredVerifier,
)
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
    """Each distinct input is asked once ever, all else are hits; a key knows its parts."""
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
    direct = Engines().support_probability(NUMBERED)
    assert np.array_equal(direct, again.support_probability(NUMBERED))


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "text"])
def test_a_damaged_shard_is_moved_aside_and_asked_again(tmp_path: Path, damage: str):
    """Truncation, emptiness, a flipped byte or foreign text never reach an answer."""
    store = ResultStores(tmp_path)
    vectors = StoredEmbedder(Engines(), store).embed(["a", "b", "c"])
    shard = next(tmp_path.glob("embedder/*/*.parquet"))
    data = bytearray(shard.read_bytes())
    if damage == "flipped":
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
    # Merging stops at the size where rewriting costs more than it saves.
    many, large = ResultStores(tmp_path / "large"), [("e", str(n)) for n in range(10 * 2_000)]
    StoredVerifier(Engines(), many, batch_size=2_000).support_probability(large)
    assert 2 == len(list(tmp_path.glob("large/verifier/*/*.parquet")))


def test_an_exception_of_an_engine_names_port_batch_and_key(tmp_path: Path):
    """So that a person finds the claim among millions."""
    engine = Engines(fail_at=1)
    engine.fault = ValueError("no such token")
    with pytest.raises(ValueError, match="no such token") as caught:
        StoredVerifier(engine, ResultStores(tmp_path)).support_probability(NUMBERED)
    named = f"verifier: 10 items from key {key_of(*NUMBERED[0])}"
    assert [named, "in batch 0"] == caught.value.__notes__


# The store


KEY = "2d10748499b7086409b9203c5dd83ebf"
"""Of ("evidence", "claim"), since the first version."""
NUMBERS = st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True)
VECTORS = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=NUMBERS)
)


def keys_of(count: int, start: int = 0) -> list[str]:
    return [key_of(str(n)) for n in range(start, start + count)]


def column(vectors: NDArray[np.float32]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])


def stored(store: ResultStore, keys: list[str], width: int) -> NDArray[np.float32]:
    out = np.zeros((len(keys), width), dtype=np.float32)
    for rows, values in store.read({key: row for row, key in enumerate(keys)}):
        out[rows] = values.flatten().to_numpy().reshape(-1, width)
    return out


@law(60)
@given(vectors=VECTORS, again=st.booleans())
def test_vectors_come_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory,
    vectors: NDArray[np.float32],
    again: bool,  # noqa: FBT001 - hypothesis calls by name
):
    """Every float32, also -0, subnormals, infinities and not-a-numbers; through a merge too."""
    store, keys = ResultStore(tmp_path_factory.mktemp("store"), "model:1"), keys_of(len(vectors))
    if again:
        store.write(keys, column(vectors))
        for n in range(9):  # enough small shards that they are merged
            extra = np.full((1, vectors.shape[1]), n, dtype=np.float32)
            store.write(keys_of(1, 100 + n), column(extra))
        store.compact()
    else:
        for key, vector in zip(keys, vectors, strict=True):
            store.write([key], column(vector[None]))
    back = stored(ResultStore(store._folder, "model:1"), keys, vectors.shape[1])
    assert vectors.tobytes() == back.tobytes()


def test_a_shard_names_its_model_and_dimension(tmp_path: Path):
    """The file alone says whose vectors these are and how long they are."""
    ResultStore(tmp_path, "model:1").write(keys_of(2), column(np.ones((2, 3), dtype=np.float32)))
    ResultStore(tmp_path, "model:1").compact()
    (path,) = tmp_path.glob("*.parquet")
    metadata = pq.read_schema(path).metadata
    assert (b"model:1", b"3") == (metadata[b"engine"], metadata[b"dimension"])


@law(20)
@given(st.integers(1, 6), st.integers(0, 6))
def test_a_store_of_one_dimension_refuses_another(
    tmp_path_factory: pytest.TempPathFactory, first: int, second: int
):
    """Writing another dimension names the stored file and both, and stores nothing (0: text)."""
    folder = tmp_path_factory.mktemp("store")
    ResultStore(folder, "model:1").write(keys_of(1), column(np.ones((1, first), dtype=np.float32)))
    (path,) = folder.glob("*.parquet")
    values = column(np.ones((1, second), dtype=np.float32)) if second else pa.array(["text"])
    store = ResultStore(folder, "model:1")
    if first == second:
        store.write(keys_of(1, 1), values)
        assert 2 == len(list(folder.glob("*.parquet")))
        return
    with pytest.raises(EngineError, match=f"model:1.*{first} .*{path.name} .*{second}"):
        store.write(keys_of(1, 1), values)
    assert [path] == list(folder.iterdir())


def test_two_dimensions_in_one_store_are_found_when_read(tmp_path: Path):
    """Shards brought together by hand stop the reader; both files are named and both stay."""
    for width in (2, 3):
        ones = np.ones((1, width), dtype=np.float32)
        ResultStore(tmp_path / str(width), "model:1").write(keys_of(1, width), column(ones))
    (mine,), (other,) = (list((tmp_path / name).glob("*.parquet")) for name in "23")
    other.rename(mine.parent / other.name)
    with pytest.raises(EngineError) as caught:
        list(ResultStore(mine.parent, "model:1").read({keys_of(1, 2)[0]: 0}))
    names = ("model:1", mine.name, other.name, "delete")
    assert [] == [name for name in names if name not in str(caught.value)]
    assert 2 == len(list(mine.parent.glob("*.parquet")))


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what is read")
def test_a_shard_is_mapped_and_not_read(tmp_path: Path):
    """Once its digest was compared, vectors come through the page cache, by almost no reading."""
    vectors = np.random.default_rng(0).standard_normal((2_000, 64)).astype(np.float32)
    for name in ("warm", "measured"):
        ResultStore(tmp_path / name, "model:1").write(keys_of(2_000), column(vectors))
        # Imports read files too; the digest of a shard is compared once a process.
        stored(ResultStore(tmp_path / name, "model:1"), keys_of(2_000), 64)
    before = bytes_read()
    back = stored(ResultStore(tmp_path / "measured", "model:1"), keys_of(2_000), 64)
    read = bytes_read() - before
    assert vectors.tobytes() == back.tobytes()
    (path,) = (tmp_path / "measured").glob("*.parquet")
    assert read < path.stat().st_size / 10


def bytes_read() -> int:
    """Bytes this process has asked for by reading, so far."""
    return int(Path("/proc/self/io").read_text("utf-8").split()[1])


def numbers(store: ResultStore, keys: list[str]) -> dict[str, float]:
    """The stored numbers, by key."""
    read = store.read({key: row for row, key in enumerate(keys)})
    pairs = (zip(rows, values.to_pylist(), strict=True) for rows, values in read)
    return {keys[row]: value for part in pairs for row, value in part}


def test_shards_of_earlier_versions_are_read(tmp_path: Path):
    """A file with the layout of the first version: string keys, the engine in the metadata."""
    assert KEY == key_of("evidence", "claim")
    keys = sorted(keys_of(100))
    columns = {"key": pa.array(keys, pa.string()), "value": pa.array(range(100), pa.float64())}
    named = pa.table(columns).replace_schema_metadata({b"engine": b"model:1"})
    old = tmp_path / "old/0123456789abcdef.parquet"
    old.parent.mkdir()
    pq.write_table(named, old, compression="zstd", write_page_checksum=True)
    store = ResultStore(tmp_path / "old", "model:1")
    assert {key: float(row) for row, key in enumerate(keys)} == numbers(store, keys)
    store.write(keys_of(1, 200), pa.array([200.0]))
    assert pq.read_schema(next((tmp_path / "old").glob("*.parquet"))).equals(named.schema)
    assert 101 == len(numbers(ResultStore(tmp_path / "old", "model:1"), keys + keys_of(1, 200)))


def test_a_reader_finds_what_another_process_merges_meanwhile(tmp_path: Path):
    """A shard that is gone when its turn comes is looked for again: nothing is asked twice."""
    writer, reader = (ResultStore(tmp_path, "model:1") for _ in range(2))
    keys = keys_of(3 * MANY_SHARDS)
    for row, key in enumerate(keys):
        writer.write([key], pa.array([float(row)]))
    seen: dict[str, float] = {}
    for rows, values in reader.read({key: row for row, key in enumerate(keys)}):
        seen |= {keys[row]: value for row, value in zip(rows, values.to_pylist(), strict=True)}
        writer.compact()  # after the reader's first shard
    assert 1 == len(list(tmp_path.glob("*.parquet")))
    assert {key: float(row) for row, key in enumerate(keys)} == seen


@law(40)
@given(written=st.lists(st.integers(0, 40), max_size=30), asked=st.sets(st.integers(0, 60)))
def test_exactly_the_stored_keys_are_found(
    tmp_path_factory: pytest.TempPathFactory, written: list[int], asked: set[int]
):
    """For any shards and any question, with keys of any first digits."""
    store = ResultStore(tmp_path_factory.mktemp("store"), "model:1")
    for start in range(0, len(written), 4):
        some = written[start : start + 4]
        store.write([key_of(str(n)) for n in some], pa.array([float(n) for n in some]))
    expected = {key_of(str(n)): float(n) for n in asked & set(written)}
    assert expected == numbers(store, [key_of(str(n)) for n in sorted(asked)])
