"""The adapters of corpora and benchmarks, and their readings, on invented native rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from corpora_parts import assert_conserved, claimed, rejected
from decomposerl.claims.claim import Draft, Reject
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_benchmark, load_source
from decomposerl.errors import ConfigError
from fakes import MemoryCorpora, MemoryPages
from native_rows import (
    BENCHMARK,
    MEMBERS,
    REQUIRED,
    SOUND,
    SOURCE,
    Row,
    faults,
    named,
    read,
)
from project import ROOT
from resources.corpora.resource import LoadConfig

Case = Mapping[str, Any]


@pytest.mark.parametrize("damage", ["absent", "null", "wrong type"])
def test_a_damaged_field_is_quarantined_and_its_neighbours_stay(damage: str):
    """An absent, null or wrong-typed field rejects its row alone; a row not parsed passes on."""
    for name, field in REQUIRED:
        index, row = SOUND[name]
        bad = {key: value for key, value in row.items() if key != field}
        if damage != "absent":
            bad[field] = None if damage == "null" else 1.5
        broken = Reject(SOURCE[name].native_files[index].path, 3, "", "malformed_line", "}")
        outcomes = read(name, [row, bad, broken], index)
        places = {(number, found.split(".")[0]): why for number, found, why in faults(outcomes)}
        assert {(2, field): "missing_field", (3, ""): "malformed_line"} == places, name
        (draft,) = (one for one in outcomes if isinstance(one, Draft))
        assert draft.split == SOURCE[name].native_files[index].split


WITHOUT_TEXT: dict[str, Row] = {
    "feverous": {"evidence": " \n"},
    "foolmetwice": {"retrieved_evidence": []},
    "pubhealth": {"main_text": "  "},
    "pubhealthtab": {"table": {"website": "w", "header_horizontal": [], "rows": [["", ""]]}},
    "wice": {"evidence": ["", " "]},
    "scitab": {"table_content_values": [], "table_column_names": [], "table_caption": ""},
    "pubmedclaim": {"CONTEXTS": []},
    "llm_aggrefact": {"doc": "x9 "},
}


def test_evidence_without_text_is_quarantined():
    """A field that is there and holds no text is a fault of the file, named by its first field."""
    for name, change in WITHOUT_TEXT.items():
        index, row = SOUND[name]
        (field, *_) = change
        assert [(1, field, "empty_evidence")] == faults(read(name, [{**row, **change}], index))


def cases(name: str) -> list[Any]:
    """The cases of a table, each under its name."""
    text = Path(__file__).with_name(f"{name}.jsonl").read_text("utf-8")
    return [pytest.param(case, id=case["name"]) for case in map(json.loads, text.splitlines())]


def files_of(case: Case, rows: Mapping[str, Sequence[Row]]) -> MemoryCorpora:
    """The corpora folder of a case; an element of a page has the key ``title|element``."""
    pages = {
        path: MemoryPages(
            page.get("texts", {}),
            {tuple(key.split("|")): text for key, text in page.get("parts", {}).items()},
        )
        for path, page in case.get("pages", {}).items()
    }
    return MemoryCorpora(rows, pages)


@pytest.mark.parametrize("case", cases("adapter_cases"))
def test_rows_become_these_drafts_and_rejects(case: Case):
    """Of one native file: drafts with every field that is not the default, and rejects."""
    (member,) = (one for one in MEMBERS if named(one) == case["member"])
    (file,) = (one for one in member.native_files if one.path == case["file"])
    rows = {**case.get("beside", {}), file.path: case["rows"]}
    gives = [
        [one.row, one.field, one.reason]
        if isinstance(one, Reject)
        else {
            field.name: list(value) if isinstance(value, tuple) else value
            for field in fields(one)
            if (value := getattr(one, field.name)) != field.default and field.name != "file"
        }
        for one in member.read(files_of(case, rows), file)
    ]
    assert case["gives"] == gives


@pytest.mark.parametrize("case", cases("corpus_cases"))
def test_files_become_these_claims_and_drops(case: Case):
    """Of all files of a corpus, under a reading: claims and drops of training and of the test."""
    files, name = files_of(case, case["rows"]), case["corpus"]
    settings = LoadSettings(readings=case.get("readings", {}), max_reject_share=1)
    source, benchmark = SOURCE.get(name), BENCHMARK.get(name)
    for side, loaded in (
        ("trained", source and load_source(source, benchmark, files, settings)),
        ("tested", benchmark and load_benchmark(benchmark, source, files, settings)),
    ):
        assert (side in case) == (loaded is not None)
        if loaded is not None:
            assert_conserved(loaded)
            assert case[side] == shown(loaded)


def shown(loaded: LoadedClaims) -> dict[str, Any]:
    """Claims, drops with the id that they repeat, and rejects, each as a list."""
    known = dict(loaded.claims.select("claim_id", "native_id").rows())
    drops = loaded.drops.select("step", "reason", "matched_claim_id").rows()
    return {
        "claims": [
            list(row) for row in claimed(loaded, "native_id", "subset", "label", "evidence")
        ],
        "drops": [[step, reason, known.get(matched)] for step, reason, matched in drops],
        "rejects": [list(row) for row in rejected(loaded)],
    }


WITH_READINGS = [one for one in MEMBERS if one.readings]


def test_every_reading_differs_and_says_how():
    """Each changes the reader or the files; the shipped settings name all corpora with one."""
    for corpus in WITH_READINGS:
        assert len(corpus.readings) == len({one.name for one in corpus.readings})
        for one in corpus.readings:
            assert one.description
            assert one.read is not None or one.without
            assert set(one.without) <= set(corpus.files)
    shipped = yaml.safe_load((ROOT / "configs/paper_rows.yaml").read_text("utf-8"))
    settings = LoadConfig(**shipped["resources"]["corpora"]["config"]["settings"])
    assert {one.name for one in WITH_READINGS} == settings.readings.keys()
    (fever,) = [one for one in WITH_READINGS if one.name == "fever"]
    (paper,) = [one for one in fever.readings if one.name == settings.readings["fever"]]
    assert set(paper.without) == {file for file in fever.files if "symmetric" in file.path}


def test_an_unknown_reading_is_refused_with_those_there_are():
    """By the loader, and already by the run's configuration."""
    files = MemoryCorpora({})
    wrong_name = LoadSettings(readings={"feverous": "sentence"})
    with pytest.raises(ConfigError, match=r"'sentence'.* sentences"):
        load_source(SOURCE["feverous"], None, files, wrong_name)
    assert {"feverous": "sentences"} == LoadConfig(readings={"feverous": "sentences"}).readings
    for wrong in ({"feverous": "sentence"}, {"feverus": "sentences"}):
        with pytest.raises(ValidationError, match="feverous: sentences"):
            LoadConfig(readings=wrong)
