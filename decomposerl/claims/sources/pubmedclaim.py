"""PubMedClaim: PubMedQA's expert-labelled questions read as claims about an abstract.

Takes the native JSON object from PMID to row, gives one draft a row; passages are the
abstract's sections. The ``QUESTION`` text is the claim, verbatim: the paper does not say
how questions become statements, and any rewriting would be ours.

Left out deliberately: ``LONG_ANSWER``, the abstract's conclusion, which gives the answer
away.
"""

from collections.abc import Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import held, identifier, read_each, strings, text
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.source import CorpusFiles, NativeFile, Source

ALL_ROWS = "pubmedqa/ori_pqal.json"
TRAIN_HALF = NativeFile("pubmedqa/pqal_train_dev.json", "json_object", "train")
GROUND_TRUTH = NativeFile("pubmedqa/test_ground_truth.json", "json_object", "test")


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a question of the file's split, keyed by PMID.

    ``ori_pqal.json`` holds both halves; the official test ids tell them apart. Without
    those ids the file gives one reject and no rows, because training would leak the test.
    """
    if file.path != ALL_ROWS:
        yield from read_each(files, file, partial(_draft, file))
        return
    if not files.exists(file.path):
        return
    test_ids = _test_ids(files)
    if not test_ids:
        detail = f"{GROUND_TRUTH.path}, which names the test rows, is absent, empty or damaged"
        yield Reject(file.path, 0, "", "dangling_reference", detail)
        return
    yield from read_each(files, file, partial(_draft_of_split, file, test_ids))


def _test_ids(files: CorpusFiles) -> frozenset[str]:
    """The official test ids; none where one of them cannot be read, as it could then leak."""
    records = list(files.records(GROUND_TRUTH))
    keys = [one.fields.get("_key") for one in records if isinstance(one, Record)]
    return frozenset(map(str, keys)) if len(keys) == len(records) else frozenset()


def _draft_of_split(file: NativeFile, test_ids: frozenset[str], record: Record) -> Draft | None:
    in_test = identifier(record.fields, "_key") in test_ids
    return _draft(file, record) if in_test == (file.split == "test") else None


def _draft(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    pmid = identifier(row, "_key")
    return Draft(
        file=record.file,
        row=record.row,
        native_id=pmid,
        split=file.split,
        claim=text(row, "QUESTION"),
        passages=held(strings(row, "CONTEXTS"), "CONTEXTS"),
        native_label=text(row, "final_decision"),
        documents=(pmid,),
    )


PUBMEDCLAIM = Source(
    name="pubmedclaim",
    title="PubMedClaim",
    domain="Biomedical",
    homepage="https://github.com/pubmedqa/pubmedqa",
    license="MIT (repository); abstracts belong to their publishers",
    terms="Open.",
    labels=LabelMap.of(supported="yes", refuted="no", middle="maybe"),
    files=(
        NativeFile(ALL_ROWS, "json_object", "train"),
        TRAIN_HALF,
    ),
    read=read,
    paper_raw=445,
)
