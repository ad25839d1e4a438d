"""Reading a Parquet file of traces; one that cannot be read is named."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import polars as pl

from decomposerl.errors import SourceFileError

Read = TypeVar("Read")


def read_named(path: Path, read: Callable[[Path], Read]) -> Read:
    """What ``read`` makes of a file.

    Raises:
        SourceFileError: it is no Parquet, or lacks a column; the message names it.
    """
    try:
        return read(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SourceFileError(f"{path} cannot be read: {error}") from error
