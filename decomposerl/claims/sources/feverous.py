"""FEVEROUS: Wikipedia claims over sentences and table cells.

Takes two shapes. The native JSON lines give evidence as element ids, whose text stands in
the FEVEROUS Wikipedia database; the reduced ``feverous_s`` files (claims whose gold
evidence is sentences only) carry the text. Both give one draft a row, each passage led by
its page title, as in the reduced files.

Left out deliberately: the ``context`` of native elements (section and header paths), and
telling alternative evidence sets apart: the union of all sets is the evidence.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial

from decomposerl.claims.claim import Draft, EvidenceKind, Record, Reject
from decomposerl.claims.fields import (
    FieldError,
    held,
    identifier,
    objects,
    read_each,
    strings,
    text,
)
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.passages import CELL_BAR, page_title, without_links
from decomposerl.claims.source import CorpusFiles, NativeFile, Pages, Source

PAGES = "feverous/feverous_wikiv1.db"
SENTENCE_DEV = NativeFile("feverous_s/dev.json", "json_array", "dev", subset="feverous_s")

# The shortest page name that leaves a well-formed element, so that "A_title_sentence_0"
# is sentence 0 of "A_title" and "A_header_cell_0_0_1" a header cell of "A".
_ELEMENT = re.compile(
    r"(?P<page>.+?)_(?P<element>(?:sentence|table_caption|section|list)_\d+|item_\d+_\d+"
    r"|(?:header_)?cell_(?P<line>\d+_\d+)_\d+|title)",
    re.DOTALL,
)


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a claim; native files need the page database for their passages."""
    if file.format == "json_array":
        return read_each(files, file, partial(_sentence_draft, file))
    return read_each(files, file, partial(_native_draft, file, files.pages(PAGES)))


def _sentence_draft(file: NativeFile, record: Record) -> Draft:
    """A row of ``feverous_s``: one ``title<TAB>sentence`` a line of ``evidence``."""
    row = record.fields
    lines = held(text(row, "evidence").split("\n"), "evidence")
    titles = (line.split("\t", 1)[0] for line in lines if "\t" in line)
    return Draft(
        file=record.file,
        row=record.row,
        native_id=identifier(row, "id"),
        split=file.split,
        claim=text(row, "claim"),
        passages=tuple(without_links(line).replace("\t", ": ") for line in lines),
        native_label=text(row, "label"),
        documents=tuple(dict.fromkeys(page_title(title) for title in titles)),
        subset=file.subset,
    )


def _native_draft(file: NativeFile, pages: Pages | None, record: Record) -> Draft | None:
    row = record.fields
    if record.row == 1 and row.get("id") in (None, ""):
        return None  # the header record that opens the published files
    elements = _elements(
        [name for one in objects(row, "evidence") for name in strings(one, "content")]
    )
    return Draft(
        file=record.file,
        row=record.row,
        native_id=identifier(row, "id"),
        split=file.split,
        claim=text(row, "claim"),
        passages=_passages(pages, elements),
        native_label=text(row, "label"),
        documents=tuple(dict.fromkeys(page_title(match["page"]) for match in elements)),
        evidence_kind=_kind(elements),
    )


def _elements(names: Sequence[str]) -> tuple[re.Match[str], ...]:
    found = []
    for name in dict.fromkeys(names):
        match = _ELEMENT.fullmatch(name)
        if match is None:
            raise FieldError("evidence", "dangling_reference", f"no element id: {name[:60]}")
        found.append(match)
    return tuple(found)


def _passages(pages: Pages | None, elements: Sequence[re.Match[str]]) -> tuple[str, ...]:
    """One passage an element, cells of one table row together; all found or none.

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
        lines.setdefault(key, []).append(without_links(content.strip()))
    return tuple(
        f"{page_title(page)}: {CELL_BAR.join(cells)}" for (page, _), cells in lines.items()
    )


def _kind(elements: Sequence[re.Match[str]]) -> EvidenceKind:
    names = [match["element"] for match in elements if match["element"] != "title"]
    tabular = [name for name in names if "cell" in name or name.startswith("table")]
    return "table" if names and tabular == names else "text"


FEVEROUS = Source(
    name="feverous",
    title="FEVEROUS",
    domain="Wiki",
    homepage="https://fever.ai/dataset/feverous.html",
    license="CC BY-SA 3.0 (annotations and Wikipedia text)",
    terms="Open. The reduced sentence files come from a repository under MIT.",
    labels=LabelMap.of(supported="SUPPORTS", refuted="REFUTES", middle="NOT ENOUGH INFO"),
    files=(
        NativeFile("feverous/feverous_train_challenges.jsonl", "jsonl", "train"),
        NativeFile("feverous_s/train.json", "json_array", "train", subset="feverous_s"),
        SENTENCE_DEV,
    ),
    read=read,
    paper_raw=26_928,
)
