"""A user's copy of a corpus of the paper, in another layout, under the catalogue's name."""

from pathlib import Path

import pytest
import yaml

from bridge_corpus import write_jsonl
from decomposerl.claims.catalogue import (
    BENCHMARKS,
    SOURCES,
    benchmark_of,
    source_of,
    with_own_benchmarks,
    with_own_sources,
)
from decomposerl.claims.generic import parse_benchmark_toml, parse_source_toml
from decomposerl.claims.load import LoadSettings, load_benchmark, load_source
from decomposerl.claims.source import Benchmark, Source, ignored_reading
from decomposerl.errors import ConfigError
from native_rows import BENCHMARK, SOURCE
from project import ROOT
from resources.corpora.folder import FolderCorpora
from resources.corpora.resource import LoadConfig

TOML = """
[source]
name = "hover"
title = "My HoVer"
replaces = true
[files]
train = ["mine/train.jsonl"]
test = ["mine/test.jsonl"]
[columns]
claim = "claim"
evidence = "text"
label = "label"
[labels]
supported = ["yes"]
refuted = ["no"]
"""


def parsed(toml: str) -> tuple[Source, Benchmark]:
    benchmark = parse_benchmark_toml(toml, "x.toml")
    assert benchmark is not None
    return parse_source_toml(toml, "x.toml"), benchmark


def test_a_copy_takes_the_place_of_the_catalogues_corpus(tmp_path: Path):
    """Its rows count in the paper's column: same name, title, domain, raw count and place."""
    source, benchmark = parsed(TOML)
    sources, benchmarks = with_own_sources([source]), with_own_benchmarks([benchmark])
    assert [one.name for one in SOURCES] == [one.name for one in sources]
    assert [one.name for one in BENCHMARKS] == [one.name for one in benchmarks]
    (own,) = [one for one in sources if one.name == "hover"]
    theirs = SOURCE["hover"]
    same = ("title", "domain", "paper_raw", "license", "terms", "homepage")
    assert [getattr(theirs, name) for name in same] == [getattr(own, name) for name in same]
    assert ["mine/train.jsonl"] == [file.path for file in own.files]
    assert benchmark_of(own, benchmarks) is next(one for one in benchmarks if one.name == "hover")
    assert own is source_of(benchmark_of(own, benchmarks) or benchmark, sources)
    (tmp_path / "mine").mkdir()
    write_jsonl(tmp_path / "mine/train.jsonl", [{"claim": "C.", "text": "T.", "label": "yes"}])
    files = FolderCorpora(tmp_path)
    loaded = load_source(own, benchmark_of(own, benchmarks), files, LoadSettings())
    assert [("hover", "Supported")] == loaded.claims.select("source", "label").rows()


def test_what_the_user_states_of_rights_is_kept_and_the_terms_bind():
    """A stated license is the copy's own; a corpus that is off for training stays off."""
    stated = TOML.replace("[files]", 'license = "CC0"\n[files]')
    own = next(one for one in with_own_sources([parsed(stated)[0]]) if one.name == "hover")
    assert ("CC0", SOURCE["hover"].terms) == (own.license, own.terms)
    gated = parsed(TOML.replace('"hover"', '"llm_aggrefact"'))[0]
    copy = next(one for one in with_own_sources([gated]) if one.name == "llm_aggrefact")
    assert copy.training_off
    assert copy.training_off == SOURCE["llm_aggrefact"].training_off


def test_a_copy_may_have_one_side_alone():
    """Test files without training files, and the other way round; the rest is the catalogue's."""
    tested = TOML.replace('train = ["mine/train.jsonl"]', "").replace('"hover"', '"fever"')
    source, benchmark = parsed(tested)
    assert SOURCES == with_own_sources([source])
    (own,) = [one for one in with_own_benchmarks([benchmark]) if one.name == "fever"]
    assert (BENCHMARK["fever"].title, None, True) == (own.title, own.source, own.in_domain)
    trained = parse_source_toml(TOML.replace('test = ["mine/test.jsonl"]', ""), "x.toml")
    assert with_own_sources([trained])[3].files == trained.files
    assert BENCHMARKS == with_own_benchmarks([])


def test_test_files_of_a_corpus_without_a_test_set_are_added():
    """SciTab is trained on and not among the eleven test sets."""
    _, benchmark = parsed(TOML.replace('"hover"', '"scitab"'))
    assert [*BENCHMARKS, benchmark] == [*with_own_benchmarks([benchmark])]


@pytest.mark.parametrize("name", ["scifact", "feverous"])
def test_a_reading_of_the_catalogue_leaves_a_copy_as_it_is(name: str, tmp_path: Path):
    """On both sides, with or without a test set of the paper; other corpora are read by it."""
    source, benchmark = parsed(TOML.replace('"hover"', f'"{name}"'))
    (own,) = [one for one in with_own_sources([source]) if one.name == name]
    (tested,) = [one for one in with_own_benchmarks([benchmark]) if one.name == name]
    (tmp_path / "mine").mkdir()
    for split in ("train", "test"):
        row = {"claim": f"C {split}.", "text": "T.", "label": "yes"}
        write_jsonl(tmp_path / f"mine/{split}.jsonl", [row])
    chosen = shipped_settings()
    assert name in chosen.readings
    files = FolderCorpora(tmp_path)
    trained = load_source(own, tested, files, chosen)
    held_out = load_benchmark(tested, own, files, chosen)
    assert (["C train."], ["C test."]) == (
        trained.claims["claim"].to_list(),
        held_out.claims["claim"].to_list(),
    )
    unread = [ignored_reading(one, chosen.readings) for one in (own, tested, SOURCE[name])]
    assert [chosen.readings[name]] * 2 == unread[:2]
    assert unread[2] is None


def shipped_settings() -> LoadSettings:
    """The readings of ``configs/paper_rows.yaml``, as a run checks them."""
    shipped = yaml.safe_load((ROOT / "configs/paper_rows.yaml").read_text("utf-8"))
    return LoadConfig(**shipped["resources"]["corpora"]["config"]["settings"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("replaces = true", ""), "'hover' is taken.* replaces = true to read it in its place"),
        (('"hover"', '"hoover"'), "the catalogue has no 'hoover' to replace; it has ambifc, "),
        (("replaces = true", "replaces = 1"), r"x\.toml: source\.replaces"),
    ],
)
def test_a_name_is_replaced_only_when_the_file_says_so(change: tuple[str, str], said: str):
    """A name of the catalogue, a name that it does not have, and no truth value."""
    with pytest.raises(ConfigError, match=said):
        with_own_sources([parse_source_toml(TOML.replace(*change), "x.toml")])


def test_two_copies_of_one_corpus_are_refused():
    """Which of them counts would depend on the order of folders."""
    source, _ = parsed(TOML)
    with pytest.raises(ConfigError, match=r"'hover' is taken; choose another$"):
        with_own_sources([source, source])
