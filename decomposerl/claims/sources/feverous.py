"""FEVEROUS: Wikipedia claims over sentences and table cells.

Two shapes are read. The native JSON lines give evidence as element ids, whose text is in the
FEVEROUS Wikipedia database; the reduced ``feverous_s`` files (claims whose gold evidence is
sentences only) carry the text, under the native ids: a claim of both shapes is read once, native
first. Both give one draft a row, each passage led by its page title.
The union of all evidence sets is the evidence; section and header paths are not used. The reading
``sentences`` drops native claims with an element that is no sentence, as ``feverous_s`` was made.
The hub's form numbers the labels and has no header record.
"""

import re
from collections.abc import Sequence
from functools import partial

from decomposerl.claims.claim import Draft, EvidenceKind
from decomposerl.claims.fields import NativeRow, each_row_with, non_blank
from decomposerl.claims.passages import CELL_BAR, page_title, page_titles, without_links
from decomposerl.claims.source import FieldError, Pages

PAGES = "feverous/feverous_wikiv1.db"
_CLASSES = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")

# The shortest page name that leaves a well-formed element, so that "A_title_sentence_0"
# is sentence 0 of "A_title" and "A_header_cell_0_0_1" a header cell of "A".
_ELEMENT = re.compile(
    r"(?P<page>.+?)_(?P<element>(?:sentence|table_caption|section|list)_\d+|item_\d+_\d+"
    r"|(?:header_)?cell_(?P<line>\d+_\d+)_\d+|title)",
    re.DOTALL,
)


def _sentence_draft(row: NativeRow) -> Draft:
    """A row of ``feverous_s``: one ``title<TAB>sentence`` a line of ``evidence``."""
    lines = non_blank(row.text("evidence").split("\n"), "evidence")
    return row.draft(
        tuple(without_links(line).replace("\t", ": ") for line in lines),
        documents=page_titles(line.split("\t", 1)[0] for line in lines if "\t" in line),
    )


def _draft(pages: Pages | None, row: NativeRow, *, sentences_only: bool = False) -> Draft | None:
    """The draft of a claim; native rows need the page database for their passages.

    With ``sentences_only`` a claim with a title, cell, list or table element is left out.
    """
    if row.file.format == "json_array":
        return _sentence_draft(row)
    if row.record.row == 1 and row.raw.get("id") in (None, ""):
        return None  # the header record that opens the published files
    elements = _elements(row)
    other = not all(match["element"].startswith("sentence_") for match in elements)
    return row.draft(
        _passages(pages, elements),
        native_label=row.class_label("label", _CLASSES),
        documents=page_titles(match["page"] for match in elements),
        evidence_kind=_kind(elements),
        left_out="not_sentences_only" if sentences_only and other else None,
    )


def _elements(row: NativeRow) -> list[re.Match[str]]:
    """The elements of all evidence sets, each once."""
    elements = []
    for name in dict.fromkeys(n for one in row.objects("evidence") for n in one.strings("content")):
        match = _ELEMENT.fullmatch(name)
        if match is None:
            raise FieldError("evidence", "dangling_reference", f"no element id: {name[:60]}")
        elements.append(match)
    return elements


def _passages(pages: Pages | None, elements: Sequence[re.Match[str]]) -> tuple[str, ...]:
    """One passage per element, the cells of a table row together; all found or none.

    A claim with half its gold evidence may no longer follow from it.
    """
    if pages is None:
        return ()
    lines: dict[tuple[str, str], list[str]] = {}
    for match in elements:
        if match["element"] == "title":
            continue  # the title leads every passage of its page anyway
        content = pages.element(match["page"], match["element"])
        if content is None or not content.strip():
            return ()
        key = (match["page"], f"row {match['line']}" if match["line"] else match["element"])
        lines.setdefault(key, []).append(content.strip())
    return tuple(
        f"{page_title(page)}: {CELL_BAR.join(cells)}" for (page, _), cells in lines.items()
    )


def _kind(elements: Sequence[re.Match[str]]) -> EvidenceKind:
    names = [match["element"] for match in elements if match["element"] != "title"]
    tables = all("cell" in name or name.startswith("table") for name in names)
    return "table" if names and tables else "text"


READERS = {
    "default": each_row_with(PAGES, _draft),
    "sentences": each_row_with(PAGES, partial(_draft, sentences_only=True)),
}
