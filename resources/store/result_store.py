"""Append-only Parquet shards of one engine's answers: the disk side of ``results``.

A ``ResultStore`` is one folder of shards with a ``key`` (32 hex digits of SHA-256 over the
inputs) and a typed ``value``. A shard is written beside its target and renamed, so a
killed run leaves only whole shards, and is mapped into memory when it is read. Its metadata
name the engine (program and model) and, for vectors, the dimension. A shard that cannot be
read or fails its checksums is moved aside with a warning that names it, never trusted; one
of another engine or dimension stops the run, because it is whole and was paid for.

Left out deliberately: what is asked and when (``resources.store.stored_engine``), and any expiry; an
engine whose answers change must change its name.
"""

import contextlib
import hashlib
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from resources.store.temporary import replace_file

if TYPE_CHECKING:
    import pyarrow as pa

_ENGINE, _DIMENSION = b"engine", b"dimension"
SMALL_ROWS = 16_384
"""Shards below this are merged, up to about this size, once there are many of them."""
MANY_SHARDS = 8
_STALE_S = 3_600.0


class UnreadableShardWarning(UserWarning):
    """A stored shard was not trusted; it was moved aside and its items are asked again."""


def key_of(*parts: str) -> str:
    """32 hex digits of SHA-256 over the parts, each preceded by its length in bytes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:32]


def slug(engine: str) -> str:
    """A folder name for an engine; the hash keeps engines apart that only look alike."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", engine)[:80]
    return f"{plain}-{hashlib.sha256(engine.encode()).hexdigest()[:8]}"


class ResultStore:
    """The shards of one engine. One writer at a time is enough, several do no harm."""

    def __init__(self, folder: Path, engine: str) -> None:
        """``engine`` is written into every shard and checked when one is read."""
        self._folder, self._engine = folder, engine
        self._index: dict[Path, frozenset[str]] = {}
        self._width: int | None = None  # numbers a vector, 0 for other values; None: not known yet

    def read(
        self, wanted: Mapping[str, int]
    ) -> Iterator[tuple[NDArray[np.int64], "pa.Array[Any]"]]:
        """Stored values of ``wanted`` keys, one shard at a time.

        ``wanted`` maps a key to the caller's position; yields positions, shape (m,), and
        the m values. A key stored twice is yielded twice, with equal values.

        Raises:
            EngineError: a shard of another engine or dimension lies in the folder.
        """
        self._refresh()
        for path in sorted(self._index):
            if self._index[path].isdisjoint(wanted):
                continue
            table = self._load(path, ["key", "value"])
            if table is None:
                del self._index[path]
                continue
            keys = table.column("key").to_pylist()
            rows = [row for row, key in enumerate(keys) if key in wanted]
            positions = np.array([wanted[keys[row]] for row in rows], dtype=np.int64)
            values = table.column("value")
            picked = values if len(rows) == len(keys) else values.take(rows)
            yield positions, picked.combine_chunks()

    def write(self, keys: Sequence[str], values: "pa.Array[Any]") -> None:
        """Add one shard, whole or not at all; ``values`` has one entry a key.

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
        self._remove_stale()
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
            kept = self._put(table.take(first))
            for path in loaded:
                if path != kept:
                    path.unlink(missing_ok=True)
        self._index = {p: k for p, k in self._index.items() if p.exists()}

    def _put(self, table: "pa.Table") -> Path:
        import pyarrow.parquet as pq

        keys = table.column("key").to_pylist()
        target = self._folder / f"{key_of(*keys)[:16]}.parquet"
        named = table.replace_schema_metadata(self._metadata(table.schema.field("value").type))
        replace_file(
            target,
            lambda path: pq.write_table(named, path, compression="zstd", write_page_checksum=True),
        )
        self._index[target] = frozenset(keys)
        return target

    def _refresh(self) -> None:
        paths = set(self._folder.glob("*.parquet"))
        for path in [known for known in self._index if known not in paths]:
            del self._index[path]
        for path in sorted(paths - set(self._index)):
            table = self._load(path, ["key"])
            if table is not None:
                self._index[path] = frozenset(table.column("key").to_pylist())

    def _load(self, path: Path, columns: list[str]) -> "pa.Table | None":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
                schema = file.schema_arrow
                owner = (schema.metadata or {}).get(_ENGINE)
                if owner is None:
                    reason = "it is not marked as an engine's result"
                elif schema.names != ["key", "value"]:
                    reason = f"its columns are {schema.names}"
                else:
                    self._check_owner(owner.decode(), path)
                    self._check_width(_width(schema.field("value").type), path)
                    return file.read(columns)
        except FileNotFoundError:
            return None  # another run has just merged it into a larger shard
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
        """Take the first width for the shelf's own; ``path`` is None for what is written."""
        if self._width is None:
            self._width = width
        if width != self._width:
            known = next(iter(sorted(self._index)), self._folder)
            raise EngineError(
                f"engine '{self._engine}' has vectors of {self._width} numbers in {known} and of "
                f"{width} in {path or 'its new answers'}: set the dimension that is stored, give "
                f"the other model a name of its own, or delete what you no longer want"
            )

    def _remove_stale(self) -> None:
        for path in self._folder.glob("*.tmp"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _STALE_S:
                    path.unlink()


def _width(value: "pa.DataType") -> int:
    """Numbers in a stored vector; 0 for a value that is none."""
    return int(getattr(value, "list_size", 0))
