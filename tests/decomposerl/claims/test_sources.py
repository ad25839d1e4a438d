"""What all adapters owe: sound rows come through, bad ones are quarantined alone."""

import pytest

from decomposerl.claims.claim import Draft, Reject
from native_rows import REQUIRED, SOUND, SOURCE, Row, faults, only, read


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_row_gives_one_draft(name: str):
    """Claim, side and place of a sound row come through."""
    index, row = SOUND[name]
    draft = only(read(name, [row], index))
    assert draft.claim in {row.get("claim"), row.get("text"), row.get("QUESTION")}
    assert draft.row == 1
    assert draft.native_label is not None
    assert SOURCE[name].labels.side(draft.native_label) is not None
    assert draft.split == (*SOURCE[name].files, *SOURCE[name].extra)[index].split


@pytest.mark.parametrize(("name", "field"), REQUIRED)
@pytest.mark.parametrize("damage", ["absent", "null", "wrong type"])
def test_a_damaged_field_is_quarantined_and_its_neighbours_stay(name: str, field: str, damage: str):
    """An absent, null or wrong-typed field rejects its row alone, naming the field."""
    index, row = SOUND[name]
    bad = {key: value for key, value in row.items() if key != field}
    if damage != "absent":
        bad[field] = None if damage == "null" else 1.5
    outcomes = read(name, [row, bad], index)
    ((number, named, reason),) = faults(outcomes)
    assert (2, "missing_field") == (number, reason)
    assert field == named.split(".")[0]
    assert 1 == sum(isinstance(one, Draft) for one in outcomes)


@pytest.mark.parametrize("name", SOUND)
def test_an_unreadable_row_passes_through(name: str):
    """What the file reader could not parse is reported once, in its place."""
    index, row = SOUND[name]
    file = (*SOURCE[name].files, *SOURCE[name].extra)[index]
    broken = Reject(file.path, 2, "", "malformed_line", "}")
    outcomes = read(name, [row, broken], index)
    assert outcomes.count(broken) >= 1
    assert [(2, "", "malformed_line")] == sorted(set(faults(outcomes)))


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("feverous", {"evidence": " \n"}, "evidence"),
        ("foolmetwice", {"retrieved_evidence": []}, "retrieved_evidence"),
        ("pubhealth", {"main_text": "  "}, "main_text"),
        (
            "pubhealthtab",
            {"table": {"website": "w", "header_horizontal": [], "rows": [["", ""]]}},
            "table",
        ),
        ("wice", {"evidence": ["", " "]}, "evidence"),
        (
            "scitab",
            {"table_caption": "", "table_column_names": [], "table_content_values": []},
            "table_content_values",
        ),
        ("pubmedclaim", {"CONTEXTS": []}, "CONTEXTS"),
        ("llm_aggrefact", {"doc": "x9 "}, "doc"),
    ],
)
def test_evidence_without_text_is_quarantined(name: str, change: Row, field: str):
    """A field that is there and holds no text is a fault of the file."""
    index, row = SOUND[name]
    assert [(1, field, "empty_evidence")] == faults(read(name, [{**row, **change}], index))
