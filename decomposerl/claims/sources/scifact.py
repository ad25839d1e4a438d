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
    Drafts,
    JsonObject,
    NativeRow,
    agreed,
    each,
    id_of_rows_with,
    non_blank,
    read_each,
    read_joined,
)
from decomposerl.claims.source import CorpusFiles, FieldError, NativeFile, in_form, with_hub

CORPUS = with_hub(NativeFile("scifact/corpus.jsonl", "jsonl", "train"), "corpus")
PRINTED_CORPUS = NativeFile("scifact/corpus_train.csv", "csv", "train")
NO_EVIDENCE = "NO EVIDENCE"
_HUB_COLUMNS = frozenset({"evidence_doc_id", "evidence_label", "evidence_sentences"})
_CLAIM_ID = id_of_rows_with(_HUB_COLUMNS)

# A string that is not closed runs to the end and is refused there, in linear time.
_PRINTED_STRING = re.compile(
    r"""'(?:[^'\\]++|\\(?:.|\Z))*+(?:'|\Z)|"(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z)""", re.DOTALL
)

Abstracts = Mapping[str, tuple[str, ...]]


def read(
    files: CorpusFiles, file: NativeFile, *, by_rationale: bool = False
) -> Iterator[Draft | Reject]:
    """Drafts of each claim line; an unknown document or sentence number rejects its pair."""
    abstracts, faults = _abstracts(files)
    if file.split == "train":  # one corpus serves all files: its faults once
        yield from faults
    yield from read_joined(files, file, _CLAIM_ID, partial(_drafts, abstracts, by_rationale))


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


def _drafts(abstracts: Abstracts, by_rationale: bool, rows: Sequence[NativeRow]) -> Drafts:  # noqa: FBT001
    row = _native(rows)
    outcomes: list[Draft | Reject] = []
    for document in row.mapping("evidence").raw:
        try:
            outcomes += _of_document(abstracts, row, document, by_rationale=by_rationale)
        except FieldError as fault:
            outcomes.append(fault.reject(row.record))
    if outcomes:
        return outcomes
    cited = [str(document) for document in row.items("cited_doc_ids")]
    lines = (line for document in cited for line in abstracts.get(document, ()))
    passages = tuple(line for line in lines if line.strip())
    names = tuple(dict.fromkeys(cited))
    return (row.draft(passages, native_label=NO_EVIDENCE, documents=names),)


def _of_document(
    abstracts: Abstracts, row: NativeRow, document: str, *, by_rationale: bool
) -> Iterator[Draft]:
    rationales = row.mapping("evidence").objects(document)
    passages, claim = _abstract(abstracts, document, rationales), row.identifier("id")
    labels = sorted({one.text("label") for one in rationales})
    if len(labels) != 1:
        raise FieldError("evidence", "unknown_label", f"no single label: {labels}")
    for number in range(len(rationales) if by_rationale else 1):
        name = f"{claim}:{document}:{number}" if by_rationale else f"{claim}:{document}"
        known = {"native_label": labels[0], "documents": (document,)}
        yield row.draft(passages, native_id=name, **known)


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


def _abstracts(files: CorpusFiles) -> tuple[Abstracts, tuple[Reject, ...]]:
    """Sentences of each abstract by document id, and the rows that could not be read."""
    corpus = in_form(files.exists, CORPUS)
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
    # A printed string may run over a line's end, which a Python literal may not.
    one_line = printed.replace("\r", "\\r").replace("\n", "\\n")
    strings = ",".join(match[0] for match in _PRINTED_STRING.finditer(one_line))
    try:
        if not residue:
            return tuple(ast.literal_eval(f"[{strings}]"))
    except (ValueError, SyntaxError, MemoryError):
        residue = strings
    raise FieldError("abstract", "missing_field", f"not a printed array: {residue[:60]}")


READERS = {"default": read, "rationales": partial(read, by_rationale=True)}
