"""``group_by`` in a source.toml: evidence lines of one claim become its passages."""

import json
from pathlib import Path

import pytest

from bridge_corpus import Rows, write_jsonl
from corpora_parts import LENIENT, assert_conserved
from decomposerl.claims.claim import LabelRule
from decomposerl.claims.generic import parse_source_toml
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_source
from decomposerl.errors import ConfigError
from resources.corpora.folder import FolderCorpora

TOML = """
[source]
name = "lines"
title = "Lines"
[files]
train = ["lines/a.jsonl"]
[columns]
claim = "claim"
evidence = "line"
label = "label"
document = "page"
[evidence]
group_by = "claim_id"
[labels]
supported = ["yes"]
refuted = ["no"]
middle = ["maybe"]
drop = ["spam"]
"""


def line(
    claim_id: object, text: object, label: object = "yes", **more: object
) -> dict[str, object]:
    row = {"claim_id": claim_id, "claim": f"C{claim_id}.", "line": text, "label": label}
    return {**row, "page": f"P{text}", **more}


def load(
    root: Path, rows: Rows, toml: str = TOML, settings: LoadSettings = LENIENT
) -> LoadedClaims:
    (root / "lines").mkdir(exist_ok=True)
    write_jsonl(root / "lines/a.jsonl", rows)
    return load_source(parse_source_toml(toml, "x.toml"), None, FolderCorpora(root), settings)


def test_lines_of_a_claim_are_its_passages_in_order(tmp_path: Path):
    """Lines may lie apart; a repeated line counts once; the group's value is the id."""
    rows = [line(1, "b"), line(2, "x", "no"), line(1, "a"), line(1, "b"), line(2, "w", "NO ")]
    loaded = load(tmp_path, rows)
    found = loaded.claims.select("native_id", "claim", "passages", "label", "document_id").rows()
    assert [
        ("1", "C1.", ["b", "a"], "Supported", "Pb | Pa"),
        ("2", "C2.", ["x", "w"], "Refuted", "Px | Pw"),
    ] == found
    assert (2, 0) == (loaded.rows_read, loaded.rejects.height)


@pytest.mark.parametrize(
    ("second", "field", "reason", "detail"),
    [
        (line(1, "b", "no"), "label", "conflicting_rows", "row 1: 'yes'; row 2: 'no'"),
        (line(1, "b", "spam"), "label", "conflicting_rows", "row 1: 'yes'; row 2: 'spam'"),
        (line(1, "b", claim="Other."), "claim", "conflicting_rows", "row 1: 'C1.'; row 2: 'Oth"),
        (line(1, None), "line", "missing_field", "row 2: is absent or null"),
        (line(1, "b", [1]), "label", "missing_field", "row 2: is neither text nor a number"),
    ],
)
def test_a_group_with_a_bad_or_conflicting_row_is_rejected_whole(
    second: dict[str, object], field: str, reason: str, detail: str, tmp_path: Path
):
    """Half the evidence may not suffice: one reject names the rows, and other groups are read."""
    loaded = load(tmp_path, [line(1, "a"), second, line(2, "x"), line(1, "c")])
    assert [(1, field, reason)] == loaded.rejects.select("row", "field", "reason").rows()
    assert detail in loaded.rejects["detail"][0]
    assert "(rows 1, 2, 4)" in loaded.rejects["detail"][0]
    assert ["2"] == loaded.claims["native_id"].to_list()
    assert 2 == loaded.rows_read
    assert_conserved(loaded)


def test_a_row_without_a_group_is_a_reject_of_its_own(tmp_path: Path):
    """So is a line that is no JSON; blank lines of evidence alone are empty evidence."""
    loaded = load(tmp_path, [line(None, "a"), line(2, "x"), line(3, " "), line(3, "")])
    assert [(1, "claim_id", "missing_field"), (3, "evidence", "empty_evidence")] == (
        loaded.rejects.select("row", "field", "reason").rows()
    )
    (tmp_path / "lines/a.jsonl").write_text(json.dumps(line(2, "x")) + "\n{\n", "utf-8")
    source = parse_source_toml(TOML, "x.toml")
    broken = load_source(source, None, FolderCorpora(tmp_path), LENIENT)
    assert [(2, "malformed_line")] == broken.rejects.select("row", "reason").rows()
    assert 1 == broken.claims.height


@pytest.mark.parametrize("rule", ["drop_middle", "middle_is_refuted"])
def test_dropped_labels_leave_grouped_claims_under_every_rule(tmp_path: Path, rule: LabelRule):
    """A group is one drop."""
    rows = [line(n, text, label) for n, label in ((1, "spam"), (2, "maybe")) for text in "ab"]
    settings = LoadSettings(max_reject_share=1, label_rule=rule)
    loaded = load(tmp_path, rows, settings=settings)
    middle = ["middle_class"] if rule == "drop_middle" else []
    assert ["no_verdict", *middle] == loaded.drops["reason"].to_list()
    assert 2 == loaded.rows_read


def test_an_id_beside_a_group_is_a_mistake():
    """A claim of several rows has no row's id."""
    text = TOML.replace("[evidence]", 'id = "n"\n[evidence]')
    with pytest.raises(ConfigError, match=r"x\.toml: columns\.id: .*group_by"):
        parse_source_toml(text, "x.toml")


def test_the_share_of_rejects_does_not_grow_with_the_length_of_groups(tmp_path: Path):
    """One bad claim of thirty lines among forty claims is one in forty."""
    bad = [line(0, str(n), "yes" if n else "no") for n in range(30)]
    good = [line(n, "x") for n in range(1, 40)]
    loaded = load(tmp_path, [*bad, *good], settings=LoadSettings())
    assert (39, 1, 40) == (loaded.claims.height, loaded.rejects.height, loaded.rows_read)
