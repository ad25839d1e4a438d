"""PubMedClaim: PubMedQA's expert-labelled questions read as claims about an abstract.

Passages are the abstract's sections. The ``QUESTION`` text is the claim, verbatim: the paper does
not say how questions become statements. ``LONG_ANSWER``, the abstract's conclusion, is not used:
it gives the answer away.

The hub's form has the columns in lower case, ``context.contexts`` and the PMID as ``pubid``. Like
the native file it holds the rows of both halves.
"""

from collections.abc import Iterator
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
    if file.path == _TRAIN_HALF:
        yield from read_each(files, file, _draft)
        return
    if not files.exists(file.path):
        return
    test_ids = _test_ids(files)
    if not test_ids:
        detail = f"{GROUND_TRUTH.path}, which names the test rows, is absent, empty or damaged"
        yield Reject(file.path, 0, "", "dangling_reference", detail)
        return
    yield from read_each(files, file, partial(_draft_of_split, test_ids))


def _test_ids(files: CorpusFiles) -> frozenset[str]:
    """The official test ids; none where one of them cannot be read, as it could then leak."""
    records = list(files.records(GROUND_TRUTH))
    keys = [one.fields.get("_key") for one in records if isinstance(one, Record)]
    return frozenset(map(str, keys)) if len(keys) == len(records) else frozenset()


def _draft_of_split(test_ids: frozenset[str], row: NativeRow) -> Draft | None:
    in_test = row.identifier(_id_column(row)) in test_ids
    return _draft(row) if in_test == (row.file.split == "test") else None


def _id_column(row: NativeRow) -> str:
    return "pubid" if "pubid" in row.raw else "_key"


def _draft(row: NativeRow) -> Draft:
    pmid = row.identifier(_id_column(row))
    hub = "pubid" in row.raw
    contexts = "context.contexts" if hub else "CONTEXTS"
    return row.draft(
        non_blank(row.strings(contexts), contexts),
        native_id=pmid,
        claim=row.text("question" if hub else "QUESTION"),
        native_label=row.text("final_decision"),
        documents=(pmid,),
    )


READERS = {"default": read}
