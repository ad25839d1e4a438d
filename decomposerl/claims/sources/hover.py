"""HoVer: many-hop Wikipedia claims with the titles of their gold pages.

The native JSON arrays hold titles and sentence numbers only. The text comes from the
HoVer/HotpotQA page database, one passage a gold page, or from the dev paragraph file, joined by
title set: a line of it belongs to the supported dev claim with its exact text, and from there to
every claim with the same set of titles. The native middle class is already folded into
``NOT_SUPPORTED``. The hub's form names the two parts of a supporting fact and numbers the labels.
"""

from collections.abc import Iterator, Mapping
from functools import partial

from decomposerl.claims.claim import Draft, Reject
from decomposerl.claims.fields import NativeRow, non_blank, read_each
from decomposerl.claims.passages import page_passages
from decomposerl.claims.source import CorpusFiles, FieldError, NativeFile, Pages, in_form, with_hub

PAGES = "hover/wiki_wo_links.db"
PARAGRAPHS = NativeFile("hover/hover_dev_gold_paragraphs.jsonl", "jsonl", "dev")
DEV = with_hub(NativeFile("hover/hover_dev_release_v1.1.json", "json_array", "dev"))
_CLASSES = ("NOT_SUPPORTED", "SUPPORTED")

Texts = Mapping[frozenset[str], tuple[str, ...]]
"""The paragraphs of a set of titles."""


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft per claim; the test file has claims only, so its drafts have no label."""
    joined, faults = _paragraphs(files)
    if file.split == DEV.split:  # the paragraphs are this file's companion: their faults once
        yield from faults
    yield from read_each(files, file, partial(_draft, files.pages(PAGES), joined))


def _draft(pages: Pages | None, joined: Texts, row: NativeRow) -> Draft:
    """Passages are the pages if every one is in the database, else the joined paragraphs."""
    if row.file.split == "test":
        return row.draft((), native_id=row.identifier("uid"), native_label=None)
    titles = _titles(row)
    return row.draft(
        page_passages(pages, titles) or joined.get(frozenset(titles), ()),
        native_id=row.identifier("uid"),
        native_label=row.class_label("label", _CLASSES),
        documents=titles,
        num_hops=row.optional("num_hops", row.integer),
    )


def _titles(row: NativeRow) -> tuple[str, ...]:
    """The distinct titles of ``supporting_facts``: pairs of title and sentence number.

    The hub's form names them ``key`` and ``value``.
    """
    names = []
    for fact in row.items("supporting_facts"):
        match fact:
            case [str(title), *_] | {"key": str(title)}:
                names.append(title)
            case _:
                raise FieldError("supporting_facts", "missing_field", "expected [title, sentence]")
    return tuple(dict.fromkeys(names))


def _paragraphs(files: CorpusFiles) -> tuple[Texts, list[Reject]]:
    """Paragraphs of each title set, first line in file order, and the unusable lines."""
    joined: dict[frozenset[str], tuple[str, ...]] = {}
    faults: list[Reject] = []
    if not files.exists(PARAGRAPHS.path):
        return joined, faults
    # Only supported claims key a line: one of their texts is also an unsupported claim with
    # other titles.
    titles = {
        draft.claim: frozenset(draft.documents)
        for draft in read_each(files, in_form(files.exists, DEV), partial(_draft, None, {}))
        if isinstance(draft, Draft) and draft.native_label == "SUPPORTED"
    }
    for line in read_each(files, PARAGRAPHS, _paragraph_line):
        if isinstance(line, Reject):
            faults.append(line)
        elif line.claim in titles:
            joined.setdefault(titles[line.claim], line.passages)
        else:
            detail = f"no supported dev claim: {line.claim[:60]}"
            faults.append(Reject(line.file, line.row, "claim", "dangling_reference", detail))
    return joined, faults


def _paragraph_line(row: NativeRow) -> Draft:
    passages = non_blank(row.text("gold_evidence").split("\n"), "gold_evidence")
    return row.draft(passages, native_id="", native_label=None)


READERS = {"default": read}
