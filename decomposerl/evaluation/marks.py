"""Marks that reviewers leave on traces, as the trace page sends and stores them.

A mark says whether a reviewer agrees with a system's verdict on a claim.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import Field, StringConstraints

from decomposerl.errors import EvaluationError

MOST_NOTE, MOST_NAME = 10_000, 200
"""Characters of a note or a marked text, and of a name."""
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
