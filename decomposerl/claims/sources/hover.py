"""HoVer: many-hop Wikipedia claims with the titles of their gold pages.

The native JSON arrays hold titles and sentence numbers only. The text comes from the
HoVer/HotpotQA page database, one passage a gold page, or from the dev paragraph file, joined by
title set: a line of it belongs to the supported dev claim with its exact text, and from there to
every claim with the same set of titles. The native middle class is already folded into
``NOT_SUPPORTED``. The hub's form names the two parts of a supporting fact and numbers the labels.
"""

from collections.abc import Callable, Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Reject
from decomposerl.claims.fields import NativeRow, non_blank, read_each
from decomposerl.claims.passages import page_passages
from decomposerl.claims.source import CorpusFiles, FieldError, NativeFile, in_form, with_hub

PAGES = "hover/wiki_wo_links.db"
PARAGRAPHS = NativeFile("hover/hover_dev_gold_paragraphs.jsonl", "jsonl", "dev")
DEV = with_hub(NativeFile("hover/hover_dev_release_v1.1.json", "json_array", "dev"))
_CLASSES = ("NOT_SUPPORTED", "SUPPORTED")

Passages = tuple[str, ...]
Titles = tuple[str, ...]


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft per claim; the test file has claims only, so its drafts have no label."""
    if file.split == "test":
        yield from read_each(files, file, _claim_only)
        return
    joined, faults = _paragraphs(files)
    if file.split == DEV.split:  # the paragraphs are this file's companion: their faults once
        yield from faults
    pages = files.pages(PAGES)

    def passages_of(titles: Titles) -> Passages:
        """The page texts if every page is in the database, else the joined paragraphs, else ()."""
        return page_passages(pages, titles) or joined.get(frozenset(titles), ())

    yield from read_each(files, file, partial(_draft, passages_of))


def _draft(passages_of: Callable[[Titles], Passages], row: NativeRow) -> Draft:
    titles = _titles(row)
    return row.draft(
        passages_of(titles),
        native_id=row.identifier("uid"),
        native_label=row.class_label("label", _CLASSES),
        documents=titles,
        num_hops=row.optional("num_hops", row.integer),
    )


def _claim_only(row: NativeRow) -> Draft:
    return row.draft((), native_id=row.identifier("uid"), native_label=None)


def _titles(row: NativeRow) -> Titles:
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


def _paragraphs(files: CorpusFiles) -> tuple[dict[frozenset[str], Passages], list[Reject]]:
    """Paragraphs of each title set, first line in file order, and the unusable lines."""
    joined: dict[frozenset[str], Passages] = {}
    faults: list[Reject] = []
    if not files.exists(PARAGRAPHS.path):
        return joined, faults
    # Only supported claims key a line: one of their texts is also an unsupported claim with
    # other titles.
    titles = {
        draft.claim: frozenset(draft.documents)
        for draft in read_each(files, in_form(files, DEV), partial(_draft, lambda _: ()))
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
