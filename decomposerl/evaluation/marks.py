"""Marks that reviewers leave on traces: their form, which one holds, and how far reviewers agree.

A mark says whether a reviewer agrees with a system's verdict on a claim. Two reviewers are compared
on the traces that both marked, by percent agreement and Cohen's kappa (Cohen 1960).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal, get_args

from decomposerl.errors import EvaluationError

MarkWord = Literal["agree", "disagree", "unclear"]
MARK_WORDS: tuple[MarkWord, ...] = get_args(MarkWord)
MOST_NOTE, MOST_NAME = 10_000, 200
"""Characters of a note or a marked text, and of a name."""
_WHERE = ("evidence", "answer")
TraceKey = tuple[str, str, int | None, int | None]
"""Claim, system, step and rollout."""


@dataclass(frozen=True, slots=True)
class MarkedSpan:
    """A stretch of the evidence, or of the answer of a cycle, in UTF-16 code units."""

    where: str
    cycle: int | None
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """One reviewer's mark on one trace; ``mark`` is empty where an earlier one is withdrawn.

    ``at`` is the UTC time in ISO 8601. ``of`` is the digest of the reply that was marked
    (``TraceItem.digest``), empty in marks of earlier versions.
    """

    claim_id: str
    system: str
    step: int | None
    rollout: int | None
    reviewer: str
    mark: str
    note: str
    span: MarkedSpan | None
    at: str
    of: str = ""

    @property
    def trace(self) -> TraceKey:
        """What is marked."""
        return self.claim_id, self.system, self.step, self.rollout

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values, without an empty ``of``."""
        values = asdict(self)
        return values if self.of else {name: one for name, one in values.items() if name != "of"}


def mark_from(values: Mapping[str, Any], at: str | None = None) -> Mark:
    """The mark of a JSON object; ``at`` takes the place of its own time.

    Raises:
        EvaluationError: a field is missing or not of its form; names it.
    """
    word = _text(values, "mark", MOST_NAME)
    if word not in {*MARK_WORDS, ""}:
        raise EvaluationError(f"field 'mark': '{word}' is none of {', '.join(MARK_WORDS)}")
    reviewer = _text(values, "reviewer", MOST_NAME).strip()
    if not reviewer:
        raise EvaluationError("field 'reviewer': a mark needs the reviewer's name")
    return Mark(
        claim_id=_named(values, "claim_id"),
        system=_named(values, "system"),
        step=_number(values, "step"),
        rollout=_number(values, "rollout"),
        reviewer=reviewer,
        mark=word,
        note=_text(values, "note", MOST_NOTE, ""),
        span=_span(values.get("span")),
        at=_text(values, "at", MOST_NAME) if at is None else at,
        of=_text(values, "of", MOST_NAME, ""),
    )


def holding(marks: Iterable[Mark]) -> list[Mark]:
    """The newest mark of each reviewer on each trace, without those that were withdrawn.

    Equal times are decided by the order: the later one holds.
    """
    newest: dict[tuple[object, ...], Mark] = {}
    for mark in marks:
        key = (*mark.trace, mark.reviewer)
        if key not in newest or newest[key].at <= mark.at:
            newest[key] = mark
    return [mark for mark in newest.values() if mark.mark]


def on_newest_reply(marks: Sequence[Mark]) -> tuple[list[Mark], list[Mark]]:
    """The marks that hold: those on the reply that was marked last, and those on earlier ones.

    A system that answered a claim again has another reply under the same name. A mark that does
    not say which reply it is of counts as one on the last.
    """
    newest: dict[TraceKey, Mark] = {}
    for mark in (one for one in marks if one.of):
        if mark.trace not in newest or newest[mark.trace].at <= mark.at:
            newest[mark.trace] = mark
    groups: tuple[list[Mark], list[Mark]] = [], []
    for mark in holding(marks):
        groups[bool(mark.of) and mark.of != newest[mark.trace].of].append(mark)
    return groups


@dataclass(frozen=True, slots=True)
class SystemMarks:
    """The marks on one system. ``share_agree`` is agree / marks, None without a mark.

    ``earlier`` counts marks on earlier replies, which are in no other number.
    """

    system: str
    reviewers: int
    traces: int
    marks: int
    agree: int
    disagree: int
    unclear: int
    share_agree: float | None
    earlier: int = 0


@dataclass(frozen=True, slots=True)
class ReviewerPair:
    """Two reviewers on the traces that both marked; ``system`` is empty over all systems.

    ``agreement`` is the share of equal marks, None without such a trace. ``kappa`` is Cohen's,
    None where chance alone would give full agreement (both used one word only).
    """

    system: str
    first: str
    second: str
    traces: int
    agreement: float | None
    kappa: float | None


def system_marks(marks: Sequence[Mark], earlier: Sequence[Mark] = ()) -> list[SystemMarks]:
    """Counts of the marks that hold, by system in alphabetical order; ``on_newest_reply``."""
    before = _by_system(earlier)
    own = _by_system(marks)
    names = sorted({*own, *before})
    return [_system(name, own.get(name, ()), len(before.get(name, ()))) for name in names]


def reviewer_pairs(marks: Sequence[Mark]) -> Iterator[ReviewerPair]:
    """Each pair of reviewers, over all systems and then by system where there are several."""
    groups = _by_system(marks)
    yield from _pairs("", marks)
    for name, own in groups.items() if len(groups) > 1 else ():
        yield from _pairs(name, own)


def _by_system(marks: Sequence[Mark]) -> dict[str, list[Mark]]:
    names = sorted({mark.system for mark in marks})
    return {name: [mark for mark in marks if mark.system == name] for name in names}


def _system(name: str, own: Sequence[Mark], earlier: int) -> SystemMarks:
    words = Counter(mark.mark for mark in own)
    return SystemMarks(
        system=name,
        reviewers=len({mark.reviewer for mark in own}),
        traces=len({mark.trace for mark in own}),
        marks=len(own),
        agree=words["agree"],
        disagree=words["disagree"],
        unclear=words["unclear"],
        share_agree=words["agree"] / len(own) if own else None,
        earlier=earlier,
    )


def _pairs(system: str, marks: Sequence[Mark]) -> Iterator[ReviewerPair]:
    by_reviewer: dict[str, dict[TraceKey, str]] = {}
    for mark in marks:
        by_reviewer.setdefault(mark.reviewer, {})[mark.trace] = mark.mark
    for one, other in combinations(sorted(by_reviewer), 2):
        first, second = by_reviewer[one], by_reviewer[other]
        both = [trace for trace in first if trace in second]
        words = [first[trace] for trace in both], [second[trace] for trace in both]
        yield ReviewerPair(system, one, other, len(both), *_agreement(*words))


def _agreement(first: list[str], second: list[str]) -> tuple[float | None, float | None]:
    if not first:
        return None, None
    share = sum(a == b for a, b in zip(first, second, strict=True)) / len(first)
    if len({*first, *second}) == 1:
        return share, None
    from sklearn.metrics import cohen_kappa_score

    return share, float(cohen_kappa_score(first, second))


def _named(values: Mapping[str, Any], name: str) -> str:
    text = _text(values, name, MOST_NAME)
    if not text:
        raise EvaluationError(f"field '{name}': is empty")
    return text


def _text(values: Mapping[str, Any], name: str, most: int, otherwise: str | None = None) -> str:
    value = values.get(name, otherwise)
    if not isinstance(value, str):
        raise EvaluationError(f"field '{name}': {'is missing' if value is None else 'is no text'}")
    if len(value) > most:
        raise EvaluationError(f"field '{name}': is longer than {most:,} characters")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EvaluationError(f"field '{name}': holds half of a surrogate pair") from error
    return value


def _number(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise EvaluationError(f"field '{name}': is neither null nor a whole number from 0")
    return value


def _span(value: object) -> MarkedSpan | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise EvaluationError("field 'span': is no object")
    where, cycle = value.get("where"), _number(value, "cycle")
    start, end = _number(value, "start"), _number(value, "end")
    if where not in _WHERE or (where == "answer" and cycle is None):
        raise EvaluationError("field 'span': 'where' is evidence, or answer with its 'cycle'")
    if start is None or end is None or start >= end:
        raise EvaluationError("field 'span': 'start' must be below 'end'")
    return MarkedSpan(str(where), cycle, start, end, _text(value, "text", MOST_NOTE))
