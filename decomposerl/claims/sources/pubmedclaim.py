"""PubMedClaim: PubMedQA's expert-labelled questions read as claims about an abstract.

Passages are the abstract's sections. The ``QUESTION`` text is the claim, verbatim: the paper does
not say how questions become statements. ``LONG_ANSWER``, the abstract's conclusion, is not used:
it gives the answer away.

The hub's form has the columns in lower case, ``context.contexts`` and the PMID as ``pubid``. Like
the native file it holds the rows of both halves.
"""

from collections.abc import Collection, Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import NativeRow, non_blank, read_each
from decomposerl.claims.source import CorpusFiles, NativeFile

_TRAIN_HALF = "pubmedqa/pqal_train_dev.json"
GROUND_TRUTH = NativeFile("pubmedqa/test_ground_truth.json", "json_object", "test")


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft per question of the file's split, keyed by PMID.

    ``ori_pqal.json`` and the hub's file hold both halves; the official test ids tell them
    apart. Without those ids the file gives one reject and no rows, because training would
    leak the test.
    """
    test_ids = None
    if file.path != _TRAIN_HALF:
        official = list(files.records(GROUND_TRUTH))
        test_ids = {str(one.fields.get("_key")) for one in official if isinstance(one, Record)}
        # A test id that cannot be read could leak.
        if len(test_ids) < max(1, len(official)) and files.exists(file.path):
            detail = f"{GROUND_TRUTH.path}, which names the test rows, is absent, empty or damaged"
            yield Reject(file.path, 0, "", "dangling_reference", detail)
            return
    yield from read_each(files, file, partial(_draft, test_ids))


def _draft(test_ids: Collection[str] | None, row: NativeRow) -> Draft | None:
    """The draft of a row; None where it is of the other half than the file's split says."""
    hub = "pubid" in row.raw
    pmid = row.identifier("pubid" if hub else "_key")
    if test_ids is not None and (pmid in test_ids) != (row.file.split == "test"):
        return None
    contexts = "context.contexts" if hub else "CONTEXTS"
    return row.draft(
        non_blank(row.strings(contexts), contexts),
        native_id=pmid,
        claim=row.text("question" if hub else "QUESTION"),
        native_label=row.text("final_decision"),
        documents=(pmid,),
    )


READERS = {"default": read}
