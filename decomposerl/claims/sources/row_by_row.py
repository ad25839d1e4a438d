"""The corpora whose every row is one draft, with its evidence in the row or in a page: a function.

What gives a verdict away (explanations, long answers, rationales) is never evidence.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath

from decomposerl.claims.claim import Draft, Record, Reject, short_digest
from decomposerl.claims.fields import (
    JsonObject,
    NativeRow,
    each_row,
    each_row_with,
    non_blank,
    read_each,
)
from decomposerl.claims.generic import listed
from decomposerl.claims.passages import page_passages, page_titles, sentence_passages
from decomposerl.claims.source import CorpusFiles, FieldError, NativeFile, Pages, Reader

GOLDEN_PAGES = "ex_fever/pages.db"
PUBMED_TEST_IDS = NativeFile("pubmedqa/test_ground_truth.json", "json_object", "test")
_PUBMED_TRAIN_HALF = "pubmedqa/pqal_train_dev.json"
_FAVIQ_EVIDENCE = ("positive_evidence", "negative_evidence")
_NOT_FOUND = "n/a"
_HEALTH_CLASSES = ("false", "mixture", "true", "unproven")


def claimdecomp(row: NativeRow) -> Draft:
    """Evidence is the justification and the full article where the download has them.

    It may state the rating in words: evaluation reports with and without those sentences. The
    document is the article's address, else the example's id.
    """
    paragraphs = row.optional("justification", row.strings) or ()
    paragraphs += row.optional("full_article", row.strings) or ()
    native_id = row.identifier("example_id")
    return row.draft(
        # The justification is often a part of the article: a paragraph counts once.
        tuple(text for text in dict.fromkeys(paragraphs) if text.strip()),
        native_id=native_id,
        documents=(row.optional("url", row.text) or native_id,),
    )


def coverbench(row: NativeRow) -> Draft:
    """Passages are the lines of the context, cut into sentences."""
    return row.draft(
        non_blank(sentence_passages(row.text("context")), "context"),
        native_id=f"{row.file.split}-{row.record.row}",  # not every form may have an id
        native_label="true" if row.boolean("label") else "false",
    )


def ex_fever(pages: Pages | None, row: NativeRow) -> Draft:
    """A passage is a golden page; without the page database there are none.

    ``golden entity`` is a printed Python list of page names. ``explanation`` is not used: it states
    the verdict in words and would leak the label as evidence.
    """
    field = "golden entity"
    names = listed(row.text(field).strip())
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FieldError(field, "missing_field", "not a printed list")
    # The corpus has no id. The file's stem keeps mini_test from taking the ids of test.
    return row.draft(
        page_passages(pages, dict.fromkeys(names)),
        native_id=f"{PurePosixPath(row.file.path).stem}-{row.record.row}",
        documents=page_titles(names),
    )


def faviq_a(row: NativeRow, evidence: Sequence[str] = _FAVIQ_EVIDENCE) -> Draft:
    """Passages are the positive one, then the negative one, which lacks the answer.

    A verifier meets both as it would after retrieval. The authors write ``N/A`` for a passage that
    their search did not find: it is none, and a row whose positive one is such is dropped as
    ``evidence_not_found``, since no passage of it holds the answer. Documents are their titles.
    """
    if not any(name in row.raw for name in _FAVIQ_EVIDENCE):
        raise FieldError(_FAVIQ_EVIDENCE[0], "missing_field", "neither evidence field is there")
    found: dict[str, list[JsonObject]] = {}
    for name in filter(row.raw.get, evidence):
        single = isinstance(row.raw[name], Mapping)  # one passage object, or a list of them
        given = (row.mapping(name),) if single else row.objects(name)
        found[name] = [one for one in given if one.text("text").strip().casefold() != _NOT_FOUND]
    passages = [passage for name in found for passage in found[name]]
    titles = (passage.optional("title", passage.text) for passage in passages)
    documents = tuple(dict.fromkeys(title for title in titles if title))
    lost = [name for name in found if not found[name]]
    if _FAVIQ_EVIDENCE[0] in lost or (lost and not passages):
        return row.draft((), documents=documents, no_evidence="evidence_not_found")
    return row.draft(tuple(passage.text("text") for passage in passages), documents=documents)


def foolmetwice(row: NativeRow) -> Draft:
    """Passages are the retrieved sentences, which contain every gold one.

    With ``gold_evidence`` alone, one or two sentences, no row could reach the funnel's least
    number of passages.
    """
    retrieved = [sentence.text("text") for sentence in row.objects("retrieved_evidence")]
    return row.draft(
        non_blank(retrieved, "retrieved_evidence"),
        claim=row.text("text"),
        documents=(row.text("wikipedia_page"),),
    )


def llm_aggrefact(row: NativeRow) -> Draft:
    """``subset`` is the part's name; the corpus has no id.

    The contamination identifier on every row is cut out of the texts: it marks leaked test data
    and is no evidence.
    """
    mark = (row.optional("contamination_identifier", row.text) or "").strip()
    texts = [row.text("doc"), row.text("claim")]
    document, claim = (text.replace(mark, "").strip() if mark else text for text in texts)
    return row.draft(
        non_blank(sentence_passages(document), "doc"),
        native_id=f"{row.file.split}-{row.record.row}",
        claim=claim,
        native_label=str(row.integer("label")),
        subset=row.text("dataset"),
    )


def pubhealth(row: NativeRow) -> Draft:
    """Passages are the sentences of ``main_text``; the hub's form numbers the labels.

    Labels come in any letter case; an empty one and the hub loader's ``-1`` are unknown labels.
    """
    article = row.text("main_text")
    return row.draft(
        non_blank(sentence_passages(article), "main_text"),
        native_id=row.identifier("claim_id"),
        native_label=row.class_label("label", _HEALTH_CLASSES),
        # Claims about one article belong together, and the excerpt carries no address.
        documents=(f"article:{short_digest(article.strip())}",),
    )


def pubhealthtab(row: NativeRow) -> Draft:
    """Passages are the caption, the horizontal header and the rows of the table.

    ``header_vertical`` repeats the first cells and ``html_code`` is damaged in places.
    """
    paths = ("table.caption", "table.header_horizontal", "table.rows")
    return row.table_draft(paths, native_id="_id", document="table.website", table="table")


def scitab(row: NativeRow) -> Draft:
    """Passages are the caption, the column names and the rows; the document is the paper.

    Cell marks such as ``[BOLD]`` are kept: they say which result a paper stresses.
    """
    rows = "table_content_values"
    paths = ("table_caption", "table_column_names", rows)
    return row.table_draft(paths, native_id="id", document="paper_id", table=rows)


def pubmedclaim(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """PubMedQA's expert-labelled questions read as claims about an abstract, keyed by PMID.

    ``ori_pqal.json`` and the hub's file hold both halves; the official test ids tell them
    apart. Without those ids the file gives one reject and no rows, because training would
    leak the test.
    """
    test_ids = None
    if file.path != _PUBMED_TRAIN_HALF:
        official = list(files.records(PUBMED_TEST_IDS))
        test_ids = {str(one.fields.get("_key")) for one in official if isinstance(one, Record)}
        # A test id that cannot be read could leak.
        if len(test_ids) < max(1, len(official)) and files.exists(file.path):
            what = f"{PUBMED_TEST_IDS.path}, which names the test rows, is absent, empty or damaged"
            yield Reject(file.path, 0, "", "dangling_reference", what)
            return
    yield from read_each(files, file, partial(_question, test_ids))


def _question(test_ids: Collection[str] | None, row: NativeRow) -> Draft | None:
    """The draft of a row; None where it is of the other half than the file's split says.

    Passages are the abstract's sections. The question is the claim, verbatim: the paper does not
    say how questions become statements. ``LONG_ANSWER``, the abstract's conclusion, is not used: it
    gives the answer away.
    """
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


def wice(row: NativeRow) -> Draft:
    """Passages are the sentences of the web page; ``subset`` tells claims and sub-claims apart."""
    native_id = row.identifier("meta.id")
    return row.draft(
        non_blank(row.strings("evidence"), "evidence"),
        native_id=native_id,
        # The id before its sub-claim suffix: a claim and its sub-claims cite the same page.
        documents=(native_id.split("-", 1)[0],),
    )


_CORPORA = (
    *(claimdecomp, coverbench, foolmetwice, llm_aggrefact),
    *(pubhealth, pubhealthtab, scitab, wice),
)
READERS: Mapping[str, Mapping[str, Reader]] = {
    "ex_fever": {"default": each_row_with(GOLDEN_PAGES, ex_fever)},
    "faviq_a": {
        "default": each_row(faviq_a),
        "positive": each_row(partial(faviq_a, evidence=_FAVIQ_EVIDENCE[:1])),
    },
    "pubmedclaim": {"default": pubmedclaim},
    **{draft.__name__: {"default": each_row(draft)} for draft in _CORPORA},
}
"""By the corpus's name, then by its reading."""
