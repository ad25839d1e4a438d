"""Marks that reviewers leave on traces, as the trace page sends and stores them.

A mark says whether a reviewer agrees with a system's verdict on a claim.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, StringConstraints, ValidationError, model_validator

from decomposerl.errors import EvaluationError

MOST_NOTE, MOST_NAME = 10_000, 200
"""Characters of a note or a marked text, and of a name."""
_Word = Annotated[str, StringConstraints(strict=True, max_length=MOST_NAME)]
_Name = Annotated[_Word, StringConstraints(min_length=1)]
_Note = Annotated[str, StringConstraints(strict=True, max_length=MOST_NOTE)]
_Place = Annotated[int, Field(strict=True, ge=0)]


class MarkedSpan(BaseModel, frozen=True):
    """A stretch of the evidence, or of the answer of a cycle, in UTF-16 code units."""

    where: Literal["evidence", "answer"]
    cycle: _Place | None
    start: _Place
    end: _Place
    text: _Note

    @model_validator(mode="after")
    def _is_a_stretch(self) -> Self:
        if self.where == "answer" and self.cycle is None:
            raise ValueError("an answer is named with its 'cycle'")
        if self.start >= self.end:
            raise ValueError("'start' must be below 'end'")
        return self


class Mark(BaseModel, frozen=True):
    """One reviewer's mark on one trace; ``mark`` is empty where an earlier one is withdrawn.

    ``at`` is the UTC time in ISO 8601. ``of`` is the digest of the reply that was marked
    (``TraceItem.digest``), empty in marks of earlier versions.
    """

    claim_id: _Name
    system: _Name
    step: _Place | None = None
    rollout: _Place | None = None
    reviewer: Annotated[_Name, StringConstraints(strip_whitespace=True)]
    mark: Literal["agree", "disagree", "unclear", ""]
    note: _Note = ""
    span: MarkedSpan | None = None
    at: _Word
    of: _Word = ""

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values, without an empty ``of``."""
        return self.model_dump(exclude=None if self.of else {"of"})


def mark_from(values: Mapping[str, Any], at: str | None = None) -> Mark:
    """The mark of a JSON object; ``at`` takes the place of its own time.

    Raises:
        EvaluationError: a field is missing or not of its form; names it.
    """
    try:
        return Mark.model_validate({**values} | ({} if at is None else {"at": at}))
    except ValidationError as error:
        fault = error.errors()[0]
        raise EvaluationError(f"field '{fault['loc'][0]}': {fault['msg']}") from error
