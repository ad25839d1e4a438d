"""Guesses which column of a file of claims holds what, and which label means what.

From column names and a few rows; whatever is guessed can be named instead. ``source_file`` writes
the guess down.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Literal

from decomposerl.claims.claim import EvidenceKind
from decomposerl.claims.generic_rows import native_text
from decomposerl.claims.records import excerpt
from decomposerl.errors import ConfigError

SAMPLE_ROWS = 500
"""Rows that the columns are guessed from; labels are counted over the whole file."""
Role = Literal["claim", "evidence", "label", "id", "document", "subset", "num_hops"]
Side = Literal["supported", "refuted", "middle", "drop"]
Split = Literal["train", "dev", "test"]
Rows = Sequence[Mapping[str, object]]

_NAMES: Mapping[Role, str] = {
    "label": "label verdict gold_label gold veracity rating truth_rating truth is_supported "
    "supported entailment class annotation answer stance",
    "claim": "claim statement hypothesis claim_text sentence summary assertion query text",
    "evidence": "evidence evidences evidence_text context passages passage premise document doc "
    "article report source_text grounding abstract main_text content body page_text text",
    "id": "id claim_id uid guid uuid example_id row_id index key",
    "document": "document_id doc_id docid page_id article_id page title wikipedia_page url",
    "subset": "subset dataset domain category topic task",
    "num_hops": "num_hops hops n_hops",
}
_SIDES: Mapping[Side, str] = {
    "supported": "supported, supports, support, supporting, true, yes, 1, entailment, entailed, "
    "entails, correct, accurate, consistent, faithful, attributable, holds, verified, fact",
    "refuted": "refuted, refutes, refute, refuting, false, no, 0, contradiction, contradicted, "
    "contradicts, contradict, not supported, unsupported, incorrect, inaccurate, inconsistent, "
    "unfaithful, not attributable, not entailment, not entailed, fails, fake, barely true, "
    "mostly false, pants fire, pants on fire",
    "middle": "not enough info, not enough information, not enough evidence, nei, neutral, "
    "mixture, mixed, maybe, unclear, unknown, unproven, no evidence, partially supported, "
    "partly supported, partially true, half true, mostly true, conflicting evidence, "
    "conflicting, disputed, unverifiable, other",
}
_SIDE_OF: Mapping[str, Side] = {
    label: side for side, labels in _SIDES.items() for label in labels.split(", ")
}
_DEPTH, _MOST_LABELS, _LABEL_CHARS = 3, 50, 60
_TRUTH_VALUES, _NAMED = 2, 20
_LEAST_CLAIM, _LEAST_EVIDENCE = 8, 20  # characters, where a column's name says nothing
REQUIRED: tuple[Role, ...] = ("label", "claim", "evidence")
OPTIONAL: tuple[Role, ...] = ("id", "document", "subset", "num_hops")


@dataclass(frozen=True, slots=True)
class Guess:
    """The column of each role, by its dotted path, and the shape of the evidence.

    ``examples`` has a value of every column of the file.
    """

    columns: Mapping[Role, str]
    kind: EvidenceKind
    split: str
    examples: Mapping[str, object] = field(default_factory=dict)


def guess_columns(rows: Rows, named: Mapping[Role, str]) -> Guess:
    """The roles of the columns of some rows; ``named`` are not guessed.

    Raises:
        ConfigError: a named column is absent, or no column looks like claim, evidence or label.
    """
    values = _values(rows)
    for role, column in named.items():
        if column not in values:
            raise ConfigError(f"--{role}: there is no column '{column}'; {_columns(values)}")
    chosen: dict[Role, str] = dict(named)
    for role in (*REQUIRED, *OPTIONAL):
        free = {name: cells for name, cells in values.items() if name not in chosen.values()}
        best = chosen.get(role) or _best(role, free, len(rows))
        if best is None and role in REQUIRED:
            raise ConfigError(
                f"no column looks like the {role}: name it with --{role}; {_columns(values)}"
            )
        if best is not None:
            chosen[role] = best
    kind, split = _shape(values[chosen["evidence"]])
    return Guess(chosen, kind, split, {name: cells[0] for name, cells in values.items()})


def guess_sides(
    counts: Mapping[str, int], named: Mapping[Side, Sequence[str]]
) -> dict[Side, list[str]]:
    """The labels of each side, most frequent first; what is not recognised is in ``drop``.

    ``counts`` are the rows of each label; ``named`` are not guessed.

    Raises:
        ConfigError: a side has no label, or there are too many for a column of labels.
    """
    shown = ", ".join(f"'{label}' ({rows:,})" for label, rows in counts.items())
    if len(counts) > _MOST_LABELS:
        raise ConfigError(f"the label column has {len(counts):,} values: name it with --label")
    given = {_plain(label): side for side, labels in named.items() for label in labels}
    if absent := sorted(set(given) - set(map(_plain, counts))):
        raise ConfigError(f"no row has the label '{absent[0]}'; the labels are {shown}")
    # Three numbers have no common order: 0 is entailment in one corpus, refuted in another.
    known = {} if len(counts) > _TRUTH_VALUES and all(map(str.isdecimal, counts)) else _SIDE_OF
    sides: dict[Side, list[str]] = {"supported": [], "refuted": [], "middle": [], "drop": []}
    for label in sorted(counts, key=lambda one: -counts[one]):
        plain = _plain(label)
        sides[given.get(plain) or known.get(plain) or "drop"].append(label)
    for side in ("supported", "refuted"):
        if not sides[side]:
            raise ConfigError(
                f"no label looks like '{side}': name it with --{side}; the labels are {shown}"
            )
    return sides


def guess_split(file: str) -> Split:
    """The split that a file's name says: ``test``, ``dev``, else ``train``."""
    words = re.split(r"[^a-z]+", file.rpartition("/")[2].lower())
    if "test" in words:
        return "test"
    return "dev" if {"dev", "valid", "validation", "val"} & set(words) else "train"


def _best(role: Role, values: Mapping[str, Sequence[object]], rows: int) -> str | None:
    """The column that fits a role by its values and, first of all, by its name."""
    fitting = [name for name, cells in values.items() if _fits(role, cells, rows)]
    names = _NAMES[role].split()
    ranked = [(rank, name) for name in fitting if (rank := _rank(name, names)) is not None]
    if ranked:
        return min(ranked)[1] if role != "evidence" else _longest_of_best(ranked, values)
    if role == "label":
        return next((name for name in fitting if _all_recognised(values[name])), None)
    if role in OPTIONAL:
        return None
    if role == "claim":  # what is named as evidence is none, however short
        named = _NAMES["evidence"].split()
        fitting = [name for name in fitting if _rank(name, named) is None]
    least = _LEAST_CLAIM if role == "claim" else _LEAST_EVIDENCE
    lengths = {name: _chars(values[name]) for name in fitting if _chars(values[name]) >= least}
    choose = min if role == "claim" else max
    return choose(lengths, key=lambda name: lengths[name], default=None)


def _longest_of_best(
    ranked: Sequence[tuple[int, str]], values: Mapping[str, Sequence[object]]
) -> str:
    """Of the columns with the best name, such as parts of one object, the one with most text."""
    best = min(ranked)[0]
    return max((name for rank, name in ranked if rank == best), key=lambda one: _chars(values[one]))


def _fits(role: Role, cells: Sequence[object], rows: int) -> bool:
    """Whether a column's values can have a role; ``cells`` has no nulls."""
    texts = [native_text(cell) for cell in cells]
    scalar = None not in texts
    if role == "evidence":
        return all(isinstance(cell, str | list) for cell in cells)
    if role == "claim":
        return all(isinstance(cell, str) for cell in cells)
    if role == "label":
        few = len(set(texts)) <= max(min(_MOST_LABELS, rows // 2), 2)
        return scalar and few and all(len(text or "") <= _LABEL_CHARS for text in texts)
    if role == "id":
        return scalar and len(set(texts)) == len(texts) == rows
    if role == "num_hops":
        return scalar and all((text or "").strip().isdecimal() for text in texts)
    return scalar


def _rank(column: str, names: Sequence[str]) -> int | None:
    """How well a column's name fits, 0 is best; its last part counts, and words within it."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower()
    parts = [re.sub(r"\W+", "_", part) for part in (plain, *plain.split(".")[::-1])]
    for part in parts:
        if part in names:
            return names.index(part) + (0 if part == parts[0] else len(names))
    words = parts[0].split("_")
    near = [place for place, name in enumerate(names) if name in words]
    return near[0] + 2 * len(names) if near else None


def _values(rows: Rows) -> dict[str, list[object]]:
    """The values of every column that some row fills, nested ones by dotted path."""
    values: dict[str, list[object]] = {}
    for row in rows:
        for name, value in _cells(row, "", _DEPTH):
            if value is not None and value != "":
                values.setdefault(name, []).append(value)
    return values


def _cells(fields: Mapping[str, object], prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    for name, value in fields.items():
        if isinstance(value, dict) and depth:
            yield from _cells(value, f"{prefix}{name}.", depth - 1)
        else:
            yield f"{prefix}{name}", value


def _shape(cells: Sequence[object]) -> tuple[EvidenceKind, str]:
    """Whether the evidence is text or a table, and how a text is cut into passages."""
    items = [item for cell in cells if isinstance(cell, list) for item in cell]
    if items:
        return ("table" if any(isinstance(one, list | dict) for one in items) else "text"), "none"
    texts = [cell for cell in cells if isinstance(cell, str)]
    lines = mean("\n" in text.strip() for text in texts) if texts else 0
    return "text", "lines" if lines > 0.5 else "sentences"  # noqa: PLR2004 - most of them


def _chars(cells: Sequence[object]) -> float:
    return median(
        len(cell) if isinstance(cell, str) else len(json.dumps(cell, default=str)) for cell in cells
    )


def _all_recognised(cells: Sequence[object]) -> bool:
    sides = {_SIDE_OF.get(_plain(native_text(cell) or "")) for cell in cells}
    return None not in sides and {"supported", "refuted"} <= sides


def _plain(label: str) -> str:
    return " ".join(re.split(r"[\s_-]+", label.strip().casefold()))


def _columns(values: Mapping[str, object]) -> str:
    names = [excerpt(name) for name in values]
    more = f" and {len(names) - _NAMED} more" * (len(names) > _NAMED)
    return f"the columns are {', '.join(names[:_NAMED]) or 'none'}{more}"
