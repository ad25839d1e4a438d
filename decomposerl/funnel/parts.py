"""When a search over all claims is split into tasks, and into which parts.

One process is used as long as its memory, estimated generously, is within ``task_memory_mb``.
"""

from collections.abc import Iterator
from functools import partial

import polars as pl

from decomposerl.funnel.settings import LexicalSettings, TaskSettings
from decomposerl.kernels.cosine_filter import unit_rows
from decomposerl.kernels.cosine_parts import Vectors
from decomposerl.kernels.set_parts import TextPart
from decomposerl.ports import Embedder, Tasks

MB = 1_000_000
JOINED_BYTES = 700  # of a claim in the join of one process, measured at 1.5 million
VECTOR_BYTES = 4_096 * 5  # the longest usual vector and its low-precision copy


def joins_in_tasks(settings: LexicalSettings, rows: int, tasks: Tasks | None) -> bool:
    """Whether the join of so many claims is split; plain and verified MinHash never are."""
    exact = settings.lexical_engine in {"auto", "exact"}
    return tasks is not None and exact and rows * JOINED_BYTES > settings.task_memory_mb * MB


def text_parts(claims: pl.Series, settings: TaskSettings) -> list[TextPart]:
    """The claims in parts of which a task joins two."""
    rows = max(settings.task_memory_mb * MB // (2 * JOINED_BYTES), 1)
    return [partial(pl.Series.to_list, part) for part in slices(claims, rows)]


def embeds_in_blocks(settings: TaskSettings, rows: int, tasks: Tasks | None) -> bool:
    """Whether the vectors of so many claims are kept on disk and compared block by block."""
    return tasks is not None and rows * VECTOR_BYTES > settings.task_memory_mb * MB


def embedded(claims: pl.Series, settings: TaskSettings, embedder: Embedder) -> Iterator[Vectors]:
    """The claims' unit vectors in blocks of which a task holds two."""
    rows = max(settings.task_memory_mb * MB // (2 * VECTOR_BYTES), 1)
    for part in slices(claims, rows):
        yield unit_rows(embedder.embed(part.to_list()), len(part))


def slices(claims: pl.Series, rows: int) -> Iterator[pl.Series]:
    """The series in pieces of ``rows``, without a copy."""
    return (claims.slice(start, rows) for start in range(0, len(claims), rows))
