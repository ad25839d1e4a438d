"""One sound native row of every corpus, invented, and short ways to read rows."""

from collections.abc import Mapping, Sequence

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.claim import Draft, Reject
from decomposerl.claims.source import NativeFile
from fakes import MemoryCorpora, MemoryPages

Row = Mapping[str, object]


SOURCE = {one.name: one for one in SOURCES}


BENCHMARK = {one.name: one for one in BENCHMARKS}


def read(
    name: str,
    rows: Sequence[Row | Reject],
    index: int = 0,
    beside: Mapping[str, Sequence[Row | Reject]] | None = None,
    databases: Mapping[str, MemoryPages] | None = None,
) -> list[Draft | Reject]:
    """What the reader of a source gives for ``rows`` in its ``index``-th file."""
    source = SOURCE[name]
    file = (*source.files, *source.extra)[index]
    return list(
        source.read(MemoryCorpora({**(beside or {}), file.path: rows}, databases or {}), file)
    )


def bench(
    name: str, index: int, row: Row, databases: Mapping[str, MemoryPages] | None = None
) -> list[Draft | Reject]:
    """What a benchmark's reader gives for one row of its ``index``-th file."""
    one = BENCHMARK[name]
    file: NativeFile = one.files[index]
    return list(one.read(MemoryCorpora({file.path: [row]}, databases or {}), file))


def only(outcomes: Sequence[Draft | Reject]) -> Draft:
    """The one draft of an outcome without rejects."""
    (draft,) = outcomes
    assert isinstance(draft, Draft), draft
    return draft


def faults(outcomes: Sequence[Draft | Reject]) -> list[tuple[int, str, str]]:
    """Row, field and reason of the rejects."""
    return [(one.row, one.field, one.reason) for one in outcomes if isinstance(one, Reject)]


SOUND: dict[str, tuple[int, Row]] = {
    "ex_fever": (
        0,
        {
            "claim": "Orla met Bram.",
            "explanation": "So.",
            "label": "SUPPORT",
            "golden entity": "['Orla_Venn', 'Bram']",
        },
    ),
    "llm_aggrefact": (
        0,
        {
            "dataset": "Part",
            "doc": "One. Two.",
            "claim": "C.",
            "label": 1,
            "contamination_identifier": "x9",
        },
    ),
    "feverous": (
        2,
        {
            "id": 7,
            "claim": "C.",
            "label": "supports",
            "evidence": "Orla Venn\tShe met [[Bram_Oy|Bram]].",
        },
    ),
    "hover": (
        1,
        {
            "uid": "u1",
            "claim": "C.",
            "supporting_facts": [["Orla", 0]],
            "label": "SUPPORTED",
            "num_hops": 2,
        },
    ),
    "foolmetwice": (
        0,
        {
            "id": "f1",
            "text": "C.",
            "label": "REFUTES",
            "wikipedia_page": "Orla",
            "retrieved_evidence": [{"section_header": "s", "text": "One."}, {"text": "Two."}],
        },
    ),
    "faviq_a": (
        0,
        {
            "id": "q1",
            "claim": "c",
            "label": "SUPPORTS",
            "positive_evidence": {"id": "1", "title": "Orla", "text": "One."},
            "negative_evidence": {"id": "2", "title": "Bram", "text": "Two."},
        },
    ),
    "pubhealth": (
        0,
        {"claim_id": "9", "claim": "C.", "main_text": "One. Two!  Three?", "label": "True"},
    ),
    "ambifc": (
        0,
        {
            "claim": "C.",
            "claim_id": "a1",
            "wiki_page": "Orla",
            "wiki_passage": "One. Two.",
            "labels": {"method": "m", "passage": "supporting"},
            "sentences": {},
        },
    ),
    "pubhealthtab": (
        0,
        {
            "_id": "t1",
            "claim": "C.",
            "label": "SUPPORTS",
            "table": {
                "website": "https://example.org/t",
                "caption": None,
                "header_horizontal": ["", "n"],
                "rows": [["a", "1"], ["b", None]],
            },
        },
    ),
    "wice": (
        0,
        {"claim": "C.", "label": "supported", "evidence": ["One.", "Two."], "meta": {"id": "dev1"}},
    ),
    "scifact": (
        0,
        {
            "id": 5,
            "claim": "C.",
            "evidence": {"31": [{"sentences": [1], "label": "SUPPORT"}]},
            "cited_doc_ids": [31],
        },
    ),
    "scitab": (
        0,
        {
            "id": "s1",
            "claim": "C.",
            "label": "refutes",
            "paper_id": "p",
            "table_caption": "Cap",
            "table_column_names": ["m", "F1"],
            "table_content_values": [["a", "[BOLD] 1"]],
        },
    ),
    "claimdecomp": (
        0,
        {
            "example_id": "e1",
            "claim": "C.",
            "label": "half-true",
            "justification": ["Two."],
            "full_article": ["One.", "Two."],
        },
    ),
    "pubmedclaim": (
        1,
        {
            "_key": "123",
            "QUESTION": "Is it?",
            "CONTEXTS": ["One.", "Two."],
            "LONG_ANSWER": "Yes.",
            "final_decision": "yes",
        },
    ),
}


REQUIRED = [
    (name, field)
    for name, (_, row) in SOUND.items()
    for field in row
    if field
    not in {
        "explanation",
        "contamination_identifier",
        "num_hops",
        "positive_evidence",
        "negative_evidence",
        "cited_doc_ids",
        "sentences",
        "justification",
        "full_article",
        "table_caption",
        "LONG_ANSWER",
    }
]
