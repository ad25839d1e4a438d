"""Marks that reviewers leave on traces: their form, which one holds, and how far reviewers agree.

A mark says whether a reviewer agrees with a system's verdict on a claim. Two reviewers are compared
on the traces that both marked, by percent agreement and Cohen's kappa (Cohen 1960).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
import pydantic
from pydantic import Field, StringConstraints

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.agreement import agreement_of, defined, kappa

MarkWord = Literal["agree", "disagree", "unclear"]
MARK_WORDS: tuple[MarkWord, ...] = get_args(MarkWord)
MOST_NOTE, MOST_NAME = 10_000, 200
"""Characters of a note or a marked text, and of a name."""
TraceKey = tuple[str, str, int | None, int | None]
"""Claim, system, step and rollout."""
_Word = Annotated[str, StringConstraints(strict=True, max_length=MOST_NAME)]
_Name = Annotated[_Word, StringConstraints(min_length=1)]
_Person = Annotated[_Name, StringConstraints(strip_whitespace=True)]
_Note = Annotated[str, StringConstraints(strict=True, max_length=MOST_NOTE)]
_Place = Annotated[int, Field(strict=True, ge=0)]
_ABSENT = {"step": None, "rollout": None, "note": "", "span": None}


@pydantic.dataclasses.dataclass(frozen=True, slots=True)
class MarkedSpan:
    """A stretch of the evidence, or of the answer of a cycle, in UTF-16 code units."""

    where: Literal["evidence", "answer"]
    cycle: _Place | None
    start: _Place
    end: _Place
    text: _Note

    @pydantic.model_validator(mode="after")
    def _is_a_stretch(self) -> Self:
        if self.where == "answer" and self.cycle is None:
            raise ValueError("an answer is named with its 'cycle'")
        if self.start >= self.end:
            raise ValueError("'start' must be below 'end'")
        return self


@pydantic.dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """One reviewer's mark on one trace; ``mark`` is empty where an earlier one is withdrawn.

    ``at`` is the UTC time in ISO 8601. ``of`` is the digest of the reply that was marked
    (``TraceItem.digest``), empty in marks of earlier versions.
    """

    claim_id: _Name
    system: _Name
    step: _Place | None
    rollout: _Place | None
    reviewer: _Person
    mark: Literal["agree", "disagree", "unclear", ""]
    note: _Note
    span: MarkedSpan | None
    at: _Word
    of: _Word = ""

    @property
    def trace(self) -> TraceKey:
        """What is marked."""
        return self.claim_id, self.system, self.step, self.rollout

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values, without an empty ``of``."""
        return {name: value for name, value in asdict(self).items() if name != "of" or value}


_MARK = pydantic.TypeAdapter(Mark)


def mark_from(values: Mapping[str, Any], at: str | None = None) -> Mark:
    """The mark of a JSON object; ``at`` takes the place of its own time.

    Raises:
        EvaluationError: a field is missing or not of its form; names it.
    """
    try:
        return _MARK.validate_python({**_ABSENT, **values} | ({} if at is None else {"at": at}))
    except pydantic.ValidationError as error:
        fault = error.errors()[0]
        raise EvaluationError(f"field '{fault['loc'][0]}': {fault['msg']}") from error


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
    before, counted = Counter(mark.system for mark in earlier), []
    for name in sorted({mark.system for mark in (*marks, *earlier)}):
        own = [mark for mark in marks if mark.system == name]
        words = Counter(mark.mark for mark in own)
        counted.append(
            SystemMarks(
                system=name,
                reviewers=len({mark.reviewer for mark in own}),
                traces=len({mark.trace for mark in own}),
                marks=len(own),
                agree=words["agree"],
                disagree=words["disagree"],
                unclear=words["unclear"],
                share_agree=words["agree"] / len(own) if own else None,
                earlier=before[name],
            )
        )
    return counted


def reviewer_pairs(marks: Sequence[Mark]) -> Iterator[ReviewerPair]:
    """Each pair of reviewers, over all systems and then by system where there are several."""
    names = sorted({mark.system for mark in marks})
    for system in ("", *names) if len(names) > 1 else ("",):
        read: dict[str, dict[TraceKey, int]] = {}
        for mark in marks:
            if mark.mark and system in {"", mark.system}:
                read.setdefault(mark.reviewer, {})[mark.trace] = MARK_WORDS.index(mark.mark)
        for first, second in combinations(sorted(read), 2):
            table = np.zeros((len(MARK_WORDS), len(MARK_WORDS)))
            for trace in read[first].keys() & read[second].keys():
                table[read[first][trace], read[second][trace]] += 1
            both, share = int(table.sum()), defined(agreement_of(table))
            yield ReviewerPair(system, first, second, both, share, defined(kappa(table)))
