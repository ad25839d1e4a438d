"""The type of a table: named columns in a fixed order, and the check of a frame against them."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import polars as pl

from decomposerl.errors import SchemaError


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, polars type, meaning, and whether it may be null."""

    name: str
    dtype: pl.DataType
    meaning: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A named set of columns in a fixed order, with the columns that identify a row.

    ``row`` says what one row is, ``rule`` what is wrong between its columns, or an empty text.
    """

    name: str
    columns: tuple[Column, ...]
    unique: tuple[str, ...] = ()
    row: str = ""
    rule: Callable[[pl.DataFrame], str] | None = None

    @property
    def schema(self) -> pl.Schema:
        """Column name to polars type, in order."""
        return pl.Schema({column.name: column.dtype for column in self.columns})

    def empty(self) -> pl.DataFrame:
        """A frame with this table's columns and no row."""
        return pl.DataFrame(schema=self.schema)

    def extended(self, name: str, row: str, *columns: Column) -> "Table":
        """The same table under another name, with further columns at the end."""
        return Table(name, (*self.columns, *columns), self.unique, row, self.rule)

    def without(self, names: Collection[str]) -> "Table":
        """The same table without some of its columns, for a frame that has only the others.

        Without any of its columns it has no rule, which may need them.
        """
        columns = tuple(column for column in self.columns if column.name not in names)
        rule = self.rule if columns == self.columns else None
        return Table(self.name, columns, self.unique, self.row, rule)

    def conform(self, frame: pl.DataFrame, *, unique: bool = True) -> pl.DataFrame:
        """Return ``frame`` with this table's column order after checking it.

        With ``unique`` off, repeated rows are not looked for: ``frame`` is a part of the table.

        Raises:
            SchemaError: a column is missing, unknown, of another type, null where it may
                not be, two rows share the identifying columns, or the rule is broken.
        """
        expected = self.schema
        problems = [f"column '{n}' is missing" for n in expected if n not in frame.columns]
        problems += [
            f"column '{n}' is not in the table" for n in frame.columns if n not in expected
        ]
        problems += [
            f"column '{n}' is {frame.schema[n]}, expected {dtype}"
            for n, dtype in expected.items()
            if n in frame.columns and frame.schema[n] != dtype
        ]
        problems += [
            f"column '{c.name}' has {frame[c.name].null_count()} nulls"
            for c in self.columns
            if not c.nullable and c.name in frame.columns and frame[c.name].null_count()
        ]
        if not problems and unique and self.unique:
            duplicated = frame.height - frame.select(self.unique).n_unique()
            if duplicated:
                problems.append(f"{duplicated} rows repeat {', '.join(self.unique)}")
        if not problems and self.rule and (wrong := self.rule(frame)):
            problems.append(wrong)
        if problems:
            raise SchemaError(f"table '{self.name}': " + "; ".join(problems))
        return frame.select(list(expected))
