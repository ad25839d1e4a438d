"""What a verdict rests on: answers to its questions, or the evidence's silence.

Under two labels silent evidence ends as Refuted, and a system may say Supported where it only said
"I don't know". So a verdict names its basis, which follows from the answers alone.
"""

from collections.abc import Iterable

import polars as pl

from decomposerl.replies.abstention import abstains
from decomposerl.schemas import WRITTEN, Basis, Verdict

_WORDS: dict[Basis | None, str] = {
    "silent": ": the evidence does not say",
    "partly": ": the evidence answers only some questions",
}


def basis_of(answers: Iterable[str]) -> Basis | None:
    """The basis of a verdict by the answers of its trace; None for one without questions."""
    silent = [abstains(answer) for answer in answers]
    if not silent:
        return None
    if any(silent):
        return "silent" if all(silent) else "partly"
    return "answered"


def basis_words(verdict: Verdict, basis: Basis | None) -> str:
    """The verdict for a reader, with its basis where that is not an answer to every question."""
    return WRITTEN[verdict] + _WORDS.get(basis, "")


def with_basis(predictions: pl.DataFrame) -> pl.DataFrame:
    """``PREDICTIONS`` with its column ``basis``, which tables of earlier versions lack."""
    if "basis" in predictions.columns:
        return predictions
    answer = pl.element().struct.field("answer")
    answers = predictions["trace"].struct.field("cycles").list.eval(answer)
    bases = [basis_of(each or ()) for each in answers.to_list()]
    return predictions.with_columns(pl.Series("basis", bases, pl.String))
