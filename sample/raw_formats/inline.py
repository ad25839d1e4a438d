"""Native files of the corpora whose rows include the evidence text.

FoolMeTwice, FaviQ-A, AmbiFC, WiCE, PubHealth, ClaimDecomp, SciFact, PubMedQA,
LLM-AggreFact and CoverBench.
"""

import io
from collections.abc import Mapping, Sequence

import polars as pl

from sample.banks import listed
from sample.planting import SampleClaim
from sample.raw_formats.writing import (
    Row,
    Written,
    broken_lines,
    delimited,
    json_document,
    json_lines,
    label,
    number,
    sentences,
    uuid,
    without_missing,
)

_FEVER = {"Supported": "SUPPORTS", "Refuted": "REFUTES"}
Split = Mapping[str, Sequence[SampleClaim]]


def foolmetwice(splits: Split) -> Written:
    """``foolmetwice/<split>.jsonl``: one sentence per evidence item."""
    out = Written()
    for split, cases in splits.items():
        rows = [_fool_row(case) for case in cases]
        out.files[f"foolmetwice/{split}.jsonl"] = json_lines(rows, broken_lines(cases))
        out.ids |= {case.uid: case.uid for case in cases}
    return out


def _fool_row(case: SampleClaim) -> Row:
    items = [
        {"section_header": page.title, "text": sentence}
        for page in case.pages
        for sentence in page.sentences
    ]
    return {
        "category": ("History", "Science", "Popular Culture")[number(case, 3) % 3],
        "correct_votes": number(case, 2) % 5,
        "gold_evidence": items[:2],
        "id": case.uid,
        "label": label(case, _FEVER),
        "retrieved_evidence": items,
        "text": case.claim,
        "total_likes": 0,
        "total_votes": 5,
        "wikipedia_page": case.pages[0].title,
    }


def faviq_a(splits: Split) -> Written:
    """``faviq/<split>.jsonl``: a positive and a negative passage.

    Claims keep their capitals, unlike the published file, because otherwise names could not be
    recognised.
    """
    out = Written()
    for split, cases in splits.items():
        rows = [_faviq_row(case) for case in cases]
        out.files[f"faviq/{split}.jsonl"] = json_lines(rows)
        out.ids |= {case.uid: str(number(case, 12)) for case in cases}
    return out


def _faviq_row(case: SampleClaim) -> Row:
    *first, last = case.pages
    parts = (first or [last], [last] if first else [])
    evidence = [
        {
            "id": str(number(case, 9) + index),
            "title": pages[0].title,
            "text": " ".join(text for page in pages for text in page.sentences),
        }
        if pages
        else {}
        for index, pages in enumerate(parts)
    ]
    row: Row = {
        "id": str(number(case, 12)),
        "claim": case.claim,
        "label": label(case, _FEVER),
        "positive_evidence": evidence[0],
        "negative_evidence": evidence[1],
    }
    return without_missing(case, row, "claim")


def ambifc(splits: Split) -> Written:
    """``ambifc/<split>.certain.jsonl``: one passage per claim."""
    out = Written()
    names = {"Supported": "supporting", "Refuted": "refuting", "middle": "neutral"}
    for split, cases in splits.items():
        rows = [_ambifc_row(case, label(case, names)) for case in cases]
        out.files[f"ambifc/{split}.certain.jsonl"] = json_lines(rows)
        for case in cases:
            out.ids[case.uid] = f"{number(case, 9)}:{case.pages[0].title}:{names[case.label]}"
    return out


def _ambifc_row(case: SampleClaim, native: str) -> Row:
    passage = sentences(case)
    row: Row = {
        "claim": case.claim,
        "claim_id": number(case, 9),
        "wiki_page": case.pages[0].title,
        "wiki_section": "Introduction",
        "wiki_passage": " ".join(passage),
        "entity": case.pages[0].title,
        "section": "Introduction",
        "category": "certain",
        "labels": {"method": "majority", "passage": native},
        "passage_annotations": [],
        "sentences": {str(index): text for index, text in enumerate(passage)},
        "sentence_annotations": {},
    }
    return without_missing(case, row, "claim")


def wice(splits: Split) -> Written:
    """``wice/claim/<split>.jsonl``: web-page sentences under a metadata line."""
    out = Written()
    names = {
        "Supported": "supported",
        "Refuted": "not_supported",
        "middle": "partially_supported",
    }
    for split, cases in splits.items():
        rows: list[Row] = [
            {
                "label": label(case, names),
                "supporting_sentences": [[1]],
                "claim": case.claim,
                "evidence": sentences(case),
                "meta": {"id": f"{split}{number(case, 6):06d}", "claim_title": case.pages[0].title},
            }
            for case in cases
        ]
        out.files[f"wice/claim/{split}.jsonl"] = json_lines(rows)
        out.ids |= {case.uid: f"{split}{number(case, 6):06d}" for case in cases}
    return out


def pubhealth(splits: Split) -> Written:
    """``pubhealth/<split>.tsv``: one article per claim."""
    out = Written()
    names = {"Supported": "true", "Refuted": "false"}
    header = ("claim_id", "claim", "date_published", "explanation", "fact_checkers", "main_text")
    for split, cases in splits.items():
        rows = []
        for case in cases:
            middle = ("mixture", "unproven")[number(case, 3) % 2]
            native = label(case, {**names, "middle": middle})
            text = " ".join(sentences(case))
            row = [number(case, 6), case.claim, "", case.pages[0].sentences[0], "", text]
            rows.append([*row, "", native, "Health"])
        path = f"pubhealth/{split}.tsv"
        out.files[path] = delimited((*header, "sources", "label", "subjects"), rows, "\t")
        out.ids |= {case.uid: str(number(case, 6)) for case in cases}
    return out


def claimdecomp(splits: Split) -> Written:
    """``claimdecomp/<split>.jsonl``: an article and its closing paragraphs."""
    out = Written()
    for split, cases in splits.items():
        rows = []
        for case in cases:
            false = ("pants-fire", "false", "barely-true")[number(case, 3) % 3]
            names = {"Supported": "true", "Refuted": false, "middle": "half-true"}
            paragraphs = [" ".join(page.sentences) for page in case.pages]
            row: Row = {
                "example_id": str(number(case, 10)),
                "claim": case.claim,
                "label": label(case, names),
                "person": case.pages[0].title,
                "venue": "a speech",
                "url": f"https://example.org/{case.uid}",
                "justification": paragraphs[:1],
                "full_article": paragraphs,
                "annotations": [],
            }
            rows.append(row)
        out.files[f"claimdecomp/{split}.jsonl"] = json_lines(rows)
        out.ids |= {case.uid: str(number(case, 10)) for case in cases}
    return out


def scifact(splits: Split) -> Written:
    """``scifact/claims_<split>.jsonl`` and ``corpus.jsonl``: one abstract per claim."""
    out = Written()
    names = {"Supported": "SUPPORT", "Refuted": "CONTRADICT"}
    abstracts: list[Row] = []
    for split, cases in splits.items():
        rows = []
        for case in cases:
            document, native = number(case, 8), number(case, 7)
            middle = case.label == "middle"
            found = [] if middle else [{"sentences": [0], "label": label(case, names)}]
            evidence = {} if middle else {str(document): found}
            row: Row = {"id": native, "claim": case.claim, "evidence": evidence}
            rows.append(row | {"cited_doc_ids": [document]})
            out.ids[case.uid] = str(native) if middle else f"{native}:{document}"
            abstract: Row = {"doc_id": document, "title": case.pages[0].title}
            abstracts.append(abstract | {"abstract": sentences(case), "structured": False})
        out.files[f"scifact/claims_{split}.jsonl"] = json_lines(rows)
    abstracts.sort(key=lambda row: str(row["doc_id"]))
    out.files["scifact/corpus.jsonl"] = json_lines(abstracts)
    return out


def pubmedqa(train: Sequence[SampleClaim], test: Sequence[SampleClaim]) -> Written:
    """``pubmedqa/ori_pqal.json`` with both halves and the ids of the test half."""
    out = Written()
    names = {"Supported": "yes", "Refuted": "no", "middle": "maybe"}
    rows: Row = {}
    for case in sorted((*train, *test), key=uuid):
        pmid = str(number(case, 8))
        out.ids[case.uid] = pmid
        rows[pmid] = {
            "QUESTION": case.claim,
            "CONTEXTS": [" ".join(page.sentences) for page in case.pages],
            "LABELS": ["BACKGROUND" for _ in case.pages],
            "MESHES": [],
            "YEAR": "2016",
            "final_decision": label(case, names),
            "LONG_ANSWER": case.pages[0].sentences[0],
        }
    out.files["pubmedqa/ori_pqal.json"] = json_document(rows)
    truth = {out.ids[case.uid]: label(case, names) for case in test}
    out.files["pubmedqa/test_ground_truth.json"] = json_document(dict(sorted(truth.items())))
    return out


_PARTS = listed(
    "AggreFact-CNN AggreFact-XSum TofuEval-MediaS TofuEval-MeetB Wice Reveal ClaimVerify "
    "FactCheck-GPT ExpertQA Lfqa RAGTruth"
)


def llm_aggrefact(splits: Split) -> Written:
    """``llm_aggrefact/<split>.parquet`` with the eleven parts."""
    out = Written()
    for split, cases in splits.items():
        frame = pl.DataFrame(
            {
                "dataset": [_PARTS[index % len(_PARTS)] for index in range(len(cases))],
                "doc": [" ".join(sentences(case)) for case in cases],
                "claim": [case.claim for case in cases],
                "label": [int(case.label == "Supported") for case in cases],
                "contamination_identifier": [(case.uid * 4)[:64] for case in cases],
            }
        )
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        out.files[f"llm_aggrefact/{split}.parquet"] = buffer.getvalue()
        out.ids |= {case.uid: f"{split}-{index}" for index, case in enumerate(cases, start=1)}
    return out


def coverbench(test: Sequence[SampleClaim]) -> Written:
    """``coverbench/eval.json``: context, claim and a boolean label."""
    rows = [
        {
            "context": "\n".join(sentences(case)),
            "claim": case.claim,
            "label": case.label == "Supported",
        }
        for case in test
    ]
    ids = {case.uid: f"test-{index}" for index, case in enumerate(test, start=1)}
    return Written({"coverbench/eval.json": json_document(rows)}, ids)
