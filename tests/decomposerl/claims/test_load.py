"""Corpora as claim frames: no row is lost; and what a list of doubtful labels says of them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import corpora_parts
from corpora_parts import LENIENT, rejected
from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.claims.claim import Draft, LabelMap
from decomposerl.claims.doubtful import doubtful_claims, list_folders
from decomposerl.claims.fields import NativeRow, each_row
from decomposerl.claims.generic import parse_corpus_toml
from decomposerl.claims.load import (
    HANDED_ON,
    LoadedClaims,
    LoadSettings,
    components,
    documents_of,
    hash_fraction,
    load_benchmark,
    load_source,
    split_by_document,
)
from decomposerl.claims.source import Benchmark, NativeFile, Source
from decomposerl.errors import TooManyRejects
from decomposerl.schemas import BENCHMARK_CLAIMS, CLAIMS, DROPS, REJECTS
from evaluation_graph import claim_row
from resources.corpora.folder import FolderCorpora
from strategies import law
from toy_corpus import SOURCE, corpus

LABELS = LabelMap(*(frozenset({label}) for label in ("yes", "no", "maybe")))
TRAIN = NativeFile("toy/train.jsonl", "jsonl", "train")
DEV = NativeFile("toy/dev.jsonl", "jsonl", "dev")
TEST = NativeFile("toy/test.jsonl", "jsonl", "test")
EXTRA = NativeFile("toy/extra.jsonl", "jsonl", "train")
LIST = NativeFile("toy/list.jsonl", "jsonl", "test")
REJECT_KEY = ["file", "row", "field", "reason"]
Row = dict[str, object]


def toy_draft(row: NativeRow) -> Draft:
    """The in-test adapter: id, claim, evidence list, label, docs."""
    return row.draft(
        row.optional("evidence", row.strings) or (),
        native_label=row.optional("label", row.text),
        documents=row.optional("docs", row.strings) or (),
    )


def toy_source(
    *files: NativeFile, extra: tuple[NativeFile, ...] = (), off: str | None = None
) -> Source:
    unread = dict.fromkeys(("title", "domain", "homepage", "license", "terms"), "")
    own = {"labels": LABELS, "files": files, "read": each_row(toy_draft), "extra": extra}
    return Source(name="toy", training_off=off, **unread, **own)  # type: ignore[arg-type]


def toy_benchmark(
    *files: NativeFile, shared: tuple[NativeFile, ...] = (), lists: tuple[NativeFile, ...] = ()
) -> Benchmark:
    return Benchmark.from_source(toy_source(), *files, shared=shared, claim_lists=lists)


def row(number: int, **changes: object) -> Row:
    base: Row = {
        "id": f"r{number}",
        "claim": f"Claim {number}.",
        "evidence": [f"Passage {number}."],
        "label": "yes" if number % 2 else "no",
        "docs": [f"doc {number}"],
    }
    return {**base, **changes}


def write(root: Path, file: NativeFile, rows: Iterable[Row | bytes]) -> None:
    lines = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in rows]
    path = root / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def load(root: Path, source: Source, config: LoadSettings = LENIENT) -> LoadedClaims:
    return load_source(source, None, FolderCorpora(root), config)


def sides(
    root: Path, source: Source, benchmark: Benchmark, config: LoadSettings = LENIENT
) -> tuple[LoadedClaims, LoadedClaims]:
    """What trains and what tests."""
    corpora = FolderCorpora(root)
    trained = load_source(source, benchmark, corpora, config)
    return trained, load_benchmark(benchmark, source, corpora, config)


SHARED = toy_source(DEV, extra=(EXTRA,)), toy_benchmark(shared=(DEV,))


def reasons_of(loaded: LoadedClaims) -> dict[str, int]:
    return dict(loaded.drops["reason"].value_counts().iter_rows())


def ids_of(loaded: LoadedClaims) -> set[str]:
    return set(loaded.claims["native_id"])


def assert_conserved(loaded: LoadedClaims) -> None:
    """The law of the module: nothing lost, nothing counted twice, frames as promised."""
    corpora_parts.assert_conserved(loaded)
    DROPS.conform(loaded.drops)
    REJECTS.conform(loaded.rejects)
    claimed, dropped = set(loaded.claims["claim_id"]), set(loaded.drops["claim_id"])
    assert not claimed & dropped


def test_a_sound_corpus_becomes_claims(tmp_path: Path):
    """Columns follow the table, passages are trimmed, blanks among them go, order stays."""
    write(tmp_path, TRAIN, [row(2, evidence=[" a ", " ", "b\n"], docs=["x", "y"]), row(1)])
    loaded = load(tmp_path, toy_source(TRAIN, DEV))
    assert CLAIMS.schema == loaded.claims.schema
    assert ["r2", "r1"] == loaded.claims["native_id"].to_list()
    assert ["a\nb", "Passage 1."] == loaded.claims["evidence"].to_list()
    assert [["a", "b"], ["Passage 1."]] == loaded.claims["passages"].to_list()
    assert ["x | y", "doc 1"] == loaded.claims["document_id"].to_list()
    assert ["Refuted", "Supported"] == loaded.claims["label"].to_list()
    assert ("ok", ("toy/train.jsonl",), 2) == (loaded.status, loaded.files, loaded.rows_read)
    assert_conserved(loaded)


def test_every_bad_row_is_quarantined_and_every_good_row_survives(tmp_path: Path):
    """Malformed line, unknown label, missing field, empty texts, bad UTF-8, repeat, 5 MB."""
    bad: dict[int, Row | bytes] = {
        2: b'{"id": "x", "claim": ',
        4: row(104, label="perhaps"),
        6: {"id": "r106", "evidence": ["e"], "label": "yes"},
        8: row(108, evidence=["", "  "]),
        10: b'{"id": "r110", "claim": "caf\xe9", "label": "yes"}',
        12: row(1, claim="Another claim."),
        14: row(114, evidence=["x" * 5_000_000]),
        16: row(116, claim="  "),
        18: row(118, label=None),
        20: row(120, id=" "),
    }
    good = {line: row(line) for line in range(1, 22, 2)}
    write(tmp_path, TRAIN, [bad.get(line) or good[line] for line in range(1, 22)])
    loaded = load(tmp_path, toy_source(TRAIN))
    expected = [
        (TRAIN.path, 2, "", "malformed_line"),
        (TRAIN.path, 4, "label", "unknown_label"),
        (TRAIN.path, 6, "claim", "missing_field"),
        (TRAIN.path, 8, "evidence", "empty_evidence"),
        (TRAIN.path, 10, "claim", "broken_encoding"),
        (TRAIN.path, 12, "id", "duplicate_id"),
        (TRAIN.path, 14, "evidence", "evidence_too_large"),
        (TRAIN.path, 16, "claim", "empty_claim"),
        (TRAIN.path, 18, "label", "missing_field"),
        (TRAIN.path, 20, "id", "missing_field"),
    ]
    assert expected == rejected(loaded, *REJECT_KEY)
    assert {r["id"] for r in good.values()} == ids_of(loaded)
    assert 21 == loaded.rows_read
    assert_conserved(loaded)


def test_too_many_rejects_name_source_share_reasons_and_places(tmp_path: Path):
    """The error tells a person where to look."""
    write(tmp_path, TRAIN, [row(1), row(2, label="odd"), b"junk", row(4, label="strange")])
    with pytest.raises(TooManyRejects) as caught:
        load(tmp_path, toy_source(TRAIN), LoadSettings())
    message = str(caught.value)
    parts = ("toy", "75.0%", "unknown_label (2", "toy/train.jsonl:2:label", "malformed_line (1")
    assert all(part in message for part in parts)


def test_label_rule_and_absent_evidence_are_drops(tmp_path: Path):
    """The middle class goes, is Refuted or is kept by the rule; no passages are no fault."""
    write(tmp_path, TRAIN, [row(1), row(2, label=" MAYBE "), row(3, evidence=[])])
    rules = ("drop_middle", "middle_is_refuted", "keep_middle")
    every = (LoadSettings(max_reject_share=1, label_rule=rule) for rule in rules)
    dropped, refuted, kept = (load(tmp_path, toy_source(TRAIN), settings) for settings in every)
    assert {"middle_class": 1, "evidence_unavailable": 1} == reasons_of(dropped)
    assert ["Supported", "Refuted"] == refuted.claims["label"].to_list()
    assert {"middle_is_refuted"} == set(refuted.claims["label_rule"])
    assert ["Supported", "NotEnoughInfo"] == kept.claims["label"].to_list()
    assert {"evidence_unavailable": 1} == reasons_of(kept)
    for loaded in (dropped, refuted, kept):
        assert_conserved(loaded)


def test_a_row_repeated_in_a_later_file_is_dropped_once_each(tmp_path: Path):
    """The first file wins, except over text; an id reused for another claim is no repeat."""
    write(tmp_path, TRAIN, [row(1), row(2, evidence=[]), row(3)])
    write(tmp_path, DEV, [row(1), row(2), row(3, claim="Something else.")])
    write(tmp_path, EXTRA, [row(1), row(2, evidence=[])])
    loaded = load(tmp_path, toy_source(TRAIN, DEV, extra=(EXTRA,)))
    assert ["r1", "r3", "r2", "r3"] == loaded.claims["native_id"].to_list()
    assert {"repeated_across_files": 3, "evidence_unavailable": 1} == reasons_of(loaded)
    matched = loaded.drops.filter(pl.col("step") == "repeated_row")["matched_claim_id"]
    assert set(matched) <= set(loaded.claims["claim_id"])
    assert_conserved(loaded)


def test_absent_files_and_terms_give_empty_frames_with_a_status(tmp_path: Path):
    """Nothing on disk is not_available; a corpus off by its terms needs an explicit yes."""
    assert "not_available" == load(tmp_path, toy_source(TRAIN)).status
    write(tmp_path, TRAIN, [row(1)])
    off = toy_source(TRAIN, off="evaluation only")
    assert ("off_by_terms", 0) == (load(tmp_path, off).status, load(tmp_path, off).claims.height)
    allowed = load(tmp_path, off, LoadSettings(allow_training_off=True))
    assert ("ok", 1) == (allowed.status, allowed.claims.height)


def test_a_benchmark_keeps_every_claim_for_decontamination(tmp_path: Path):
    """Middle class, unlabelled rows and rows without text stay, with null label or evidence.

    Under ``keep_middle`` the middle class has a label.
    """
    write(tmp_path, TEST, [row(1), row(2, label="maybe"), row(3, evidence=[])])
    write(tmp_path, LIST, [{"id": "u", "claim": "Unlabelled."}])
    benchmark = toy_benchmark(TEST, lists=(LIST,))
    loaded = load_benchmark(benchmark, None, FolderCorpora(tmp_path), LENIENT)
    assert BENCHMARK_CLAIMS.schema == loaded.claims.schema
    assert ["Supported", None, "Supported", None] == loaded.claims["label"].to_list()
    assert ["yes", "maybe", "yes", None] == loaded.claims["native_label"].to_list()
    assert [False, False, True, True] == loaded.claims["evidence"].is_null().to_list()
    three = LENIENT.model_copy(update={"label_rule": "keep_middle"})
    same = load_benchmark(benchmark, None, FolderCorpora(tmp_path), three)
    assert ["Supported", "NotEnoughInfo", "Supported", None] == same.claims["label"].to_list()
    both = loaded.claims.drop("label", "label_rule"), same.claims.drop("label", "label_rule")
    assert both[0].equals(both[1])
    assert {"toy"} == set(loaded.claims["source"])
    assert_conserved(loaded)


def test_native_test_files_leave_the_shared_file_to_training(tmp_path: Path):
    """With a labelled test file on disk both sides use their own files whole."""
    write(tmp_path, DEV, [row(i) for i in range(1, 40)])
    write(tmp_path, TEST, [row(i) for i in range(100, 103)])
    trained, tested = sides(tmp_path, toy_source(DEV, TEST), toy_benchmark(TEST, shared=(DEV,)))
    assert (39, ("toy/dev.jsonl",)) == (trained.claims.height, trained.files)
    assert (3, ("toy/test.jsonl",)) == (tested.claims.height, tested.files)


def test_own_training_files_leave_the_shared_file_to_the_benchmark(tmp_path: Path):
    """The shared file is used whole; extra rows that touch one of its documents are dropped."""
    write(tmp_path, TRAIN, [row(i) for i in range(1, 4)])
    write(tmp_path, DEV, [row(i) for i in range(10, 13)])
    write(tmp_path, EXTRA, [row(20), row(21, docs=["doc 10", "doc 21"]), row(22, docs=["doc 21"])])
    source = toy_source(TRAIN, DEV, extra=(EXTRA,))
    trained, tested = sides(tmp_path, source, toy_benchmark(shared=(DEV,)))
    assert {"r1", "r2", "r3", "r20"} == ids_of(trained)
    assert {"held_out_document": 2} == reasons_of(trained)
    assert {"r10", "r11", "r12"} == ids_of(tested)


def test_an_unlabelled_test_file_is_no_evaluation_file(tmp_path: Path):
    """Its claims count for decontamination, and the shared file is split all the same."""
    write(tmp_path, TEST, [{"id": "u", "claim": "Unlabelled."}])
    write(tmp_path, DEV, [row(i) for i in range(1, 60)])
    trained, tested = sides(tmp_path, toy_source(DEV), toy_benchmark(TEST, shared=(DEV,)))
    assert 0 < trained.claims.height < 59
    assert 60 == trained.claims.height + tested.claims.height
    assert "u" in ids_of(tested)


GRAPHS = st.lists(
    st.lists(st.sampled_from("abcdefghijklmnop"), min_size=0, max_size=3), min_size=1, max_size=14
)


@law(60)
@given(GRAPHS, st.one_of(st.just([]), GRAPHS), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_no_document_stands_on_both_sides(
    tmp_path_factory: pytest.TempPathFactory,
    shared: list[list[str]],
    extra: list[list[str]],
    share: float,
):
    """For any graph of documents, with and without extra rows, the two sides are disjoint."""
    root = tmp_path_factory.mktemp("split")
    write(root, DEV, [row(i, docs=docs) for i, docs in enumerate(shared)])
    write(root, EXTRA, [row(1000 + i, docs=docs) for i, docs in enumerate(extra)])
    settings = LoadSettings(max_reject_share=1, holdout_share=share)
    trained, tested = sides(root, *SHARED, settings)
    documents = [
        {d for joined in side.claims["document_id"].drop_nulls() for d in joined.split(" | ")}
        for side in (trained, tested)
    ]
    assert not documents[0] & documents[1]
    assert not ids_of(trained) & ids_of(tested)
    mine = {f"r{i}" for i in range(len(shared))}
    assert mine == (ids_of(trained) & mine) | ids_of(tested)
    assert_conserved(trained)
    assert_conserved(tested)


SETTINGS = LoadSettings()


def test_claims_are_handed_on_in_order_while_they_are_read(tmp_path: Path):
    """Together they are the claims of a reading at once; what else is found is the same."""
    files = FolderCorpora(corpus(tmp_path, 2 * HANDED_ON + 100))
    source = parse_corpus_toml(SOURCE, "toy/source.toml")[0]
    parts: list[pl.DataFrame] = []
    whole = load_source(source, None, files, SETTINGS)
    streamed = load_source(source, None, files, SETTINGS, parts.append)
    assert [HANDED_ON, HANDED_ON, 100] == [part.height for part in parts]
    assert_frame_equal(whole.claims, pl.concat(parts))
    assert_frame_equal(whole.claims.clear(), streamed.claims)
    assert whole.rows_read == streamed.rows_read == whole.claims.height
    assert_frame_equal(whole.drops, streamed.drops)
    assert_frame_equal(whole.rejects, streamed.rejects)


def test_a_repeat_is_found_although_the_first_was_handed_on(tmp_path: Path):
    """An id that stood thousands of rows before is a reject, and too many of them an error."""
    folder = corpus(tmp_path, HANDED_ON + 10)
    path = folder / "toy" / "claims.jsonl"
    lines = path.read_text("utf-8").splitlines()
    source = parse_corpus_toml(SOURCE, "toy/source.toml")[0]
    path.write_text("\n".join([*lines, *lines[:5]]), "utf-8")
    parts: list[pl.DataFrame] = []
    loaded = load_source(source, None, FolderCorpora(folder), SETTINGS, parts.append)
    assert HANDED_ON + 10 == sum(part.height for part in parts)
    assert ["duplicate_id"] * 5 == loaded.rejects["reason"].to_list()
    path.write_text("\n".join([*lines, *lines[:500]]), "utf-8")
    with pytest.raises(TooManyRejects):
        load_source(source, None, FolderCorpora(folder), SETTINGS, parts.append)


ROWS = st.lists(
    st.lists(st.sampled_from([f"d{i}" for i in range(12)]), min_size=1, max_size=4), max_size=15
)


def draft(number: int, documents: Sequence[str] = ()) -> Draft:
    return Draft("f", number, f"r{number}", "dev", "c", ("e",), "yes", tuple(documents))


def is_held_out(row: Draft, held_out: frozenset[str]) -> bool:
    """Whether a row is the test set's: its documents are all of one component."""
    return not held_out.isdisjoint(documents_of(row))


def reachable(start: str, rows: Sequence[Sequence[str]]) -> set[str]:
    """The plain oracle: walk from row to row until nothing new is found."""
    found = {start}
    while True:
        more = {d for row in rows if found & set(row) for d in row} - found
        if not more:
            return found
        found |= more


@given(ROWS)
def test_components_agree_with_a_plain_walk(rows: list[list[str]]):
    """A document's root is the smallest document that can be reached from it."""
    expected = {d: min(reachable(d, rows)) for row in rows for d in row}
    assert expected == components(rows)


@given(ROWS, st.data())
def test_the_split_does_not_depend_on_order(rows: list[list[str]], data: st.DataObject):
    """Shuffled rows are held out exactly as before."""
    drafts = [draft(i, docs) for i, docs in enumerate(rows)]
    mixed = data.draw(st.permutations(drafts))
    one, other = (split_by_document(order, (), 0.5) for order in (drafts, mixed))
    assert [is_held_out(d, one) for d in drafts] == [is_held_out(d, other) for d in drafts]


def test_without_a_share_all_shared_rows_are_held():
    """And what touches them, but no component of extra rows alone, which are not read."""
    split = split_by_document([draft(1, ["a"])], [draft(2, ["a", "b"]), draft(3, ["c"])], None)
    assert [True, True, True, False] == [
        is_held_out(d, split)
        for d in (draft(1, ["a"]), draft(2, ["a", "b"]), draft(4, ["b"]), draft(3, ["c"]))
    ]
    assert frozenset() == split_by_document([], [draft(1, ["a"])], 1.0)
    assert ("row:r7",) == documents_of(draft(7))


def test_places_are_fixed_and_even():
    """The hash of a name never changes between machines and spreads evenly over 0..1."""
    assert 0.05123359420032392 == hash_fraction("a document")
    places = [hash_fraction(f"document {i}") for i in range(4000)]
    assert 0.18 < sum(p < 0.2 for p in places) / 4000 < 0.22


DOUBTED = BENCHMARK_CLAIMS.conform(
    pl.DataFrame(
        [
            claim_row(0, claim_id="a", native_id="10", claim="Snow is white."),
            claim_row(1, claim_id="b", native_id="11", claim="Coal is white."),
            claim_row(2, claim_id="c", native_id="12", claim="It rained.", evidence="A wet day."),
            claim_row(3, claim_id="d", native_id="13", claim="It rained.", evidence="A dry day."),
            claim_row(4, claim_id="e", native_id="14", claim="Part one."),
            claim_row(5, claim_id="f", native_id="14", claim="Part two."),
            claim_row(6, claim_id="g", native_id="15", claim="No label.", label=None),
        ],
        schema=BENCHMARK_CLAIMS.schema,
    )
)


def read(folder: Path, *rows: object, name: str = "doubtful.jsonl") -> pl.DataFrame:
    """What the list of these rows gives; a text is a line as it stands."""
    (folder / "toy").mkdir(exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "toy" / name).write_text("\n".join(lines) + "\n", "utf-8")
    found = doubtful_claims(toy_benchmark(), DOUBTED, FolderCorpora(folder))
    assert found is not None
    return found


def test_lists_of_the_name_and_of_the_folder_of_its_files_count_together(tmp_path: Path):
    """A claim on both is doubted once; without a list there is none."""
    elsewhere = toy_benchmark(NativeFile("mine/test.jsonl", "jsonl", "test"))
    files = FolderCorpora(tmp_path)
    assert doubtful_claims(elsewhere, DOUBTED, files) is None
    for path, text in (
        ("toy/doubtful.jsonl", '{"id": 10}\n{"id": 11}\n'),
        ("mine/doubtful.csv", "id\n12\n11\n"),
    ):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text, "utf-8")
    found = doubtful_claims(elsewhere, DOUBTED, files)
    assert found is not None
    assert [
        ("toy/doubtful.jsonl", 1, "a", "doubtful"),
        ("toy/doubtful.jsonl", 2, "b", "doubtful"),
        ("mine/doubtful.csv", 2, "c", "doubtful"),
        ("mine/doubtful.csv", 3, "b", "repeated"),
    ] == found.select("file", "row", "claim_id", "state").rows()


def test_no_folder_may_hold_the_list_of_two_test_sets():
    """A list in a folder is of one test set of the catalogue."""
    folders = [folder for one in BENCHMARKS for folder in list_folders(one)]
    assert len(folders) == len(set(folders))
    assert {one.name for one in BENCHMARKS} < set(folders)


NAMED = json.loads(Path(__file__).with_name("doubtful.json").read_text("utf-8"))


@pytest.mark.parametrize(("row", "said"), NAMED)
def test_a_row_doubts_the_claims_that_it_names(tmp_path: Path, row: object, said: str):
    """By id or text, evidence telling texts apart; GrayFacts' layout; the claim's own label."""
    states = read(tmp_path, row).select("claim_id", "state").rows()
    assert said == ", ".join(f"{claim} {state}" for claim, state in states)


def test_a_csv_list_says_the_same(tmp_path: Path):
    """Empty cells of a CSV file are missing values."""
    lines = "native_id,claim,kind,label", "10,,wrong,", ",Coal is white.,,yes"
    found = read(tmp_path, *lines, name="doubtful.csv")
    assert [("a", "doubtful"), ("b", "doubtful")] == found.select("claim_id", "state").rows()
