"""A user's own corpus from one TOML file, whose first form is guessed from the columns."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import dagster as dg
import polars as pl
import pytest
import yaml

from assets.corpora import corpus_assets
from bridge_corpus import Rows, block, bridge_corpus, page_lines, run_line, write_jsonl
from corpora_parts import LENIENT, assert_conserved, claimed, own_toml, rejected
from decomposerl.claims.catalogue import (
    BENCHMARKS,
    SOURCES,
    benchmark_of,
    source_from,
    source_of,
    with_own_benchmarks,
    with_own_sources,
)
from decomposerl.claims.claim import LabelRule
from decomposerl.claims.column_guess import (
    Role,
    guess_columns,
    guess_sides,
    guess_split,
    says_polarity,
)
from decomposerl.claims.generic import native_file, parse_corpus_toml
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_benchmark, load_source
from decomposerl.claims.source import Benchmark, Source
from decomposerl.errors import ConfigError, TooManyRejects
from native_rows import BENCHMARK, SOURCE
from project import ROOT
from resources.corpora.folder import FolderCorpora
from resources.corpora.resource import CorporaResource, LoadConfig
from resources.store.parquet import DataFolder, ParquetTables

Row = dict[str, object]
CASES = json.loads(Path(__file__).with_name("generic_cases.json").read_text("utf-8"))


def load(root: Path, text: str, settings: LoadSettings = LENIENT) -> LoadedClaims:
    return load_source(parse_corpus_toml(text, "x.toml")[0], None, FolderCorpora(root), settings)


def corpus(root: Path, rows: Rows, text: str, settings: LoadSettings = LENIENT) -> LoadedClaims:
    (root / "mine").mkdir(exist_ok=True)
    write_jsonl(root / "mine/a.jsonl", rows)
    return load(root, text, settings)


def test_the_example_of_the_page_runs(tmp_path: Path):
    """The documented TOML reads the documented row, and its test file stays a test set."""
    folder = tmp_path / "bridge_notes"
    folder.mkdir()
    row = json.loads(block("json"))
    write_jsonl(folder / "train.jsonl", [row, {**row, "note_id": 8, "verdict": "unclear"}])
    write_jsonl(folder / "test.jsonl", [{**row, "note_id": 9, "verdict": "fails"}])
    source, benchmark = parse_corpus_toml(block("toml"), "bridge.toml")
    assert benchmark is not None
    corpora = FolderCorpora(tmp_path)
    trained = load_source(source, benchmark, corpora, LENIENT)
    tested = load_benchmark(benchmark, source, corpora, LENIENT)
    found = claimed(trained, "native_id", "label", "document_id", "subset", "num_hops")
    assert [("7", "Supported", "North Arch", "hills", 2)] == found
    assert [
        "It was repainted in 2011.",
        "The work took a month.",
        "New cables were fitted in 2014.",
    ] == trained.claims["passages"][0].to_list()
    assert ["middle_class"] == trained.drops["reason"].to_list()
    assert [("9", "Refuted")] == claimed(tested, "native_id", "label")


def test_the_adapter_of_the_page_runs(tmp_path: Path):
    """The documented code is a working adapter of the documented table."""
    module = ModuleType("bridge_notes")
    exec(block("python"), module.__dict__)  # noqa: S102 - the page's own example
    about = dict.fromkeys(("title", "domain", "homepage", "license", "terms"), "said")
    table = tomllib.loads(block("toml", 1))["sources"]["bridge_notes"]
    source = source_from("bridge_notes", about | table, module.READERS)
    folder = tmp_path / "bridge_notes"
    folder.mkdir()
    row = {"note_id": 1, "statement": "S.", "report": "A.\nB.", "verdict": True, "bridge": "N"}
    write_jsonl(folder / "train.jsonl", [row, {**row, "note_id": 2, "report": None}])
    loaded = load_source(source, None, FolderCorpora(tmp_path), LENIENT)
    assert [("1", "A.\nB.", "Supported")] == claimed(loaded, "native_id", "evidence", "label")
    assert [("report", "missing_field")] == rejected(loaded, "field", "reason")


def test_evidence_may_be_nested_lists_and_tables(tmp_path: Path):
    """Dotted columns, several columns, rows of cells and objects become passages."""
    row = {
        "claim": "C.",
        "label": True,
        "caption": "Cap",
        "table": {"rows": [["a", 1], ["b", None], {"x": "c", "y": True}]},
    }
    text = own_toml(evidence='["caption", "table.rows"]', how='kind = "table"')
    loaded = corpus(tmp_path, [row], text)
    assert [["Cap", "a | 1", "b |", "c | true"]] == loaded.claims["passages"].to_list()
    assert ["table"] == loaded.claims["evidence_kind"].to_list()
    assert ["mine/a.jsonl:1"] == loaded.claims["native_id"].to_list()


def test_bad_rows_name_the_users_own_columns(tmp_path: Path):
    """Absent, null and mistyped fields are rejects; an empty list is empty evidence."""
    good: dict[str, object] = {"id": "g", "claim": "C.", "text": "T.", "label": 0, "hops": None}
    rows = [good, *({**good, **changes} for changes, _, _ in CASES["bad_rows"])]
    loaded = corpus(tmp_path, rows, own_toml(columns='id = "id"\nnum_hops = "hops"'))
    assert [tuple(case[1:]) for case in CASES["bad_rows"]] == rejected(loaded, "field", "reason")
    assert [*range(2, 2 + len(CASES["bad_rows"]))] == loaded.rejects["row"].to_list()
    assert ["g"] == loaded.claims["native_id"].to_list()


def test_evidence_is_cut_as_asked(tmp_path: Path):
    """The four ways to make passages of one text."""
    for how, expected in CASES["cuts"]:
        row: Row = {"claim": "C.", "text": "A b. C d!\nE", "label": 0}
        loaded = corpus(tmp_path, [row], own_toml(how=f'split = "{how}"'))
        assert [expected] == loaded.claims["passages"].to_list(), how


def test_every_mistake_is_named_at_once():
    """The error names the file and, line by line, each key with what is wrong."""
    with pytest.raises(ConfigError) as caught:
        parse_corpus_toml(CASES["all_mistakes"], "mine.toml")[0]
    message = str(caught.value)
    assert all(line.startswith("mine.toml: ") for line in message.splitlines())
    assert [] == [key for key in CASES["keys_of_mistakes"].split() if key not in message]


@pytest.mark.parametrize("rule", ["drop_middle", "middle_is_refuted"])
def test_dropped_labels_are_no_verdict_under_any_rule(tmp_path: Path, rule: LabelRule):
    """They leave with a reason of their own, are counted, and stay in no test set's scores."""
    labels = (True, "no", "maybe", " Duplicate", "spam", "other")
    rows: Rows = [{"claim": f"C {label}.", "text": "T.", "label": label} for label in labels]
    text = own_toml().replace(
        'middle = ["maybe"]', 'middle = ["maybe"]\ndrop = ["duplicate", "spam"]'
    )
    settings = LoadSettings(max_reject_share=1, label_rule=rule)
    found = corpus(tmp_path, rows, text, settings)
    kept = ["Supported", "Refuted", "Refuted"]
    assert kept[: 2 if rule == "drop_middle" else 3] == found.claims["label"].to_list()
    middle = ["middle_class"] if rule == "drop_middle" else []
    assert [*middle, "no_verdict", "no_verdict"] == found.drops["reason"].to_list()
    assert ["'other'"] == [repr(text) for text in found.rejects["detail"]]
    assert 6 == found.rows_read
    tested = parse_corpus_toml(text.replace("train =", "test ="), "x.toml")[1]
    assert tested is not None
    scored = load_benchmark(tested, None, FolderCorpora(tmp_path), settings).claims
    assert [None, None] == scored["label"].to_list()[3:]


def changed(old: str, new: str) -> str:
    return own_toml().replace(old, new)


GROUPED = own_toml(
    evidence='"line"', columns='document = "page"', how='group_by = "claim_id"'
).replace("middle =", 'drop = ["spam"]\nmiddle =')
MISTAKES: tuple[tuple[str, tuple[str, ...]], ...] = (
    *((changed(old, new), names) for old, new, names in CASES["mistakes"]),
    (changed("[0,", f"[{'9' * 5_000},"), ()),
    ("[source", ("TOML",)),
    (f"a = {'[' * 100_000}", ("TOML",)),
    (GROUPED.replace("[evidence]", 'id = "n"\n[evidence]'), ("columns.id:", "group_by")),
)


def test_a_wrong_file_label_list_or_key_is_named():
    """File, keys and the key that was meant stand in the error; contradictions are mistakes."""
    for text, names in MISTAKES:
        with pytest.raises(ConfigError, match=r"^x\.toml: ") as caught:
            parse_corpus_toml(text, "x.toml")[0]
        assert [] == [name for name in names if name not in str(caught.value)]
    assert parse_corpus_toml(own_toml(), "x.toml")[1] is None


@pytest.mark.timeout(600)
def test_the_commands_of_the_page_run_as_written(tmp_path: Path):
    """A corpus that exists as TOML alone is read, and the funnel runs over it."""
    bridge_corpus(tmp_path / "corpora")
    lines = page_lines()
    assert 2 == len(lines)
    for line in lines:
        done = run_line(line, tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
    kept = pl.read_parquet(tmp_path / "data/claims/bridge_notes.parquet")
    drops = pl.read_parquet(tmp_path / "data/drops/claims/bridge_notes.parquet")
    assert 22 == kept.height
    assert "no_verdict" in drops["reason"].to_list()
    assert (tmp_path / "data/training_claims.parquet").is_file()


def test_a_corpus_of_unknown_labels_keeps_its_rejects_and_names_them(tmp_path: Path):
    """The asset fails with the labels it met, made printable, and the rejects are on disk."""
    bridge_corpus(tmp_path)
    row = json.loads(block("json"))
    odd = ["maybe so"] * 25 + ["x\x1b]0;t\x07\u202e"] * 10 + ["y" * 900] * 5
    rows: Rows = [{**row, "note_id": i, "verdict": label} for i, label in enumerate(odd)]
    write_jsonl(tmp_path / "bridge_notes/train.jsonl", rows)
    data = str(tmp_path / "data")
    resources = {
        "io_manager": ParquetTables(base_dir=data),
        "data_folder": DataFolder(base_dir=data),
        "corpora": CorporaResource(root=str(tmp_path)),
    }
    assets = corpus_assets([parse_corpus_toml(block("toml"), "bridge.toml")[0]], [])
    with pytest.raises(TooManyRejects) as refused:
        dg.materialize(assets, resources=resources)
    said = str(refused.value)
    assert [] == [part for part in ("maybe so' (25)", "' (10)") if part not in said]
    assert r"x\x1b]0;t\x07\u202e" in said
    assert not re.search("\x1b|y{100}", said)
    kept = pl.read_parquet(tmp_path / "data/rejects/bridge_notes.parquet")
    assert [40, {"unknown_label"}] == [kept.height, set(kept["reason"])]


def line(claim_id: object, text: object, label: object = "yes", **more: object) -> Row:
    row = {"claim_id": claim_id, "claim": f"C{claim_id}.", "line": text, "label": label}
    return {**row, "page": f"P{text}", **more}


def test_lines_of_a_claim_are_its_passages_in_order(tmp_path: Path):
    """Lines may lie apart; a repeated line counts once; the group's value is the id."""
    rows = [line(1, "b"), line(2, "x", "no"), line(1, "a"), line(1, "b"), line(2, "w", "NO ")]
    loaded = corpus(tmp_path, rows, GROUPED)
    found = claimed(loaded, "native_id", "claim", "passages", "label", "document_id")
    assert [
        ("1", "C1.", ["b", "a"], "Supported", "Pb | Pa"),
        ("2", "C2.", ["x", "w"], "Refuted", "Px | Pw"),
    ] == found
    assert (2, 0) == (loaded.rows_read, loaded.rejects.height)


def test_a_group_with_a_bad_or_conflicting_row_is_rejected_whole(tmp_path: Path):
    """Half the evidence may not suffice: one reject names the rows, and other groups are read."""
    for text, label, more, field, reason, detail in CASES["conflicting"]:
        second = line(1, text, label, **more)
        loaded = corpus(tmp_path, [line(1, "a"), second, line(2, "x"), line(1, "c")], GROUPED)
        assert [(1, field, reason)] == rejected(loaded)
        assert detail in loaded.rejects["detail"][0]
        assert "(rows 1, 2, 4)" in loaded.rejects["detail"][0]
        assert ["2"] == loaded.claims["native_id"].to_list()
        assert 2 == loaded.rows_read
        assert_conserved(loaded)


def test_a_row_without_a_group_is_a_reject_of_its_own(tmp_path: Path):
    """So is a line that is no JSON; blank lines of evidence alone are empty evidence."""
    rows = [line(None, "a"), line(2, "x"), line(3, " "), line(3, "")]
    found = rejected(corpus(tmp_path, rows, GROUPED))
    assert [(1, "claim_id", "missing_field"), (3, "evidence", "empty_evidence")] == found
    (tmp_path / "mine/a.jsonl").write_text(json.dumps(line(2, "x")) + "\n{\n", "utf-8")
    broken = load(tmp_path, GROUPED)
    assert [(2, "malformed_line")] == rejected(broken, "row", "reason")
    assert 1 == broken.claims.height


def test_the_share_of_rejects_does_not_grow_with_the_length_of_groups(tmp_path: Path):
    """One bad claim of thirty lines among forty claims is one in forty."""
    bad = [line(0, str(n), "yes" if n else "no") for n in range(30)]
    good = [line(n, "x") for n in range(1, 40)]
    loaded = corpus(tmp_path, [*bad, *good], GROUPED, LoadSettings())
    assert (39, 1, 40) == (loaded.claims.height, loaded.rejects.height, loaded.rows_read)


FILES = 'train = ["mine/train.jsonl"]\ntest = ["mine/test.jsonl"]'
COPY = (
    own_toml()
    .replace('name = "mine"', 'name = "hover"\nreplaces = true')
    .replace('train = ["mine/a.jsonl"]', FILES)
)


def parsed(text: str) -> tuple[Source, Benchmark]:
    source, benchmark = parse_corpus_toml(text, "x.toml")
    assert benchmark is not None
    return source, benchmark


def copy_of(name: str) -> tuple[Source, Benchmark]:
    """A user's copy as the catalogue then has it, on both sides."""
    source, benchmark = parsed(COPY.replace('"hover"', f'"{name}"'))
    (own,) = [one for one in with_own_sources([source]) if one.name == name]
    (tested,) = [one for one in with_own_benchmarks([benchmark]) if one.name == name]
    return own, tested


def test_a_copy_takes_the_place_of_the_catalogues_corpus():
    """Its rows count in the paper's column: same name, title, domain, raw count and place."""
    source, benchmark = parsed(COPY)
    sources, benchmarks = with_own_sources([source]), with_own_benchmarks([benchmark])
    assert [one.name for one in SOURCES] == [one.name for one in sources]
    assert [one.name for one in BENCHMARKS] == [one.name for one in benchmarks]
    own, tested = copy_of("hover")
    same = ("title", "domain", "paper_raw", "license", "terms", "homepage")
    assert [getattr(SOURCE["hover"], name) for name in same] == [getattr(own, n) for n in same]
    assert ["mine/train.jsonl"] == [file.path for file in own.files]
    assert (tested, own) == (benchmark_of(own, benchmarks), source_of(tested, sources))


def test_what_the_user_states_of_rights_is_kept_and_the_terms_bind():
    """A stated license is the copy's own; a corpus that is off for training stays off."""
    stated = parsed(COPY.replace("[files]", 'license = "CC0"\n[files]'))[0]
    own = next(one for one in with_own_sources([stated]) if one.name == "hover")
    assert ("CC0", SOURCE["hover"].terms) == (own.license, own.terms)
    off = SOURCE["llm_aggrefact"].training_off
    assert off
    assert off == copy_of("llm_aggrefact")[0].training_off


def test_a_copy_may_have_one_side_alone():
    """Test files without training files, and the other way round; the rest is the catalogue's."""
    tested = COPY.replace('train = ["mine/train.jsonl"]', "").replace('"hover"', '"fever"')
    source, benchmark = parsed(tested)
    assert SOURCES == with_own_sources([source])
    (own,) = [one for one in with_own_benchmarks([benchmark]) if one.name == "fever"]
    assert (BENCHMARK["fever"].title, None, True) == (own.title, own.source, own.in_domain)
    trained = parse_corpus_toml(COPY.replace('test = ["mine/test.jsonl"]', ""), "x.toml")[0]
    assert with_own_sources([trained])[3].files == trained.files
    _, added = parsed(COPY.replace('"hover"', '"scitab"'))  # not among the eleven test sets
    assert [*BENCHMARKS, added] == [*with_own_benchmarks([added])]


@pytest.mark.parametrize("name", ["scifact", "feverous"])
def test_a_reading_of_the_catalogue_leaves_a_copy_as_it_is(name: str, tmp_path: Path):
    """On both sides, with or without a test set of the paper; other corpora are read by it."""
    own, tested = copy_of(name)
    (tmp_path / "mine").mkdir()
    for split in ("train", "test"):
        row = {"claim": f"C {split}.", "text": "T.", "label": "yes"}
        write_jsonl(tmp_path / f"mine/{split}.jsonl", [row])
    shipped = yaml.safe_load((ROOT / "configs/paper_rows.yaml").read_text("utf-8"))
    chosen = LoadConfig(**shipped["resources"]["corpora"]["config"]["settings"])
    assert name in chosen.readings
    files = FolderCorpora(tmp_path)
    trained = load_source(own, tested, files, chosen)
    held_out = load_benchmark(tested, own, files, chosen)
    assert [("C train.",)] == claimed(trained, "claim")
    assert [("C test.",)] == claimed(held_out, "claim")


def test_a_name_is_replaced_only_when_the_file_says_so():
    """Of two copies none is taken: which one counts would depend on the order of folders."""
    for old, new, names in (
        ("replaces = true", "", r"'hover' .*replaces = true"),
        ('"hover"', '"hoover"', "'hoover' .*ambifc, "),
        ("replaces = true", "replaces = 1", r"x\.toml: source\.replaces"),
    ):
        with pytest.raises(ConfigError, match=names):
            with_own_sources([parse_corpus_toml(COPY.replace(old, new), "x.toml")[0]])
    with pytest.raises(ConfigError, match=r"'hover'(?!.*replaces)"):
        with_own_sources([parsed(COPY)[0]] * 2)


EVIDENCE = "It was painted in 2011. It took a month."
CLAIMS = tuple(f"The bridge number {n} was painted in 2011." for n in range(4))
LABELS = ("SUPPORTS", "REFUTES") * 2


def rows(**columns: object) -> list[Row]:
    """Four rows of the same values, except for tuples, which have one for each row."""
    return [
        {name: value[n] if isinstance(value, tuple) else value for name, value in columns.items()}
        for n in range(4)
    ]


@pytest.mark.parametrize(("columns", "expected"), CASES["columns"])
def test_columns_are_known_by_name_then_by_their_values(columns: Row, expected: Mapping[Role, str]):
    """No column has two roles; roles that nothing looks like are left out."""
    cells = {
        name: tuple(cell) if isinstance(cell, list) else cell for name, cell in columns.items()
    }
    assert expected == guess_columns(rows(**cells), {}).columns


def test_a_named_column_is_not_guessed():
    """Its role is taken from the others; a column that is not there is refused with the columns."""
    data = rows(claim=CLAIMS, statement=EVIDENCE, evidence=EVIDENCE, label=LABELS)
    named: dict[Role, str] = {"claim": "statement", "evidence": "claim"}
    chosen = guess_columns(data, named).columns
    assert ("statement", "claim") == (chosen["claim"], chosen["evidence"])
    with pytest.raises(ConfigError, match=r"--claim: .*'x'.*claim, "):
        guess_columns(data, {"claim": "x"})


def test_the_shape_of_the_evidence():
    """Text in sentences or lines, a list of passages, a table."""
    for evidence, *shape in CASES["shapes"]:
        guess = guess_columns(rows(claim=CLAIMS, evidence=evidence, label=LABELS), {})
        assert shape == [guess.kind, guess.split], evidence


def test_the_labels_of_the_catalogue_are_recognised():
    """Every label of every corpus, on the side of its adapter; yes and no, 0 and 1 are asked."""
    asked = set()
    for source in SOURCES:
        labels = source.labels
        claims = dict.fromkeys(labels.supported | labels.refuted | labels.middle, ("C.",))
        if not says_polarity("label", claims):
            asked.add(source.name)
            continue
        found = {side: set(given) for side, given in guess_sides(claims, {}).items()}
        expected = {side: getattr(labels, side) for side in ("supported", "refuted", "middle")}
        assert expected | {"drop": set()} == found, source.name
    assert {"pubmedclaim", "llm_aggrefact"} <= asked


@pytest.mark.parametrize(("column", "labels", "says"), CASES["polarity"])
def test_polarity_is_said_by_names_or_labels_or_not_known(column: str, labels: str, says: int):
    """A guess would invert the corpus."""
    assert bool(says) == says_polarity(column, labels.split())


def rows_of(counts: Mapping[str, int]) -> dict[str, list[str]]:
    return {label: ["C."] * rows for label, rows in counts.items()}


def test_labels_of_no_side_are_set_aside_and_named_ones_win():
    """They are dropped, not put on a side; of two labels one name tells the other."""
    claims = rows_of({"Not-Supported": 3, "TRUE": 5, "odd": 1, "nei": 2})
    sides = {"supported": ["TRUE"], "refuted": ["Not-Supported"], "middle": ["nei"]}
    assert sides | {"drop": ["odd"]} == guess_sides(claims, {})
    assert ["TRUE", "odd"] == guess_sides(claims, {"supported": ["odd"]})["supported"]
    claims = rows_of({"yes": 2, "no": 1})
    assert ["no"] == guess_sides(claims, {"refuted": ["yes"]})["supported"]


def test_labels_that_cannot_be_sorted_are_refused():
    """Three numbers, a column of ids; a named one must be there; each reading is an option."""
    many = [{f"{n}th": 1 for n in range(60)}, ["60", "--label"]]
    for counts, names in [*CASES["unsorted"], many]:
        with pytest.raises(ConfigError) as caught:
            guess_sides(rows_of(counts), {})
        assert [] == [name for name in names if name not in str(caught.value)]
    with pytest.raises(ConfigError, match="'yess'"):
        guess_sides(rows_of({"yes": 1, "no": 1}), {"supported": ["yess"]})


def test_the_split_is_in_the_files_name():
    """As a word of its own, or in the name of a folder; the endings are those of the page."""
    for name, split in CASES["splits"].items():
        assert split == guess_split(name)
    file = native_file("a/b.csv.gz", "dev")
    assert ("a/b.csv", "csv") == (file.path, file.format)
