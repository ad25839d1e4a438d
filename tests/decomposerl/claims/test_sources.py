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
    only,
    read,
)
from project import ROOT
from resources.corpora.folder import FolderCorpora
from resources.corpora.resource import LoadConfig

Case = Mapping[str, Any]


def test_a_sound_row_gives_one_draft():
    """Claim, side and place of a sound row come through."""
    for name, (index, row) in SOUND.items():
        draft = only(read(name, [row], index))
        assert draft.claim in {row.get("claim"), row.get("text"), row.get("QUESTION")}
        assert draft.row == 1
        assert draft.native_label is not None
        assert SOURCE[name].labels.side(draft.native_label) is not None
        assert draft.split == SOURCE[name].native_files[index].split


@pytest.mark.parametrize("damage", ["absent", "null", "wrong type"])
def test_a_damaged_field_is_quarantined_and_its_neighbours_stay(damage: str):
    """An absent, null or wrong-typed field rejects its row alone, naming the field."""
    for name, field in REQUIRED:
        index, row = SOUND[name]
        bad = {key: value for key, value in row.items() if key != field}
        if damage != "absent":
            bad[field] = None if damage == "null" else 1.5
        outcomes = read(name, [row, bad], index)
        ((number, found, reason),) = faults(outcomes)
        assert (2, field, "missing_field") == (number, found.split(".")[0], reason), name
        assert 1 == sum(isinstance(one, Draft) for one in outcomes)


def test_an_unreadable_row_passes_through():
    """What the file reader could not parse is reported once, in its place."""
    for name, (index, row) in SOUND.items():
        broken = Reject(SOURCE[name].native_files[index].path, 2, "", "malformed_line", "}")
        outcomes = read(name, [row, broken], index)
        assert broken in outcomes, name
        assert [(2, "", "malformed_line")] == sorted(set(faults(outcomes)))


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


def test_without_the_native_dev_file_the_reduced_one_is_split():
    """It is then the only dev file of FEVEROUS, and both sides have a part of it."""
    row = SOUND["feverous"][1]
    rows = [{**row, "id": i, "claim": f"C {i}.", "evidence": f"Page {i}\tOne."} for i in range(60)]
    files, settings = MemoryCorpora({"feverous_s/dev.json": rows}), LoadSettings()
    source, benchmark = SOURCE["feverous"], BENCHMARK["feverous"]
    trained = load_source(source, benchmark, files, settings).claims.height
    tested = load_benchmark(benchmark, source, files, settings).claims.height
    assert 60 == trained + tested
    assert 0 < tested < 30


def test_labels_that_no_side_claims_are_unknown():
    """ClaimDecomp's six grades have sides, whatever their case; PubHealth's damaged ones none."""
    side = SOURCE["claimdecomp"].labels.side
    assert {"Supported"} == {side("true"), side("TRUE")}
    assert {"Refuted"} == {side(grade) for grade in ("pants-fire", "false", "barely-true")}
    assert {"middle"} == {side("half-true"), side("mostly-true")}
    assert {None} == {SOURCE["pubhealth"].labels.side(label) for label in ("", "-1", "snopes")}


def test_pubmedclaim_reads_the_official_ids_as_published(tmp_path: Path):
    """The published id file maps PMID to a word, not to an object."""
    source, folder = SOURCE["pubmedclaim"], tmp_path / "pubmedqa"
    folder.mkdir()
    rows = {key: dict(SOUND["pubmedclaim"][1]) for key in ("1", "2", "3")}
    (folder / "ori_pqal.json").write_text(json.dumps(rows, indent=1), "utf-8")
    (folder / "test_ground_truth.json").write_text('{\n "1": "no",\n "3": "yes"\n}', "utf-8")
    (draft,) = source.read(FolderCorpora(tmp_path), source.files[0])
    assert isinstance(draft, Draft)
    assert "2" == draft.native_id


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
