"""SciFact: scientific claims with abstracts that support or contradict them.

Takes the native claim lines and the abstracts, either ``corpus.jsonl`` or a CSV that
printed each abstract as a NumPy array of strings. Gives one draft for each (claim,
evidence document), whose passages are the abstract's sentences, and one middle draft for
a claim without evidence, whose passages are the abstracts that it cites.

Left out deliberately: rationale sentences as evidence. They are where the answer stands;
their numbers are only checked.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import (
    FieldError,
    Fields,
    held,
    identifier,
    items,
    mapping,
    objects,
    read_many,
    strings,
    text,
)
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.source import CorpusFiles, NativeFile, Source

CORPUS = NativeFile("scifact/corpus.jsonl", "jsonl", "train")
PRINTED_CORPUS = NativeFile("scifact/corpus_train.csv", "csv", "train")
NO_EVIDENCE = "NO EVIDENCE"

# A string that is not closed runs to the end and is refused there, in linear time.
_PRINTED_STRING = re.compile(
    r"""'(?:[^'\\]++|\\(?:.|\Z))*+(?:'|\Z)|"(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z)""", re.DOTALL
)

Abstracts = Mapping[str, tuple[str, ...]]


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """Drafts of each claim line; an unknown document or sentence number rejects its pair."""
    abstracts, faults = _abstracts(files)
    if file.split == "train":  # one corpus serves all files: its faults once
        yield from faults
    yield from read_many(files, file, partial(_drafts, file, abstracts))


def _drafts(file: NativeFile, abstracts: Abstracts, record: Record) -> Sequence[Draft | Reject]:
    evidence = mapping(record.fields, "evidence")
    if not evidence:
        return (_without_evidence(file, abstracts, record),)
    return [_pair(file, abstracts, record, document) for document in evidence]


def _without_evidence(file: NativeFile, abstracts: Abstracts, record: Record) -> Draft:
    row = record.fields
    cited = [str(document) for document in items(row, "cited_doc_ids")]
    return Draft(
        file=record.file,
        row=record.row,
        native_id=identifier(row, "id"),
        split=file.split,
        claim=text(row, "claim"),
        passages=_cited(abstracts, cited),
        native_label=NO_EVIDENCE,
        documents=tuple(dict.fromkeys(cited)),
    )


def _cited(abstracts: Abstracts, documents: Sequence[str]) -> tuple[str, ...]:
    lines = (line for document in documents for line in abstracts.get(document, ()))
    return tuple(line for line in lines if line.strip())


def _pair(file: NativeFile, abstracts: Abstracts, record: Record, document: str) -> Draft | Reject:
    row = record.fields
    try:
        rationales = objects(mapping(row, "evidence"), document)
        return Draft(
            file=record.file,
            row=record.row,
            native_id=f"{identifier(row, 'id')}:{document}",
            split=file.split,
            claim=text(row, "claim"),
            passages=_abstract(abstracts, document, rationales),
            native_label=_label(rationales),
            documents=(document,),
        )
    except FieldError as fault:
        return fault.reject(record)


def _abstract(abstracts: Abstracts, document: str, rationales: Sequence[Fields]) -> tuple[str, ...]:
    if not abstracts:
        return ()  # no corpus on this machine: no fault of the claim
    if document not in abstracts:
        raise FieldError("evidence", "dangling_reference", f"no abstract {document}")
    found = abstracts[document]
    for index in (index for one in rationales for index in items(one, "sentences")):
        if type(index) is not int or not 0 <= index < len(found):
            detail = f"abstract {document} has {len(found)} sentences, not number {index!r}"
            raise FieldError("evidence", "dangling_reference", detail[:100])
    return held(found, "evidence")


def _label(rationales: Sequence[Fields]) -> str:
    labels = sorted({text(one, "label") for one in rationales})
    if len(labels) != 1:
        raise FieldError("evidence", "unknown_label", f"no single label: {labels}")
    return labels[0]


def _abstracts(files: CorpusFiles) -> tuple[Abstracts, tuple[Reject, ...]]:
    """Sentences of each abstract by document id, and the rows that could not be read."""
    corpus = CORPUS if files.exists(CORPUS.path) else PRINTED_CORPUS
    sentences_of = _listed if corpus is CORPUS else _printed
    drafts = list(read_many(files, corpus, lambda record: (_entry(record, sentences_of(record)),)))
    found = {one.native_id: one.passages for one in drafts if isinstance(one, Draft)}
    return found, tuple(one for one in drafts if isinstance(one, Reject))


def _entry(record: Record, sentences: tuple[str, ...]) -> Draft:
    held(sentences, "abstract")  # blank sentences stay: rationales count them
    document = identifier(record.fields, "doc_id")
    return Draft(record.file, record.row, document, "train", "", sentences, None)


def _listed(record: Record) -> tuple[str, ...]:
    return strings(record.fields, "abstract")


def _printed(record: Record) -> tuple[str, ...]:
    """The strings of a printed NumPy array, which white space separates, not commas."""
    printed = text(record.fields, "abstract")
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


SCIFACT = Source(
    name="scifact",
    title="SciFact",
    domain="Biomedical",
    homepage="https://github.com/allenai/scifact",
    license="CC BY 4.0 (claims); ODC-By 1.0 (abstracts)",
    terms="Open.",
    labels=LabelMap.of(supported="SUPPORT", refuted="CONTRADICT", middle=NO_EVIDENCE),
    files=(
        NativeFile("scifact/claims_train.jsonl", "jsonl", "train"),
        NativeFile("scifact/claims_dev.jsonl", "jsonl", "dev"),
    ),
    read=read,
    paper_raw=1_295,
)
