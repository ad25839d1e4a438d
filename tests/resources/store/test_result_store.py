"""Stored results: the same bits back, a small index, and never two models in one store."""

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
from resources.store.result_store import MANY_SHARDS, ResultStore, key_of
from strategies import law

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
    for said in ("model:1", mine.name, other.name, "delete"):
        assert said in str(caught.value)
    assert 2 == len(list(mine.parent.glob("*.parquet")))


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what is read")
def test_a_shard_is_mapped_and_not_read(tmp_path: Path):
    """Vectors come through the page cache: the process asks for almost no bytes by reading."""
    vectors = np.random.default_rng(0).standard_normal((2_000, 64)).astype(np.float32)
    for name in ("warm", "measured"):
        ResultStore(tmp_path / name, "model:1").write(keys_of(2_000), column(vectors))
    stored(ResultStore(tmp_path / "warm", "model:1"), keys_of(2_000), 64)  # imports read files too
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
    wanted = {key: row for row, key in enumerate(keys)}
    return {
        keys[row]: value
        for rows, values in store.read(wanted)
        for row, value in zip(rows, values.to_pylist(), strict=True)
    }


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


def test_keys_with_the_same_first_half_are_kept_apart(tmp_path: Path):
    """The index holds half of a key; the whole key decides."""
    half = key_of("x")[:16]
    store = ResultStore(tmp_path, "model:1")
    store.write([half + "0" * 16, half + "1" * 16], pa.array([0.0, 1.0]))
    assert {half + "1" * 16: 1.0} == numbers(store, [half + "1" * 16, half + "2" * 16])


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


def test_the_index_takes_eight_bytes_a_key(tmp_path: Path):
    """At 100 million keys that is 0.8 GB."""
    store = ResultStore(tmp_path, "model:1")
    keys = keys_of(10_000)
    for start in range(0, len(keys), 1_000):
        store.write(keys[start : start + 1_000], pa.array([0.0] * 1_000))
    again = ResultStore(tmp_path, "model:1")
    assert {} == numbers(again, [key_of("absent")])
    assert 8 * len(keys) == sum(index.nbytes for index in again._index.values())
