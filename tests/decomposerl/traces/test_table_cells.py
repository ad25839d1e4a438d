"""The cells of a table behind an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.claims.passages import table_passages
from decomposerl.traces.table_cells import TableCell, table_cells

HEADER = ["Name", "Born", "Height (cm)"]
ROWS = [["Ada Brown", "1890", "172"], ["Eva Holm", "1902", "168"]]
PLAIN = "\n".join(table_passages("Swimmers of Odense", HEADER, ROWS))
MARKDOWN = "\n".join(
    ["| Name | Born | Height (cm) |", "| --- | ---: | ---: |"]
    + [f"| {' | '.join(row)} |" for row in ROWS]
)
BY_PAGE = "Odense: Population | 180,863\nOdense: Area | 79 km2"
CITED = [
    ("How tall was Ada Brown?", "Ada Brown was 172 cm tall.", ("Ada Brown", "Height (cm)", "172")),
    ("How tall was Ada Brown?", "172", ("Ada Brown", "Height (cm)", "172")),
    ("When was Eva Holm born?", "In 1902.", ("Eva Holm", "Born", "1902")),
    ("Who was born in 1902?", "Eva Holm", ("Eva Holm", "Name", "Eva Holm")),
    ("When was Eva Holm born?", "In 1890.", None),
    ("When was Eva Holm born?", "I don't know.", None),
    ("How tall was she?", "172", None),
    ("How tall was Ada Brown?", "Yes.", None),
]


@pytest.mark.parametrize("evidence", [PLAIN, MARKDOWN])
@pytest.mark.parametrize(("question", "answer", "cell"), CITED)
def test_an_answer_from_a_table(question: str, answer: str, cell: tuple | None, evidence: str):
    """Row, header and figure; none of a row that nobody named, nor for an abstention."""
    cells = [] if cell is None else [TableCell(*cell)]
    assert cells == list(table_cells(question, answer, evidence))


def test_rows_that_name_their_page_have_no_header():
    """A figure has its row alone; a text without a table has no cells."""
    (cell,) = table_cells("What is the population of Odense?", "180,863", BY_PAGE)
    assert TableCell("Odense: Population", "", "180,863") == cell
    assert "row Odense: Population: 180,863" == str(cell)
    assert () == table_cells("How tall was Ada Brown?", "172", "Ada Brown was 172 cm tall.")


@given(st.text("ab1 |\n:-", max_size=60), st.text("ab1 ", max_size=10))
def test_any_text_is_read(evidence: str, answer: str):
    """A cell's figure is a cell of a line of the evidence."""
    for cell in table_cells("a 1", answer, evidence):
        assert any(cell.figure in line for line in evidence.splitlines())
