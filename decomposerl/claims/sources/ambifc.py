"""AmbiFC: claims from real questions, each annotated against several Wikipedia passages.

The native ``certain`` files have one line a (claim, passage); a draft is one (claim, page,
label): the passages of a page with the same label are joined, because one passage is rarely long
enough to verify from. Passages of a page whose labels differ stay apart, so that no draft holds
evidence for the other side. ``wiki_passage`` is the passage's id in the published files: a line
without sentences is dropped as ``evidence_not_found``. The ``uncertain`` files and sentence labels
are not used. The reading ``passages`` keeps each line as a draft.

The hub's reduced form has ``claim``, ``labels`` and ``passage`` alone: a draft is one (claim,
label) with the passages of all pages, and the claim's text stands for its id and its document.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from decomposerl.claims.claim import Draft, Reject, short_digest
from decomposerl.claims.fields import NativeRow, each_row, non_blank, read_joined
from decomposerl.claims.passages import sentence_passages
from decomposerl.claims.source import CorpusFiles, NativeFile

_PASSAGE_ID = re.compile(r"\S+\.jsonl(?::\d+)+")  # such as newwiki.jsonl:5166:0:0


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a (claim_id, wiki_page, label), in order of first appearance.

    ``row`` is the first line of the group; rejects come first. Passages are sentences.
    """
    return read_joined(files, file, lambda row: _line(row).native_id, _joined)


def _joined(rows: Sequence[NativeRow]) -> Draft:
    first, *more = map(_line, rows)
    joined = dict.fromkeys(text for line in (first, *more) for text in line.passages)
    return replace(first, passages=tuple(joined)) if more else first


def _passage(row: NativeRow) -> Draft:
    line = _line(row)
    return replace(line, native_id=f"{line.native_id}:{line.row}")


def _line(row: NativeRow) -> Draft:
    claim, label = row.text("claim"), row.text("labels.passage")
    if "passage" in row.raw and "wiki_page" not in row.raw:
        name = document = f"claim:{short_digest(claim.strip())}"
        passages = non_blank(sentence_passages(row.text("passage")), "passage")
    else:
        document = row.text("wiki_page")
        name = f"{row.identifier('claim_id')}:{document}"
        passages = _sentences(row)
    return row.draft(
        passages,
        native_id=f"{name}:{label.strip().casefold()}",
        native_label=label,
        documents=(document,),
        no_evidence="evidence_unavailable" if passages else "evidence_not_found",
    )


def _sentences(row: NativeRow) -> tuple[str, ...]:
    """The annotated sentences in index order, else the split passage; none of a passage's id."""
    if row.raw.get("sentences"):
        numbered = row.mapping("sentences")
        order = sorted(numbered.raw, key=lambda index: (len(index), index))
        return non_blank([numbered.text(index) for index in order], "sentences")
    passage = row.text("wiki_passage")
    if _PASSAGE_ID.fullmatch(passage.strip()):
        return ()
    return non_blank(sentence_passages(passage), "wiki_passage")


READERS = {"default": read, "passages": each_row(_passage)}
