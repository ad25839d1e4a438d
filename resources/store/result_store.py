"""Content-keyed results of one engine in append-only Parquet shards.

A shard has a ``key`` (32 hex digits of SHA-256 over the inputs) and a typed ``value``; its
metadata name the engine and, for vectors, the dimension, and its name has the SHA-256 of its bytes.
Shards are written whole or not at all and are memory-mapped when read. A damaged shard is moved
aside with a warning that names it; a shard of another engine or dimension is an error.
Several processes may write at once. Nothing expires: an engine whose answers change must change its
name.
"""

import contextlib
import hashlib
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from resources.store.integrity import has_digest
from resources.store.temporary import replace_file

if TYPE_CHECKING:
    import pyarrow as pa

Prefixes = NDArray[np.uint64]
_ENGINE, _DIMENSION = b"engine", b"dimension"
_DIGITS = 16  # of each half of a shard's name
_PREFIX_DIGITS = 16  # hex digits of a key that the index holds: 8 bytes
SMALL_ROWS = 16_384
"""Shards below this are merged, up to about this size, once there are many of them."""
MANY_SHARDS = 8


class UnreadableShardWarning(UserWarning):
    """A stored shard was damaged; it was moved aside and its items are asked again."""


def key_of(*parts: str) -> str:
    """32 hex digits of SHA-256 over the parts, each preceded by its length in bytes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:32]


def slug(engine: str) -> str:
    """A folder name for an engine; the hash separates engines that only look alike."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", engine)[:80]
    return f"{plain}-{hashlib.sha256(engine.encode()).hexdigest()[:8]}"


class ResultStores:
    """All stored results below ``root``: ``<root>/<port>/<engine slug>/<shard>.parquet``."""

    def __init__(self, root: Path) -> None:
        """``root`` is created with the first result."""
        self._root = root

    def of(self, port: str, engine: str) -> "ResultStore":
        """The results of one engine behind one port."""
        return ResultStore(self._root / port / slug(engine), engine)


class ResultStore:
    """The results of one engine in one folder.

    The index in memory takes 8 bytes a key: the sorted first halves of each shard's keys.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        """``engine`` is written into every shard and checked when one is read."""
        self._folder, self._engine = folder, engine
        self._index: dict[Path, Prefixes] = {}
        self._width: int | None = None  # numbers per vector, 0 for other values; None: unknown

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the folder itself, with an index of its own."""
        return ResultStore, (self._folder, self._engine)

    def read(
        self, wanted: Mapping[str, int]
    ) -> Iterator[tuple[NDArray[np.int64], "pa.Array[Any]"]]:
        """Stored values of ``wanted`` keys, one shard at a time.

        ``wanted`` maps a key to the caller's position; yields positions, shape (m,), and
        the m values. A key stored twice is yielded twice, with equal values.

        Raises:
            EngineError: the folder has a shard of another engine or dimension.
        """
        if not wanted:
            return
        prefixes = np.sort(_prefixes(list(wanted)))
        seen: set[Path] = set()
        complete = False
        while not complete:
            self._refresh()
            complete = True
            for path in sorted(self._index.keys() - seen):
                seen.add(path)
                if not _share_any(self._index[path], prefixes):
                    continue
                table = self._load(path, ["key", "value"])
                if table is not None:
                    yield from _picked(table, prefixes, wanted)
                else:  # damaged, or another process merged it: its values are in a newer shard
                    del self._index[path]
                    complete = False

    def write(self, keys: Sequence[str], values: "pa.Array[Any]") -> None:
        """Add one shard, whole or not at all; ``values`` has one entry per key.

        Raises:
            EngineError: the values are vectors of another dimension than the stored ones.
        """
        import pyarrow as pa

        if not keys:
            return
        if self._width is None:
            self._refresh()
        self._check_width(_width(values.type), None)
        self._put(pa.table({"key": pa.array(keys, pa.string()), "value": values}))

    def compact(self) -> None:
        """Merge small shards once there are more than ``MANY_SHARDS`` of them."""
        small = [path for path, keys in sorted(self._index.items()) if len(keys) < SMALL_ROWS]
        if len(small) <= MANY_SHARDS:
            return
        group: list[Path] = []
        for path in small:
            group.append(path)
            if sum(len(self._index[member]) for member in group) >= SMALL_ROWS:
                self._merge(group)
                group = []
        self._merge(group)

    def _merge(self, paths: Sequence[Path]) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        loaded = {path: self._load(path, ["key", "value"]) for path in paths}
        tables = [table for table in loaded.values() if table is not None]
        if len(tables) > 1:
            table = pa.concat_tables(tables)
            first = pc.index_in(pc.unique(table["key"]), table["key"].combine_chunks())
            # The merged shard is in place before its parts go, so a reader that finds a part
            # gone finds its values there, and a killed merge loses nothing.
            kept = self._put(table.take(first))
            for path in loaded:
                if path != kept:
                    path.unlink(missing_ok=True)
        self._index = {path: keys for path, keys in self._index.items() if path.exists()}

    def _put(self, table: "pa.Table") -> Path:
        import pyarrow.parquet as pq

        named = table.replace_schema_metadata(self._metadata(table.schema.field("value").type))
        whole = io.BytesIO()
        pq.write_table(named, whole, compression="zstd")
        digest = hashlib.sha256(whole.getbuffer()).hexdigest()[:_DIGITS]
        keys = key_of(*table.column("key").to_pylist())[:_DIGITS]
        target = self._folder / f"{keys}-{digest}.parquet"
        replace_file(target, lambda path: path.write_bytes(whole.getbuffer()))
        self._index[target] = np.sort(_prefixes(table.column("key")))
        return target

    def _refresh(self) -> None:
        paths = set(self._folder.glob("*.parquet"))
        for path in self._index.keys() - paths:
            del self._index[path]
        for path in sorted(paths - self._index.keys()):
            table = self._load(path, ["key"])
            if table is not None:
                self._index[path] = np.sort(_prefixes(table.column("key")))

    def _load(self, path: Path, columns: list[str]) -> "pa.Table | None":
        """Some columns of a shard; None where it is gone, or damaged and moved aside."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        digest = path.stem.partition("-")[2]  # shards of earlier versions have none
        try:
            with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
                schema = file.schema_arrow
                owner = (schema.metadata or {}).get(_ENGINE)
                if digest and not has_digest(path, digest):
                    reason = "its SHA-256 is not the one in its name"
                elif owner is None:
                    reason = "it is not marked as an engine's result"
                elif schema.names != ["key", "value"]:
                    reason = f"its columns are {schema.names}"
                else:
                    self._check_owner(owner.decode(), path)
                    self._check_width(_width(schema.field("value").type), path)
                    return file.read(columns)
        except FileNotFoundError:
            return None
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        aside = path.with_suffix(".unreadable")
        with contextlib.suppress(FileNotFoundError):
            path.replace(aside)
        warnings.warn(
            f"stored engine results are ignored: {path} ({reason}); moved to {aside.name}",
            UnreadableShardWarning,
            stacklevel=2,
        )
        return None

    def _metadata(self, value: "pa.DataType") -> dict[bytes, bytes]:
        width = _width(value)
        dimension = {_DIMENSION: str(width).encode()} if width else {}
        return {_ENGINE: self._engine.encode(), **dimension}

    def _check_owner(self, owner: str, path: Path) -> None:
        if owner != self._engine:
            raise EngineError(
                f"{path} holds results of '{owner}', not of '{self._engine}': move it back to "
                f"the folder {slug(owner)}, or delete it"
            )

    def _check_width(self, width: int, path: Path | None) -> None:
        """Adopt the first width seen, refuse others; ``path`` is None for new answers."""
        if self._width is None:
            self._width = width
        if width != self._width:
            known = next(iter(sorted(self._index)), self._folder)
            raise EngineError(
                f"engine '{self._engine}' has vectors of {self._width} numbers in {known} and of "
                f"{width} in {path or 'its new answers'}: set the dimension that is stored, give "
                f"the other model its own name, or delete what you no longer want"
            )


def _width(value: "pa.DataType") -> int:
    """Numbers per stored vector; 0 for a value that is no vector."""
    return int(getattr(value, "list_size", 0))


def _prefixes(keys: "Sequence[str] | pa.ChunkedArray[Any]") -> Prefixes:
    """The first 16 hex digits of each key as a number, shape (n,)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = keys if isinstance(keys, pa.ChunkedArray) else pa.chunked_array([pa.array(keys)])
    digits = pc.binary_slice(column.cast(pa.binary()), 0, _PREFIX_DIGITS)
    text = digits.cast(pa.binary(_PREFIX_DIGITS)).combine_chunks()
    # An Arrow array may be a slice of a larger buffer.
    raw = np.frombuffer(text.buffers()[1], np.uint8)[text.offset * _PREFIX_DIGITS :]
    raw = raw[: len(text) * _PREFIX_DIGITS].reshape(-1, _PREFIX_DIGITS)
    values = np.where(raw >= ord("a"), raw - (ord("a") - 10), raw - ord("0")).astype(np.uint8)
    joined = (values[:, 0::2] << 4) | values[:, 1::2]
    return np.ascontiguousarray(joined).view(">u8").ravel().astype(np.uint64)


def _share_any(one: Prefixes, other: Prefixes) -> bool:
    """Whether two sorted arrays have an element in common."""
    few, many = (one, other) if len(one) < len(other) else (other, one)
    return bool(_contained(few, many).any())


def _contained(values: Prefixes, ascending: Prefixes) -> NDArray[np.bool_]:
    """Which of ``values`` are in a sorted array, shape (len(values),)."""
    if not len(ascending):
        return np.zeros(len(values), dtype=np.bool_)
    index = np.searchsorted(ascending, values).clip(max=len(ascending) - 1)
    return np.asarray(ascending[index] == values)


def _picked(
    table: "pa.Table", prefixes: Prefixes, wanted: Mapping[str, int]
) -> Iterator[tuple[NDArray[np.int64], "pa.Array[Any]"]]:
    """Positions and values of the shard's rows that are wanted."""
    candidates = np.flatnonzero(_contained(_prefixes(table.column("key")), prefixes))
    keys = table.column("key").take(candidates).to_pylist()
    # A prefix is half a key, so the whole key decides.
    rows = [row for row, key in zip(candidates, keys, strict=True) if key in wanted]
    if rows:
        positions = np.array([wanted[key] for key in keys if key in wanted], dtype=np.int64)
        values = table.column("value")
        picked = values if len(rows) == len(values) else values.take(rows)
        yield positions, picked.combine_chunks()
