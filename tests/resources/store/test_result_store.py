"""Stored vectors: the same bits back, and never two models or dimensions in one shelf."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from resources.store.result_store import ResultStore, key_of

NUMBERS = st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True)
VECTORS = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=NUMBERS)
)


def keys_of(count: int, start: int = 0) -> list[str]:
    return [key_of(str(n)) for n in range(start, start + count)]


def column(vectors: NDArray[np.float32]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])


def stored(shelf: ResultStore, keys: list[str], width: int) -> NDArray[np.float32]:
    out = np.zeros((len(keys), width), dtype=np.float32)
    for rows, values in shelf.read({key: row for row, key in enumerate(keys)}):
        out[rows] = values.flatten().to_numpy().reshape(-1, width)
    return out


@settings(deadline=None, max_examples=60)
@given(vectors=VECTORS, again=st.booleans())
def test_vectors_come_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory,
    vectors: NDArray[np.float32],
    again: bool,  # noqa: FBT001 - hypothesis calls by name
):
    """Every float32, also -0, subnormals, infinities and not-a-numbers; through a merge too."""
    shelf, keys = ResultStore(tmp_path_factory.mktemp("shelf"), "model:1"), keys_of(len(vectors))
    if again:
        shelf.write(keys, column(vectors))
        for n in range(9):  # enough small shards that they are merged
            extra = np.full((1, vectors.shape[1]), n, dtype=np.float32)
            shelf.write(keys_of(1, 100 + n), column(extra))
        shelf.compact()
    else:
        for key, vector in zip(keys, vectors, strict=True):
            shelf.write([key], column(vector[None]))
    back = stored(ResultStore(shelf._folder, "model:1"), keys, vectors.shape[1])
    assert vectors.tobytes() == back.tobytes()


def test_a_shard_names_its_model_and_dimension(tmp_path: Path):
    """The file alone says whose vectors these are and how long they are."""
    ResultStore(tmp_path, "model:1").write(keys_of(2), column(np.ones((2, 3), dtype=np.float32)))
    ResultStore(tmp_path, "model:1").compact()
    (path,) = tmp_path.glob("*.parquet")
    metadata = pq.read_schema(path).metadata
    assert (b"model:1", b"3") == (metadata[b"engine"], metadata[b"dimension"])


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 6), st.integers(0, 6))
def test_a_shelf_of_one_dimension_refuses_another(
    tmp_path_factory: pytest.TempPathFactory, first: int, second: int
):
    """Writing another dimension names the stored file and both, and stores nothing (0: text)."""
    folder = tmp_path_factory.mktemp("shelf")
    ResultStore(folder, "model:1").write(keys_of(1), column(np.ones((1, first), dtype=np.float32)))
    (path,) = folder.glob("*.parquet")
    values = column(np.ones((1, second), dtype=np.float32)) if second else pa.array(["text"])
    shelf = ResultStore(folder, "model:1")
    if first == second:
        shelf.write(keys_of(1, 1), values)
        assert 2 == len(list(folder.glob("*.parquet")))
        return
    with pytest.raises(
        EngineError, match=f"model:1.*{first} numbers in .*{path.name} and of {second}"
    ):
        shelf.write(keys_of(1, 1), values)
    assert [path] == list(folder.iterdir())


def test_two_dimensions_on_one_shelf_are_found_when_read(tmp_path: Path):
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
