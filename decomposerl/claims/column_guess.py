"""Guesses which column of a file of claims holds what, and which label means what.

From names and a few rows; whatever is guessed can be named instead. Polarity is asked, not guessed.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import combinations, islice, permutations, product
from shlex import quote
from statistics import mean, median
from typing import Literal

from decomposerl.claims.claim import EvidenceKind
from decomposerl.claims.generic import Columns, is_label, is_url, listed, native_text, snake
from decomposerl.claims.records import excerpt
from decomposerl.errors import ConfigError

SAMPLE_ROWS = 500
"""Rows that the columns are guessed from; labels are counted over the whole file."""
Role = Literal["claim", "evidence", "label", "id", "document"]
Side = Literal["supported", "refuted", "middle", "drop"]
Split = Literal["train", "dev", "test"]

_WORDS = tomllib.loads(files(__package__).joinpath("column_words.toml").read_text("utf-8"))
_NAMES: Mapping[Role, list[str]] = _WORDS["columns"]
_SIDE_OF: Mapping[str, Side] = {
    label: side for side, labels in _WORDS["labels"].items() for label in labels
}
_BAD, _GOOD, _SCALE = (
    re.compile("|".join(_WORDS["polarity"][kind])) for kind in ("bad", "good", "scale")
)
_TRUTH = frozenset({"true", "false"})
_ANSWERS = _TRUTH | {"yes", "no", "0", "1", "y", "n", "t", "f"}
_DEPTH, _MOST_LABELS, _LABEL_CHARS, _NAMED, _UNNAMED = 3, 50, 60, 20, 1_000
_LEAST_CLAIM, _LEAST_EVIDENCE = 8, 20  # characters, where a column's name says nothing
_MOST, _SHOWN_ROWS = 0.5, 2
_REQUIRED: tuple[Role, ...] = ("label", "claim", "evidence")


class UnclearPolarity(ConfigError):  # noqa: N818 - a question, asked where there is a terminal
    """Nothing says which label means what; ``readings`` are those to choose from.

    The message shows two ``claims`` a side of each, and the options that choose it.
    """

    def __init__(
        self,
        why: str,
        readings: "Sequence[Mapping[Side, str]]",
        claims: "Mapping[str, Sequence[str]]",
    ) -> None:
        self.readings = readings
        lines, options = [why], list[str]()
        for number, reading in enumerate(readings, start=1):
            lines.append(f"reading {number}:")
            for side, label in reading.items():
                lines += [f"  {side:<9}  {excerpt(text)}" for text in claims[label][:_SHOWN_ROWS]]
            options.append(" ".join(f"--{side} {quote(word)}" for side, word in reading.items()))
        super().__init__("\n".join([*lines, "choose one of", *options]))


@dataclass(frozen=True, slots=True)
class Guess:
    """The column of each role, by its dotted path, and the shape of the evidence.

    ``examples`` has a value of every column of the file, ``others`` the second choice of a role.
    """

    columns: Mapping[Role, str]
    kind: EvidenceKind
    split: str
    examples: Mapping[str, object] = field(default_factory=dict)
    others: Mapping[Role, str] = field(default_factory=dict)


def guess_columns(
    rows: Sequence[Mapping[str, object]], named: Mapping[Role, str], *, labelled: bool = True
) -> Guess:
    """The roles of the columns of rows; ``named`` are not guessed, nor is a role without a name.

    Raises:
        ConfigError: a named column is absent, or no column looks like the claim, the evidence or,
            of rows that have to be ``labelled``, the label.
    """
    values: dict[str, list[object]] = {}
    for name, value in (cell for row in rows for cell in _cells(row, "", _DEPTH)):
        if value is not None and value != "":
            values.setdefault(name, []).append(value)
    values |= _by_source(rows, values)
    known = f"the columns are {', '.join(map(excerpt, islice(values, _NAMED))) or 'none'}"
    chosen, others = {role: column for role, column in named.items() if column}, dict[Role, str]()
    for role, column in chosen.items():
        cells = [cell for row in rows if (cell := Columns(row).find(column)) is not None]
        if not cells:
            raise ConfigError(f"--{role}: there is no column '{column}'; {known}")
        values.setdefault(column, cells)
    for role in (*_REQUIRED, "id", "document"):
        if role in named:
            continue
        free = {name: cells for name, cells in values.items() if name not in chosen.values()}
        best, other, *_ = (*_ranked(role, free, len(rows)), "", "")
        if not best and role in _REQUIRED[not labelled :]:
            raise ConfigError(
                f"no column looks like the {role}: name it with --{role}"
                f"{_hint(role, free)}; {known}"
            )
        chosen |= {role: best} if best else {}
        others |= {role: other} if other and role in _REQUIRED else {}
    inside = f"{chosen['evidence']}."
    examples = {name: v[0] for name, v in values.items() if not name.startswith(inside)}
    return Guess(chosen, *_shape(values[chosen["evidence"]]), examples, others)


def _hint(role: Role, values: Mapping[str, Sequence[object]]) -> str:
    """What else may be done where no column has a role."""
    if role == "label":
        return ", or --label =WORD where all rows have one label"
    lists = {name: cell for name, (cell, *_) in values.items() if isinstance(cell, list) and cell}
    rows = [name for name, cell in lists.items() if isinstance(cell[0], dict)]
    return f", or --records {rows[0]} if each entry of it has a {role}" if rows else ""


def says_polarity(column: str, labels: Iterable[str]) -> bool:
    """Whether a column and its labels say which of them means Supported.

    A column named after something bad (``hallucination``, ``is_fake``) never does. Yes, no, 0 and 1
    do so in a column named after something good (``is_supported``), true and false also on a scale
    of truth: a column such as ``rating``, or labels such as "half true" beside them.
    """
    name, plain = snake(column.rpartition(".")[2]), set(map(_plain, labels))
    answers = plain & _ANSWERS
    if _BAD.search(name) is not None or any(map(str.isdecimal, plain - answers)):
        return False
    if not answers or _GOOD.search(name) is not None:
        return True
    return answers <= _TRUTH and (_SCALE.search(name) is not None or answers != plain)


def guess_sides(
    claims: Mapping[str, Sequence[str]],
    named: Mapping[Side, Sequence[str]],
    column: str = "label",
    classes: Mapping[str, str] | None = None,
) -> dict[Side, list[str]]:
    """The labels of each side, most frequent first; what is not recognised is in ``drop``.

    ``claims`` are those of each label of ``column``; ``named`` labels are not guessed; ``classes``
    are the names of numbered classes.

    Raises:
        ConfigError: a label is absent or nothing says what it means; shows the possible readings.
    """
    shown = ", ".join(f"'{label}' ({len(rows):,})" for label, rows in claims.items())
    if len(claims) > _MOST_LABELS:
        raise ConfigError(f"the label column has {len(claims):,} values: name it with --label")
    given = {_plain(label): side for side, labels in named.items() for label in labels}
    names = {label: _plain((classes or {}).get(label, label)) for label in claims}
    if absent := sorted(set(given) - set(map(_plain, claims)) - set(names.values())):
        raise ConfigError(f"no row has the label '{absent[0]}'; the labels are {shown}")
    clear = says_polarity(column, names.values())
    known = {label: side for label, side in _SIDE_OF.items() if clear or side == "middle"}
    sides: dict[Side, list[str]] = {"supported": [], "refuted": [], "middle": [], "drop": []}
    for label in sorted(claims, key=lambda label: -len(claims[label])):
        side = given.get(_plain(label)) or given.get(names[label]) or known.get(names[label])
        sides[side or "drop"].append(label)
    missing: list[Side] = [side for side in ("supported", "refuted") if not sides[side]]
    if len(missing) == 1 and len(sides["drop"]) == 1 and len(given) == 1:
        sides[missing[0]], sides["drop"] = sides["drop"], []  # of two labels one was named
    elif missing and (sides["drop"] or len(missing) > 1):
        words, count = sides["drop"][:2], min(len(missing), len(sides["drop"]))
        pairs = product(permutations(missing, count), combinations(words, count))
        readings = [dict(zip(order, chosen, strict=True)) for order, chosen in pairs]
        which = " and which ".join(missing)
        why = f"'{column}' does not say which label is {which} of {shown}"
        raise UnclearPolarity(why, readings, claims)
    return sides


def guess_split(file: str) -> Split:
    """The split that a path in a corpus's folder says: ``test``, ``dev``, else ``train``."""
    words = {*re.split(r"[^a-z]+", file.partition("/")[2].lower() or file.lower())}
    dev = not words.isdisjoint({"dev", "valid", "validation", "val"})
    return "test" if "test" in words else "dev" if dev else "train"


def _ranked(role: Role, values: Mapping[str, Sequence[object]], rows: int) -> list[str]:
    """The columns that fit a role by their values, best first: by name, then by content."""
    order: dict[str, tuple[bool, int, float]] = {}
    for name, cells in values.items():
        rank, size = _rank(name, _NAMES[role]), median(len(str(cell)) for cell in cells)
        distinct = len({*map(str, cells)})
        if rank is None and role == "claim":  # no evidence, however short, nor a topic or a source
            evidence = _rank(name, _NAMES["evidence"]) is not None
            known = size >= _LEAST_CLAIM and not evidence and distinct > len(cells) / 4
        else:
            known = rank is not None or (role == "evidence" and size >= _LEAST_EVIDENCE)
        if known and _fits(role, name, cells, rows):
            fixed = role == "label" and distinct == 1  # a type, or one class
            size = -size if role == "evidence" else size  # the longest evidence, the shortest claim
            order[name] = (fixed, _UNNAMED if rank is None else rank, size)
    return sorted(order, key=lambda name: order[name])


def _fits(role: Role, name: str, cells: Sequence[object], rows: int) -> bool:
    """Whether a column can have a role; ``cells`` has no nulls."""
    texts = [native_text(cell) for cell in cells]
    if role in {"claim", "evidence"}:
        kinds = str | list | dict if role == "evidence" else str
        fits = all(isinstance(cell, kinds) for cell in cells) and mean(map(is_url, cells)) < _MOST
        return fits and not is_label(name.rpartition(".")[2])
    if None in texts:
        return False
    if role == "label":
        most = _MOST_LABELS if _rank(name, ["label"]) == 0 else max(min(_MOST_LABELS, rows // 2), 2)
        return len(set(texts)) <= most and all(len(text or "") <= _LABEL_CHARS for text in texts)
    return role != "id" or len(set(texts)) == len(texts) == rows


def _rank(column: str, names: Sequence[str]) -> int | None:
    """How well a column's name fits, 0 is best; its last part counts, and words within it."""
    parts = [snake(part) for part in (column, *column.split(".")[::-1])]
    if known := [part for part in parts if part in names]:
        return min(names.index(part) + (0 if part == parts[0] else len(names)) for part in known)
    near = [place for place, name in enumerate(names) if name in parts[0].split("_")]
    return near[0] + 2 * len(names) if near else None


def _cells(fields: Mapping[str, object], prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    for name, value in fields.items():
        if isinstance(value, dict) and depth:
            yield from _cells(value, f"{prefix}{name}.", depth - 1)
        else:
            yield f"{prefix}{name}", value


def _by_source(
    rows: Sequence[Mapping[str, object]], values: Mapping[str, Sequence[object]]
) -> dict[str, list[object]]:
    """Objects of evidence whose keys are sources, each with its text: one column each."""
    texts = Counter(
        name.partition(".")[0]
        for name, cells in values.items()
        if "." in name and median(len(str(cell)) for cell in cells) >= _LEAST_EVIDENCE
    )
    named = [name for name, count in texts.items() if count > 1 and name in _NAMES["evidence"]]
    return {name: [row[name] for row in rows if row.get(name)] for name in named}


def _shape(values: Sequence[object]) -> tuple[EvidenceKind, str]:
    """Whether the evidence is text or a table, and how a text is cut into passages."""
    cells = [listed(cell) for cell in values]
    items = [item for cell in cells if isinstance(cell, list) for item in cell]
    inner = [cell for item in items if isinstance(item, list) for cell in item]
    if inner and not any(isinstance(cell, list | dict) for cell in inner):
        return "table", "none"
    lines = mean(isinstance(cell, str) and "\n" in cell.strip() for cell in cells)
    return "text", "none" if items else "lines" if lines > _MOST else "sentences"


def _plain(label: str) -> str:
    return " ".join(re.split(r"[\s_-]+", label.strip().casefold()))
