"""The readings that ``LoadSettings.readings`` chooses, and files with rows of a test set."""

import pytest
import yaml
from pydantic import ValidationError

from corpora_parts import assert_conserved
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_benchmark, load_source
from decomposerl.errors import ConfigError
from fakes import MemoryCorpora, MemoryPages
from native_rows import BENCHMARK, MEMBERS, SOUND, SOURCE, Row
from project import ROOT
from resources.corpora.folder import FolderCorpora
from resources.corpora.resource import LoadConfig

FOLDER = ROOT.parent / "shared" / "corpora"
NATIVE_TRAIN = "feverous/feverous_train_challenges.jsonl"
NATIVE_DEV = "feverous/feverous_dev_challenges.jsonl"
SENTENCE_DEV = "feverous_s/dev.json"
PAGES = {
    "feverous/feverous_wikiv1.db": MemoryPages(
        parts={("Orla", "sentence_0"): "She met Bram.", ("Orla", "cell_0_1_1"): "1901"}
    )
}


def native(number: int, *elements: str) -> Row:
    """A row of the native FEVEROUS files."""
    evidence = [{"content": list(elements), "context": {}}]
    return {"id": number, "claim": f"Claim {number}.", "label": "SUPPORTS", "evidence": evidence}


def reduced(number: int) -> Row:
    """The same claim in ``feverous_s``."""
    return {**SOUND["feverous"][1], "id": number, "claim": f"Claim {number}."}


def both(name: str, corpora: MemoryCorpora, **readings: str) -> tuple[LoadedClaims, LoadedClaims]:
    """The training corpus and the test set of one name."""
    settings = LoadSettings(readings=readings, max_reject_share=1)
    source, benchmark = SOURCE[name], BENCHMARK[name]
    return (
        load_source(source, benchmark, corpora, settings),
        load_benchmark(benchmark, source, corpora, settings),
    )


def ids(loaded: LoadedClaims) -> list[str]:
    """Native ids of the claims, sorted."""
    return sorted(loaded.claims["native_id"])


def test_the_reduced_dev_file_never_trains_beside_the_native_one():
    """Its rows are rows of the native dev file, which is the test set."""
    rows = {
        NATIVE_TRAIN: [native(1, "Orla_sentence_0")],
        NATIVE_DEV: [native(2, "Orla_sentence_0"), native(3, "Orla_cell_0_1_1")],
        SENTENCE_DEV: [reduced(2)],
    }
    trained, tested = both("feverous", MemoryCorpora(rows, PAGES))
    assert (["1"], ["2", "3"]) == (ids(trained), ids(tested))


@pytest.mark.parametrize("train", [[], [native(1, "Orla_sentence_0")]], ids=["alone", "train"])
def test_a_native_dev_file_without_its_pages_is_tested_by_the_reduced_one(train: list[Row]):
    """Without the page database the reduced file has the only text of the test claims."""
    rows = {NATIVE_DEV: [native(2, "Orla_sentence_0")], SENTENCE_DEV: [reduced(2)]}
    rows |= {NATIVE_TRAIN: train} if train else {}
    trained, tested = both("feverous", MemoryCorpora(rows))
    assert [] == ids(trained)
    assert ["feverous_s"] == tested.claims.drop_nulls("evidence")["subset"].to_list()


def test_without_the_native_dev_file_the_reduced_one_is_split_as_before():
    """It is then the only dev file, and both sides have a part of it."""
    pages = [{**reduced(i), "evidence": f"Page {i}\tOne."} for i in range(60)]
    trained, tested = both("feverous", MemoryCorpora({SENTENCE_DEV: pages}))
    assert 60 == trained.claims.height + tested.claims.height
    assert 0 < tested.claims.height < 30


def test_the_pubhealth_excerpt_never_trains_beside_the_test_file():
    """It does not say of which split its rows are: some may be test rows."""
    _, row = SOUND["pubhealth"]
    rows = {
        "pubhealth/test.tsv": [row],
        "pubhealth/tuning_excerpt.tsv": [row],
        "pubhealth/train.tsv": [{**row, "claim_id": "10", "claim": "D."}],
    }
    trained, tested = both("pubhealth", MemoryCorpora(rows))
    assert (["10"], ["9"]) == (ids(trained), ids(tested))


def test_feverous_of_sentences_drops_each_claim_with_another_element():
    """As the public selection was made: a title or cell in any evidence set is one too many."""
    rows = {
        NATIVE_TRAIN: [
            native(1, "Orla_sentence_0"),
            native(2, "Orla_sentence_0", "Orla_cell_0_1_1"),
            native(3, "Orla_sentence_0", "Orla_title"),
        ],
        NATIVE_DEV: [native(4, "Orla_cell_0_1_1"), native(5, "Orla_sentence_0")],
    }
    corpora = MemoryCorpora(rows, PAGES)
    assert (["1", "2", "3"], ["4", "5"]) == tuple(ids(one) for one in both("feverous", corpora))
    trained, tested = both("feverous", corpora, feverous="sentences")
    assert (["1"], ["5"]) == (ids(trained), ids(tested))
    assert {("readings", "not_sentences_only")} == set(trained.drops["step", "reason"].rows())
    for loaded in (trained, tested):
        assert_conserved(loaded)
    default, _ = both("feverous", corpora)
    assert default.claims.filter(native_id="1").equals(trained.claims), "stored results stay valid"


def test_a_row_that_a_reading_leaves_out_hides_no_other_file():
    """A reduced row with its claim and text is kept; without the reading it is a repeat."""
    row = {**reduced(1), "evidence": "Orla\tShe met Bram."}
    rows = {
        NATIVE_TRAIN: [native(1, "Orla_sentence_0", "Orla_title")],
        "feverous_s/train.json": [row],
    }
    plain, _ = both("feverous", MemoryCorpora(rows, PAGES))
    chosen, _ = both("feverous", MemoryCorpora(rows, PAGES), feverous="sentences")
    assert [["1"], ["1"]] == [ids(plain), ids(chosen)]
    assert ["repeated_across_files"] == plain.drops["reason"].to_list()
    assert ["not_sentences_only"] == chosen.drops["reason"].to_list()
    assert {"feverous_s"} == set(chosen.claims["subset"])


def repeated(loaded: LoadedClaims) -> list[tuple[str, str]]:
    """Reason of each drop, and the native id of the claim that it repeats."""
    kept = loaded.claims.select("native_id", matched_claim_id="claim_id")
    return loaded.drops.join(kept, on="matched_claim_id").select("reason", "native_id").rows()


@pytest.mark.parametrize("readings", [{}, {"feverous": "sentences"}], ids=["default", "sentences"])
def test_a_claim_of_the_native_and_the_reduced_file_is_read_once(readings: dict[str, str]):
    """The native row stays though their evidence differs; claims of one file alone stay, too."""
    rows = {
        NATIVE_TRAIN: [native(1, "Orla_sentence_0"), native(2, "Orla_sentence_0")],
        "feverous_s/train.json": [reduced(1), reduced(3), {**reduced(2), "claim": "Another."}],
    }
    trained, _ = both("feverous", MemoryCorpora(rows, PAGES), **readings)
    assert [None, None, "feverous_s", "feverous_s"] == trained.claims["subset"].to_list()
    assert ["1", "2", "3", "2"] == trained.claims["native_id"].to_list()
    assert [("repeated_across_files", "1")] == repeated(trained)
    assert_conserved(trained)


def test_without_the_pages_the_reduced_file_gives_the_claim():
    """The native row has no text then: it is dropped for that, and the reduced one stays."""
    rows = {
        NATIVE_TRAIN: [native(1, "Orla_sentence_0")],
        "feverous_s/train.json": [reduced(1)],
    }
    trained, _ = both("feverous", MemoryCorpora(rows))
    assert [("1", "feverous_s")] == trained.claims["native_id", "subset"].rows()
    assert ["evidence_unavailable"] == trained.drops["reason"].to_list()


def test_parts_of_a_corpus_may_share_an_id_and_a_claim():
    """WiCE's two granularities are different rows: the part tells them apart."""
    _, row = SOUND["wice"]
    rows = {
        "wice/claim/train.jsonl": [row],
        "wice/non_supported_tokens/train.jsonl": [{**row, "evidence": ["Something else."]}],
    }
    trained, _ = both("wice", MemoryCorpora(rows))
    assert ["claim", "non_supported_tokens"] == trained.claims["subset"].to_list()


def scifact(evidence: dict[str, list[dict[str, object]]]) -> LoadedClaims:
    row = {**SOUND["scifact"][1], "evidence": evidence}
    corpus = [{"doc_id": n, "title": "T", "abstract": ["One.", "Two."]} for n in (31, 32)]
    rows = {"scifact/claims_train.jsonl": [row], "scifact/corpus.jsonl": corpus}
    settings = LoadSettings(readings={"scifact": "rationales"}, max_reject_share=1)
    return load_source(SOURCE["scifact"], None, MemoryCorpora(rows), settings)


def test_scifact_of_rationales_gives_each_rationale_the_whole_abstract():
    """Two rationales in one abstract are two rows; a bad pair is one reject, not several."""
    support = {"sentences": [0], "label": "SUPPORT"}
    loaded = scifact({"31": [support, {**support, "sentences": [1]}], "32": [support]})
    assert ["5:31:0", "5:31:1", "5:32:0"] == ids(loaded)
    assert {"One.\nTwo."} == set(loaded.claims["evidence"])
    bad = scifact({"31": [support, {**support, "sentences": [9]}], "32": [support]})
    assert (["5:32:0"], 1) == (ids(bad), bad.rejects.height)
    assert ["middle_class"] == scifact({}).drops["reason"].to_list()


def test_ambifc_of_passages_keeps_each_line():
    """The default joins the two passages of a page; the reading does not."""
    _, row = SOUND["ambifc"]
    rows = {"ambifc/train.certain.jsonl": [row, {**row, "wiki_passage": "Three."}]}

    def loaded(**readings: str) -> LoadedClaims:
        settings = LoadSettings(readings=readings)
        return load_source(SOURCE["ambifc"], None, MemoryCorpora(rows), settings)

    assert ["One.\nTwo.\nThree."] == loaded().claims["evidence"].to_list()
    single = loaded(ambifc="passages")
    assert {"One.\nTwo.", "Three."} == set(single.claims["evidence"])
    assert_conserved(single)


def test_faviq_of_positive_passages_reads_train_alone():
    """The passage without the answer and the dev split are left out; no passage: no evidence."""
    _, row = SOUND["faviq_a"]
    bare = {**row, "id": "q2", "claim": "d", "positive_evidence": None}
    rows = {"faviq/train.jsonl": [row, bare], "faviq/dev.jsonl": [{**row, "id": "q3"}]}
    settings = LoadSettings(readings={"faviq_a": "positive"})
    loaded = load_source(SOURCE["faviq_a"], None, MemoryCorpora(rows), settings)
    assert (["q1"], ["One."]) == (ids(loaded), loaded.claims["evidence"].to_list())
    assert ["evidence_unavailable"] == loaded.drops["reason"].to_list()


def test_fever_of_the_paper_test_leaves_fever_symmetric_out():
    """One file of two; the list of claims for decontamination stays."""
    symmetric = {"id": "1", "sentence1": "Orla met Bram.", "sentence2": "They met."}
    symmetric["gold_label"] = "SUPPORTS"
    native_row = {"id": 2, "claim": "C.", "label": "SUPPORTS", "evidence": [[[1, 1, "Orla", 0]]]}
    rows = {
        "fever_symmetric/fever_symmetric_dev.jsonl": [symmetric],
        "fever/paper_test.jsonl": [native_row],
        "fever/paper_dev.jsonl": [{**native_row, "id": 3}],
    }

    def loaded(**readings: str) -> list[str]:
        settings = LoadSettings(readings=readings)
        return ids(load_benchmark(BENCHMARK["fever"], None, MemoryCorpora(rows), settings))

    assert ["2", "3", "fever_symmetric-1"] == loaded()
    assert ["2", "3"] == loaded(fever="paper_test")


def test_hover_trains_on_train_and_tests_on_dev():
    """With its train file on disk, all of train trains and all of dev tests: the paper's 18,171."""
    _, row = SOUND["hover"]
    many = [{**row, "uid": str(number), "claim": f"Claim {number}."} for number in range(40)]
    rows = {
        "hover/hover_train_release_v1.1.json": many[:30],
        "hover/hover_dev_release_v1.1.json": many[30:],
    }
    pages = {"hover/wiki_wo_links.db": MemoryPages({"Orla": ["One."]})}
    trained, tested = both("hover", MemoryCorpora(rows, pages))
    assert (30, 10) == (trained.claims.height, tested.claims.height)


WITH_READINGS = [one for one in MEMBERS if one.readings]


def test_every_reading_differs_and_says_how():
    """A reading has a name of its own, a description, and changes the reader or the files.

    ``configs/paper_rows.yaml`` names each corpus with a reading, and is valid.
    """
    for corpus in WITH_READINGS:
        assert len(corpus.readings) == len({one.name for one in corpus.readings})
        for one in corpus.readings:
            assert one.description
            assert one.read is not None or one.without
            assert set(one.without) <= set(corpus.files)
    shipped = yaml.safe_load((ROOT / "configs/paper_rows.yaml").read_text("utf-8"))
    settings = LoadConfig(**shipped["resources"]["corpora"]["config"]["settings"])
    assert {one.name for one in WITH_READINGS} == settings.readings.keys()


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


@pytest.mark.real
@pytest.mark.skipif(not FOLDER.is_dir(), reason="the real corpora are not beside this folder")
def test_scifact_of_rationales_is_the_papers_count():
    """957 rationales of train and 338 of dev: 1,295, where the default has 773 rows."""
    source, files = SOURCE["scifact"], FolderCorpora(FOLDER)
    chosen = LoadSettings(readings={"scifact": "rationales"})
    loaded = load_source(source, None, files, chosen)
    assert {"train": 957, "dev": 338} == dict(loaded.claims["split"].value_counts().rows())
    assert source.paper_raw == loaded.claims.height
    assert 773 == load_source(source, None, files, LoadSettings()).claims.height
