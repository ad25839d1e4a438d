"""HoVer: many-hop Wikipedia claims with the titles of their gold pages.

Takes the native JSON arrays, which hold titles and sentence numbers only. The text comes
from the HoVer/HotpotQA page database, one passage a gold page, or from the dev paragraph
file, joined by title set: a line of it belongs to the supported dev claim with its exact
text, and from there to every claim with the same set of titles. Gives one draft a claim.

Left out deliberately: sentence numbers (the paragraphs are the evidence), and the native
middle class, which HoVer has already folded into ``NOT_SUPPORTED``.
"""

from collections.abc import Callable, Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import (
    FieldError,
    Fields,
    held,
    identifier,
    items,
    optional_integer,
    read_each,
    text,
)
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.source import CorpusFiles, NativeFile, Pages, Source

PAGES = "hover/wiki_wo_links.db"
PARAGRAPHS = NativeFile("hover/hover_dev_gold_paragraphs.jsonl", "jsonl", "dev")
TRAIN = NativeFile("hover/hover_train_release_v1.1.json", "json_array", "train")
DEV = NativeFile("hover/hover_dev_release_v1.1.json", "json_array", "dev")

Titles = tuple[str, ...]
TextOf = Callable[[Titles], tuple[str, ...]]


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a claim; the test file has claims only, so its drafts have no label."""
    if file.split == "test":
        yield from read_each(files, file, partial(_claim_only, file))
        return
    joined, faults = _paragraphs(files)
    if file == DEV:  # the paragraphs are the dev file's companion: its faults once, here
        yield from faults
    passages_of = partial(_passages, files.pages(PAGES), joined)
    yield from read_each(files, file, partial(_draft, file, passages_of))


def _claim_only(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    claim, native_id = text(row, "claim"), identifier(row, "uid")
    return Draft(record.file, record.row, native_id, file.split, claim, (), None)


def _draft(file: NativeFile, passages_of: TextOf, record: Record) -> Draft:
    row = record.fields
    titles = _titles(row)
    return Draft(
        file=record.file,
        row=record.row,
        native_id=identifier(row, "uid"),
        split=file.split,
        claim=text(row, "claim"),
        passages=passages_of(titles),
        native_label=text(row, "label"),
        documents=titles,
        num_hops=optional_integer(row, "num_hops"),
    )


def _titles(row: Fields) -> Titles:
    """The distinct titles of ``supporting_facts`` (pairs of title and sentence number)."""
    names = []
    for fact in items(row, "supporting_facts"):
        if not (isinstance(fact, list | tuple) and fact and isinstance(fact[0], str)):
            raise FieldError("supporting_facts", "missing_field", "expected [title, sentence]")
        names.append(fact[0])
    return tuple(dict.fromkeys(names))


def _passages(
    pages: Pages | None, joined: dict[frozenset[str], tuple[str, ...]], titles: Titles
) -> tuple[str, ...]:
    """The page texts if every page is in the database, else the joined paragraphs, else ()."""
    found = [_page(pages, title) for title in titles] if pages else []
    return tuple(found) if found and all(found) else joined.get(frozenset(titles), ())


def _page(pages: Pages, title: str) -> str:
    return " ".join(s.strip() for s in pages.sentences(title) or () if s.strip())


def _paragraphs(
    files: CorpusFiles,
) -> tuple[dict[frozenset[str], tuple[str, ...]], tuple[Reject, ...]]:
    """Paragraphs of each title set, first line in file order, and the unusable lines.

    Only supported claims key a line: one of their texts also stands as an unsupported
    claim with other titles.
    """
    joined: dict[frozenset[str], tuple[str, ...]] = {}
    faults: list[Reject] = []
    if not files.exists(PARAGRAPHS.path):
        return joined, ()
    titles = {
        draft.claim: frozenset(draft.documents)
        for draft in read_each(files, DEV, partial(_draft, DEV, lambda _: ()))
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
    return joined, tuple(faults)


def _paragraph_line(record: Record) -> Draft:
    row = record.fields
    passages = held(text(row, "gold_evidence").split("\n"), "gold_evidence")
    return Draft(record.file, record.row, "", "dev", text(row, "claim"), passages, None)


HOVER = Source(
    name="hover",
    title="HoVer",
    domain="Wiki",
    homepage="https://hover-nlp.github.io",
    license="CC BY-SA 4.0 (dataset card); MIT (repository); Wikipedia text CC BY-SA",
    terms="Open. Paragraph text joined from a third repository, Wikipedia text only.",
    labels=LabelMap.of(supported="SUPPORTED", refuted="NOT_SUPPORTED"),
    files=(TRAIN, DEV),
    read=read,
    paper_raw=18_171,
)
