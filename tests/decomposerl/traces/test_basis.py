"""What a verdict rests on, by the answers of its trace."""

import polars as pl
import pytest

from decomposerl.schemas import PREDICTIONS
from decomposerl.traces.basis import basis_of, basis_words, with_basis
from plain_rows import plain, table_of

KNOWN, SILENT = "Odense.", "I don't know."
CASES = [
    ((), None),
    ((KNOWN,), "answered"),
    ((KNOWN, "Yes."), "answered"),
    ((KNOWN, SILENT), "partly"),
    ((SILENT,), "silent"),
    ((SILENT, "", "I do not know; the document does not say."), "silent"),
]


@pytest.mark.parametrize(("answers", "basis"), CASES)
def test_the_basis_of_answers(answers: tuple[str, ...], basis: str | None):
    """All, some or none say something; without a question there is none. Any verdict says so."""
    assert basis == basis_of(answers)
    words = basis_words("Refuted", basis_of(answers))
    assert words.startswith("Refuted: ") == (words != "Refuted") == (basis in {"partly", "silent"})


def test_a_table_of_an_earlier_version_gets_its_basis():
    """From the stored traces, the same as a new table has; one without traces has none."""
    rows = [plain("predictions", claim_id="none")]
    for number, (answers, basis) in enumerate(CASES):
        cycles = [{"question": "?", "answer": answer, "thought": None} for answer in answers]
        trace = {"opening": "", "cycles": cycles, "verdict": "Refuted"}
        rows.append(plain("predictions", claim_id=str(number), trace=trace, basis=basis))
    table = table_of(PREDICTIONS, rows)
    assert table.equals(with_basis(table))
    earlier = with_basis(table.drop("basis"))
    assert [None, *(basis for _, basis in CASES)] == earlier["basis"].to_list()
    assert pl.String == earlier.schema["basis"]
