"""Native files of the two table corpora, SciTab and PubHealthTab."""

from collections.abc import Mapping, Sequence

from sample.planting import SampleClaim
from sample.raw_formats.writing import (
    Row,
    Written,
    json_document,
    json_lines,
    label,
    number,
    uuid,
)
from sample.tables import InventedTable


def scitab(cases: Sequence[SampleClaim]) -> Written:
    """``scitab/sci_tab.json``: one array without splits."""
    names = {"Supported": "supports", "Refuted": "refutes", "middle": "not enough info"}
    rows = []
    for case in cases:
        table = _table(case)
        paper = f"{number(case, 4):04d}.{number(case, 9) % 100_000:05d}v1"
        row: Row = {
            "paper": table.caption.partition(":")[2].strip(),
            "paper_id": paper,
            "table_caption": table.caption,
            "table_column_names": list(table.header),
            "table_content_values": [list(cells) for cells in table.rows],
            "id": uuid(case),
            "claim": case.claim,
            "label": label(case, names),
            "table_id": case.uid,
        }
        rows.append(row)
    return Written({"scitab/sci_tab.json": json_document(rows)}, {c.uid: uuid(c) for c in cases})


def pubhealthtab(splits: Mapping[str, Sequence[SampleClaim]]) -> Written:
    """``pubhealthtab/pubhealthtab_trainset.jsonl`` and ``…_evalset.jsonl``."""
    names = {"Supported": "SUPPORTS", "Refuted": "REFUTES", "middle": "NOT ENOUGH INFO"}
    out = Written()
    for split, stem in (("train", "trainset"), ("dev", "evalset")):
        rows = []
        for case in splits[split]:
            table = _table(case)
            row: Row = {
                "_id": uuid(case),
                "claim": case.claim,
                "label": label(case, names),
                "header_rationale": [1],
                "table": _native_table(case, table),
                "initial_claim": case.claim,
            }
            rows.append(row)
        out.files[f"pubhealthtab/pubhealthtab_{stem}.jsonl"] = json_lines(rows)
        out.ids |= {case.uid: uuid(case) for case in splits[split]}
    return out


def _native_table(case: SampleClaim, table: InventedTable) -> Row:
    return {
        "website": f"https://example.org/tables/{case.uid}",
        "website_title": table.caption,
        "caption": table.caption,
        "header_horizontal": list(table.header),
        "header_vertical": [],
        "rows": [list(cells) for cells in table.rows],
        "html_code": "",
    }


def _table(case: SampleClaim) -> InventedTable:
    if case.table is None:
        raise ValueError(f"case '{case.uid}' of a table corpus has no table")
    return case.table
