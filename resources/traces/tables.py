"""Reading a file of traces; one that cannot be read is named, or left out with a warning."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import polars as pl

from decomposerl.errors import SourceFileError
from resources.store.integrity import verified

Read = TypeVar("Read")
Warn = Callable[[str], object]
"""Receives a line for each file that is left out."""
_OF_ANOTHER_FORM = (KeyError, ValueError, AttributeError, TypeError)
"""What rows or JSON of another version, or of no version, lead to."""


def no_warning(_: str) -> None:
    """Leaves files out without a word."""


def read_named(path: Path, read: Callable[[Path], Read]) -> Read:
    """What ``read`` makes of a file.

    Raises:
        SourceFileError: it cannot be read, or has another form; the message names it.
    """
    with naming(path):
        return read(path)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name a file in what reading it raises.

    Raises:
        SourceFileError: it cannot be read, or has another form.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SourceFileError(f"{path} cannot be read: {error}") from error
    except _OF_ANOTHER_FORM as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise SourceFileError(f"{path} is cut off or of another version: {why}") from error


def require_columns(path: Path, columns: Iterable[str], what: str) -> None:
    """Check a Parquet file's columns without reading its rows.

    Raises:
        SourceFileError: it cannot be read, or is no ``what``, since it lacks a column.
    """
    schema = read_named(path, lambda file: pl.read_parquet_schema(verified(file)))
    missing = sorted(set(columns) - set(schema))
    if missing:
        raise SourceFileError(f"{path} is no {what}: it has no '{missing[0]}'")


def readable(path: Path, columns: Iterable[str], what: str, warn: Warn) -> bool:
    """Whether a Parquet file has these columns; if not, ``warn`` receives why."""
    try:
        require_columns(path, columns, what)
    except SourceFileError as error:
        warn(f"left out: {error}")
        return False
    return True
