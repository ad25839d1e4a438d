"""SciFact: scientific claims with abstracts that support or contradict them.

The abstracts are ``corpus.jsonl`` or a CSV that printed each abstract as a NumPy array of
strings. A draft is one (claim, evidence document), whose passages are the abstract's sentences; a
claim without evidence is one middle draft, whose passages are the abstracts that it cites. The
numbers of rationale sentences are only checked: they say where the answer is. The reading
``rationales`` gives a draft for each rationale, with the whole abstract.

The hub's form has one row a rationale; its rows of one claim are joined before they are read.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from decomposerl.claims.claim import Draft, Reject
from decomposerl.claims.fields import (
    JsonObject,
    NativeRow,
    agreed,
    each,
    non_blank,
    read_each,
    read_joined,
)
from decomposerl.claims.source import CorpusFiles, FieldError, NativeFile, in_form, with_hub

CORPUS = with_hub(NativeFile("scifact/corpus.jsonl", "jsonl", "train"), "corpus")
PRINTED_CORPUS = NativeFile("scifact/corpus_train.csv", "csv", "train")
NO_EVIDENCE = "NO EVIDENCE"
_HUB_COLUMNS = frozenset({"evidence_doc_id", "evidence_label", "evidence_sentences"})

# A string that is not closed runs to the end and is refused there, in linear time.
_PRINTED_STRING = re.compile(
    r"""'(?:[^'\\]++|\\(?:.|\Z))*+(?:'|\Z)|"(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z)""", re.DOTALL
)

Abstracts = Mapping[str, tuple[str, ...]]
Outcomes = Sequence[Draft | Reject]


def read(
    files: CorpusFiles, file: NativeFile, *, by_rationale: bool = False
) -> Iterator[Draft | Reject]:
    """Drafts of each claim line; an unknown document or sentence number rejects its pair."""
    abstracts, faults = _abstracts(files)
    if file.split == "train":  # one corpus serves all files: its faults once
        yield from faults
    yield from read_joined(files, file, _claim_of, partial(_drafts, abstracts, by_rationale))


def _claim_of(row: NativeRow) -> str:
    """What the rows of a claim share: its id in the hub's form; the native form has one row."""
    hub = row.raw.keys() >= _HUB_COLUMNS
    return row.identifier("id") if hub else f"row {row.record.row}"


def _native(rows: Sequence[NativeRow]) -> NativeRow:
    """A claim as one native row; in the hub's form a claim without evidence has no document id."""
    if not rows[0].raw.keys() >= _HUB_COLUMNS:
        return rows[0]
    agreed(rows, "claim", each(rows, lambda row: row.text("claim")))
    evidence: dict[str, list[object]] = {}
    for row in rows:
        document = row.text("evidence_doc_id")
        if document.strip():
            sentences, label = row.items("evidence_sentences"), row.text("evidence_label")
            evidence.setdefault(document, []).append({"sentences": sentences, "label": label})
    return replace(rows[0], raw={**rows[0].raw, "evidence": evidence})


def _drafts(abstracts: Abstracts, by_rationale: bool, rows: Sequence[NativeRow]) -> Outcomes:  # noqa: FBT001
    row = _native(rows)
    documents = row.mapping("evidence").raw
    if documents:
        return [
            outcome
            for document in documents
            for outcome in _of_document(abstracts, by_rationale, row, document)
        ]
    cited = [str(document) for document in row.items("cited_doc_ids")]
    lines = (line for document in cited for line in abstracts.get(document, ()))
    passages = tuple(line for line in lines if line.strip())
    names = tuple(dict.fromkeys(cited))
    return (row.draft(passages, native_label=NO_EVIDENCE, documents=names),)


def _of_document(
    abstracts: Abstracts,
    by_rationale: bool,  # noqa: FBT001
    row: NativeRow,
    document: str,
) -> Outcomes:
    try:
        rationales = row.mapping("evidence").objects(document)
        draft = row.draft(
            _abstract(abstracts, document, rationales),
            native_id=f"{row.identifier('id')}:{document}",
            native_label=_label(rationales),
            documents=(document,),
        )
    except FieldError as fault:
        return (fault.reject(row.record),)
    numbers = range(len(rationales))
    named = (replace(draft, native_id=f"{draft.native_id}:{number}") for number in numbers)
    return tuple(named) if by_rationale else (draft,)


def _abstract(
    abstracts: Abstracts, document: str, rationales: Sequence[JsonObject]
) -> tuple[str, ...]:
    if not abstracts:
        return ()  # no corpus on this machine: no fault of the claim
    if document not in abstracts:
        raise FieldError("evidence", "dangling_reference", f"no abstract {document}")
    sentences = abstracts[document]
    for index in (index for one in rationales for index in one.items("sentences")):
        if type(index) is not int or not 0 <= index < len(sentences):
            detail = f"abstract {document} has {len(sentences)} sentences, not number {index!r}"
            raise FieldError("evidence", "dangling_reference", detail[:100])
    return non_blank(sentences, "evidence")


def _label(rationales: Sequence[JsonObject]) -> str:
    labels = sorted({one.text("label") for one in rationales})
    if len(labels) != 1:
        raise FieldError("evidence", "unknown_label", f"no single label: {labels}")
    return labels[0]


def _abstracts(files: CorpusFiles) -> tuple[Abstracts, tuple[Reject, ...]]:
    """Sentences of each abstract by document id, and the rows that could not be read."""
    corpus = in_form(files, CORPUS)
    if not files.exists(corpus.path):
        corpus = PRINTED_CORPUS
    outcomes = list(read_each(files, corpus, _entry))
    abstracts = {one.native_id: one.passages for one in outcomes if isinstance(one, Draft)}
    return abstracts, tuple(one for one in outcomes if isinstance(one, Reject))


def _entry(row: NativeRow) -> Draft:
    sentences = _printed(row) if row.file is PRINTED_CORPUS else row.strings("abstract")
    non_blank(sentences, "abstract")  # blank sentences stay: rationales count them
    return row.draft(sentences, native_id=row.identifier("doc_id"), claim="", native_label=None)


def _printed(row: NativeRow) -> tuple[str, ...]:
    """The strings of a printed NumPy array, which white space separates, not commas."""
    printed = row.text("abstract")
    residue = _PRINTED_STRING.sub("", printed).strip().strip("[]").strip()
    if residue:
        raise FieldError("abstract", "missing_field", f"not a printed array: {residue[:60]}")
    return tuple(_unescaped(match[0]) for match in _PRINTED_STRING.finditer(printed))


def _unescaped(literal: str) -> str:
    if "\\" not in literal:
        return literal[1:-1]
    # A printed string may run over a line's end, which a Python literal may not.
    one_line = literal.replace("\r", "\\r").replace("\n", "\\n")
    try:
        return str(ast.literal_eval(one_line))
    except (ValueError, SyntaxError, MemoryError) as fault:
        detail = f"not a printed string: {literal[:60]}"
        raise FieldError("abstract", "missing_field", detail) from fault


READERS = {"default": read, "rationales": partial(read, by_rationale=True)}
