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

_ENGINE, _DIMENSION = b"engine", b"dimension"
_DIGITS = 16  # of each half of a shard's name
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
    """The results of one engine in one folder."""

    def __init__(self, folder: Path, engine: str) -> None:
        """``engine`` is written into every shard and checked when one is read."""
        self._folder, self._engine = folder, engine
        self._known: tuple[int, Path] | None = None  # numbers per vector, 0 for other values

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the folder itself."""
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
        seen: set[Path] = set()
        # What another process merges meanwhile is in a newer shard.
        while wanted and (paths := self._shards() - seen):
            for path in sorted(paths):
                seen.add(path)
                keys = self._load(path, "key")
                stored = [] if keys is None else [wanted.get(key, -1) for key in keys.to_pylist()]
                positions = np.array(stored, np.int64)
                here = positions >= 0
                if here.any() and (values := self._load(path, "value")) is not None:
                    yield positions[here], values.filter(here).combine_chunks()

    def write(self, keys: Sequence[str], values: "pa.Array[Any]") -> None:
        """Add one shard, whole or not at all; ``values`` has one entry per key.

        Raises:
            EngineError: the values are vectors of another dimension than the stored ones.
        """
        import pyarrow as pa

        if not keys:
            return
        for path in sorted(self._shards()):
            if self._known is not None:
                break
            self._load(path, "key")
        self._check_width(_width(values.type), self._folder)
        self._put(pa.table({"key": pa.array(keys, pa.string()), "value": values}))

    def compact(self) -> None:
        """Merge small shards once there are more than ``MANY_SHARDS`` of them."""
        if len(paths := sorted(self._shards())) <= MANY_SHARDS:
            return
        rows = {path: len(keys) for path in paths if (keys := self._load(path, "key")) is not None}
        small = [path for path, count in rows.items() if count < SMALL_ROWS]
        group: list[Path] = []
        for path in small if len(small) > MANY_SHARDS else ():
            group.append(path)
            if path == small[-1] or sum(map(rows.__getitem__, group)) >= SMALL_ROWS:
                self._merge(group)
                group = []

    def _merge(self, paths: Sequence[Path]) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        parts = [[self._load(path, column) for column in ("key", "value")] for path in paths]
        tables = [pa.table(part, ["key", "value"]) for part in parts if None not in part]
        if len(tables) > 1:
            table = pa.concat_tables(tables)
            first = pc.index_in(pc.unique(table["key"]), table["key"].combine_chunks())
            # The merged shard is in place before its parts go, so a reader that finds a part
            # gone finds its values there, and a killed merge loses nothing.
            kept = self._put(table.take(first))
            for path in paths:
                if path != kept:
                    path.unlink(missing_ok=True)

    def _put(self, table: "pa.Table") -> Path:
        import pyarrow.parquet as pq

        named = table.replace_schema_metadata(self._metadata(table.schema.field("value").type))
        whole = io.BytesIO()
        pq.write_table(named, whole, compression="zstd")
        digest = hashlib.sha256(whole.getbuffer()).hexdigest()[:_DIGITS]
        keys = key_of(*table.column("key").to_pylist())[:_DIGITS]
        target = self._folder / f"{keys}-{digest}.parquet"
        replace_file(target, lambda path: path.write_bytes(whole.getbuffer()))
        return target

    def _shards(self) -> set[Path]:
        return set(self._folder.glob("*.parquet"))

    def _load(self, path: Path, column: str) -> "pa.ChunkedArray[Any] | None":
        """A column of a shard; None where it is gone, or damaged and moved aside."""
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
                    return file.read([column]).column(0)
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

    def _check_width(self, width: int, path: Path) -> None:
        """Adopt the first width seen, refuse others; ``path`` is the folder for new answers."""
        self._known = self._known or (width, path)
        if width != self._known[0]:
            raise EngineError(
                f"engine '{self._engine}' has vectors of {self._known[0]} numbers in "
                f"{self._known[1]} and of {width} in {path}: set the dimension that is stored, "
                "give the other model its own name, or delete what you no longer want"
            )


def _width(value: "pa.DataType") -> int:
    """Numbers per stored vector; 0 for a value that is no vector."""
    return int(getattr(value, "list_size", 0))
