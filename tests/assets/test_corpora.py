"""The assets that read corpora, and test sets beside the others.

These are without doubtful labels, or of three labels.
"""

import json
import shutil
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.checks import guard_checks
from assets.corpora import corpus_assets
from assets.evaluation import evaluation_assets
from corpora_parts import own_toml
from decomposerl.claims.catalogue import BENCHMARKS, DIFFERENCES, SOURCES, with_own_sources
from decomposerl.claims.generic import parse_corpus_toml
from decomposerl.claims.source import Source
from decomposerl.funnel.catalogue import STAGES
from decomposerl.schemas import BENCHMARK_CLAIMS, DROPS
from evaluation_graph import SYSTEMS, claim_row, resources
from fixture_data import build
from resources.corpora.resource import CorporaResource, LoadConfig
from resources.evaluation.results_folder import board_page
from resources.store.integrity import file_sha256
from resources.store.parquet import DataFolder, write_parquet
from resources.store.rows import StoredRows
from resources.store.run_lock import locked_asset

COPY = own_toml().replace('"mine"', '"faviq_a"\nreplaces = true').replace("a.jsonl", "train.jsonl")


def warnings_of(
    source: Source, corpora: CorporaResource, folder: Path, *others: dg.AssetsDefinition
) -> list[str]:
    """What a run of the source's asset, or of ``others``, logs as a warning or worse."""
    instance, assets = dg.DagsterInstance.ephemeral(), corpus_assets([source], [])
    done = dg.materialize(
        [*assets, *others],
        selection=[one.key for one in others] or None,
        instance=instance,
        resources=resources(folder / "data") | {"corpora": corpora},
        raise_on_error=False,
    )
    return [one.user_message for one in instance.all_logs(done.run_id) if one.level >= 30]


@dg.asset(ins={"rows": dg.AssetIn(key=["claims", "faviq_a"], dagster_type=StoredRows)})
@locked_asset
def reader(rows: StoredRows) -> dg.MaterializeResult[None]:
    """A stage after the claims."""
    return dg.MaterializeResult(metadata={"rows": rows.rows})


def test_a_stage_names_the_inputs_whose_last_run_failed(tmp_path: Path):
    """What it reads is older than that run; nothing is said of inputs as their last run left."""
    (tmp_path / "mine").mkdir()
    file, row = tmp_path / "mine/train.jsonl", {"claim": "C.", "text": "One.", "label": "yes"}
    (own,) = [one for one in with_own_sources([parse_corpus_toml(COPY, "")[0]]) if one.replaces]
    given = own, CorporaResource(root=str(tmp_path)), tmp_path
    for label, failed in (("yes", False), ("no way", True), ("no", False)):
        file.write_text(json.dumps(row | {"label": label}), "utf-8")
        assert failed == bool(warnings_of(*given))
        said = warnings_of(*given, reader)
        assert [True] * failed == ["claims/faviq_a: its run of" in one for one in said]


def test_a_copy_is_read_as_its_file_says_whatever_reading_is_chosen(tmp_path: Path):
    """A warning names the reading; the page shows neither the catalogue's rows nor its files."""
    (tmp_path / "mine").mkdir()
    row = {"claim": "C.", "text": "One.", "label": "yes"}
    (tmp_path / "mine/train.jsonl").write_text(json.dumps(row), "utf-8")
    copy = parse_corpus_toml(COPY, "x.toml")[0]
    (own,) = [one for one in with_own_sources([copy]) if one.name == "faviq_a"]
    chosen = CorporaResource(
        root=str(tmp_path), settings=LoadConfig(readings={"faviq_a": "positive"})
    )
    (said,) = warnings_of(own, chosen, tmp_path)
    assert said.startswith("faviq_a: the reading 'positive' is not used")
    assert [] == warnings_of(own, CorporaResource(root=str(tmp_path)), tmp_path)
    (asset,) = corpus_assets([own], [])
    assert "against the paper" not in asset.metadata_by_key[asset.key]
    assert "fetch" not in asset.descriptions_by_key[asset.key]


def test_forms_that_are_not_read_are_a_warning(tmp_path: Path):
    """The file that is read and those of the same rows beside it, once in the log."""
    (tmp_path / "faviq").mkdir()
    row = {"id": "1", "claim": "C.", "label": "SUPPORTS"}
    evidence = {"positive_evidence": {"title": "Orla", "text": "One."}}
    for name in ("train.jsonl", "train.parquet"):
        (tmp_path / "faviq" / name).write_text(json.dumps({**row, **evidence}), "utf-8")
    (source,) = [one for one in SOURCES if one.name == "faviq_a"]
    said = warnings_of(source, CorporaResource(root=str(tmp_path)), tmp_path)
    read, others = "faviq/train.jsonl was read", "faviq/train.parquet"
    assert [f"claims/faviq_a: {read}; other forms of it were not: {others}"] == said


SHOWN = "against the paper"


def test_every_source_shows_why_its_rows_are_not_the_papers():
    """The text of the one table; a test set shows it where it is none of a training corpus."""
    assets = corpus_assets(SOURCES, BENCHMARKS)
    shown = [asset.metadata_by_key[asset.key].get(SHOWN) for asset in assets]
    for source, text in zip(SOURCES, shown, strict=False):
        assert DIFFERENCES[source.name].text == text
        assert f"Paper: {source.paper_raw:,}." in text
    names = (one.name for one in BENCHMARKS)
    tested = dict(zip(names, shown[len(SOURCES) :], strict=True))
    assert {"fever": DIFFERENCES["fever"].text} == {n: text for n, text in tested.items() if text}


# The check

CHECKS = {
    next(iter(check.check_keys)).asset_key.to_user_string(): check for check in guard_checks()
}


def checked(stage: str, data: Path) -> dg.AssetCheckResult:
    """The check of one stage on a data folder."""
    result = CHECKS[stage](data_folder=DataFolder(base_dir=str(data)))
    assert isinstance(result, dg.AssetCheckResult)
    return result


def test_every_stage_but_the_selection_is_guarded(tmp_path: Path):
    """Where a budget decides, that most of a source leaves is no surprise; others pass."""
    assert list(STAGES[:-2]) == list(CHECKS)
    build(tmp_path)
    assert [] == [stage for stage in CHECKS if not checked(stage, tmp_path).passed]


def test_a_source_that_is_nearly_wiped_out_is_named(tmp_path: Path):
    """Likeness may remove half of a source, a rule 80 %; a row more is a warning, not a stop."""
    (tmp_path / "drops").mkdir()
    rows = [f"{row:016x}" for row in range(100)]
    ids = pl.DataFrame({"claim_id": rows, "source": "hover", "label": "Refuted"})
    for stage, fewest in (("deduplicated", 50), ("difficulty_band", 20)):
        for kept, passed in ((fewest, True), (fewest - 1, False)):
            left = pl.concat([DROPS.empty(), ids[kept:]], how="diagonal")
            ids[:kept].write_parquet(tmp_path / f"{stage}.parquet")
            left.write_parquet(tmp_path / f"drops/{stage}.parquet")
            result = checked(stage, tmp_path)
            assert passed == result.passed
            assert dg.AssetCheckSeverity.WARN == result.severity
            assert ([] if passed else ["hover"]) == result.metadata["struck"].value


# Test sets beside the others

VERIFIER = "minicheck-lexical"
NAME, RULES = "foolmetwice", ("simple-rules-faithful", "cot-rules-faithful")
TESTS = [one for one in BENCHMARKS if one.name == NAME]
LIST = '{"id": "0", "kind": "wrong"}\n{"id": "1", "label": "AMBIG"}\n{"id": "none"}\n'


def materialize(data: Path, selection: dg.AssetSelection, system: str | None = None) -> None:
    """Run assets over a corpora folder beside the data."""
    corpora = CorporaResource(root=str(data.parent / "corpora"))
    result = dg.materialize(
        [*corpus_assets([], TESTS), *evaluation_assets(TESTS, SYSTEMS, None)],
        selection=selection,
        partition_key=system,
        resources=resources(data) | {"corpora": corpora},
        run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}},
    )
    assert result.success


def evaluate(folder: Path, listed: str | None) -> Path:
    """The data folder of two systems on ten claims, with this list or without one."""
    corpus = folder / "corpora" / NAME
    corpus.mkdir(parents=True, exist_ok=True)
    rows = [claim_row(number) for number in range(10)]
    labels = {"Supported": "SUPPORTS", "Refuted": "REFUTES"}
    lines = [
        {"id": row["native_id"], "text": row["claim"], "label": labels[str(row["label"])]}
        | {"retrieved_evidence": [{"text": text} for text in row["passages"]]}  # type: ignore[attr-defined]
        | {"wikipedia_page": row["document_id"]}
        for row in rows
    ]
    (corpus / "test.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    (corpus / "doubtful.jsonl").unlink(missing_ok=True)
    if listed is not None:
        (corpus / "doubtful.jsonl").write_text(listed, "utf-8")
    data = folder / "data"
    materialize(data, dg.AssetSelection.key_prefixes("benchmark"))
    for system in RULES:
        materialize(data, dg.AssetSelection.key_prefixes("predictions", "scores"), system)
    materialize(data, dg.AssetSelection.assets("leaderboard", "comparison"))
    return data


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluate(tmp_path_factory.mktemp("listed"), LIST)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, listed: Path) -> Path:
    """The same after the list was taken away."""
    folder = tmp_path_factory.mktemp("plain")
    shutil.copytree(listed, folder / "data")
    return evaluate(folder, None)


def files(data: Path) -> dict[str, str]:
    """The hash of each table."""
    found = {str(one.relative_to(data)): one for one in sorted(data.rglob("*.parquet"))}
    results = ("engine_results/", "prediction_shards/")
    return {name: file_sha256(one) for name, one in found.items() if not name.startswith(results)}


def test_scores_have_the_metric_over_the_claims_left(listed: Path):
    """The balanced accuracy of claims that are not on the stored list."""
    folder = DataFolder(base_dir=str(listed))
    states = folder.read(f"doubtful/{NAME}")["state"].to_list()
    assert ["doubtful", "doubtful", "no_claim"] == states
    claims = folder.read(f"benchmark/{NAME}")
    left = claims.filter(~pl.col("native_id").is_in(["0", "1"]))
    said = folder.read(f"predictions/{NAME}/{RULES[0]}", ["claim_id", "verdict"])
    hit = (pl.col("label") == pl.col("verdict")).mean()
    right = left.join(said, on="claim_id").group_by("label").agg(verdict=hit)
    name = "balanced_accuracy_without_doubtful"
    (row,) = folder.read(f"scores/{NAME}/{RULES[0]}").filter(metric=name).to_dicts()
    assert 100 * right["verdict"].mean() == pytest.approx(row["score"])
    assert (8, 4) == (row["rows"], row["supported"])
    assert row["low"] < row["high"]


def test_without_a_list_nothing_changes_and_the_rest_is_the_same_with_one(
    plain: Path, listed: Path
):
    """The claims and predictions are the same bytes; scores gain rows alone."""
    one, other = files(plain), files(listed)
    assert {f"doubtful/{NAME}.parquet"} == other.keys() - one.keys()
    changed = {name for name in one if one[name] != other[name]}
    assert changed == {name for name in one if name.startswith("scores/")}
    here, there = (DataFolder(base_dir=str(data)) for data in (plain, listed))
    before, after = (folder.read(f"scores/{NAME}/{RULES[0]}") for folder in (here, there))
    assert before.equals(after.join(before, on=before.columns, how="semi", nulls_equal=True))
    assert "without_doubtful" not in str(before.rows())


BASE = "fever"
MIDDLE = tuple(one for one in BENCHMARKS if one.name in {BASE, "hover"})
SIMPLE, FOLK = "simple-rules-faithful", "folk-rules-faithful"
OPEN = "Nothing is written here. A dog ran over the hill. The rain fell in the night."


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    """Rules, a method that its rules decide, and a verifier over claims of three labels, ranked."""
    path = tmp_path_factory.mktemp("three_way")
    rule = {"label_rule": "keep_middle"}
    rows = [claim_row(number, source=BASE, **rule) for number in range(8)]
    middle = rule | {"label": "NotEnoughInfo", "native_label": "NOT ENOUGH INFO"}
    texts = {"evidence": OPEN, "passages": OPEN.split(". ")}
    rows += [claim_row(number, source=BASE, **middle, **texts) for number in range(8, 12)]
    frame = BENCHMARK_CLAIMS.conform(pl.DataFrame(rows, schema=BENCHMARK_CLAIMS.schema))
    write_parquet(frame, path / f"benchmark/{BASE}.parquet")
    made, keys = evaluation_assets(MIDDLE, SYSTEMS, None), dg.AssetSelection.assets
    evaluated = keys(*(dg.AssetKey([table, BASE]) for table in ("predictions", "scores")))
    ranked = keys("leaderboard", "comparison")
    steps = [(evaluated, SIMPLE), (evaluated, FOLK), (evaluated, VERIFIER), (ranked, None)]
    for selection, part in steps:
        assert dg.materialize(
            made, selection=selection, partition_key=part, resources=resources(path)
        ).success
    return DataFolder(base_dir=str(path))


def test_a_baseline_may_end_with_the_third_verdict_where_its_model_decides(three: DataFolder):
    """Its prompt offers it; where rules or a threshold decide, a claim is one of two."""
    said = {
        one: set(three.read(f"predictions/{BASE}/{one}")["verdict"])
        for one in (SIMPLE, FOLK, VERIFIER)
    }
    assert "NotEnoughInfo" in said[SIMPLE]
    assert "NotEnoughInfo" not in said[FOLK] | said[VERIFIER]
    scores = [three.read(f"scores/{BASE}/{one}") for one in said]
    recalls = pl.concat(scores).filter(slice="all", metric="recall_not_enough_info")
    assert {SIMPLE: 100.0, FOLK: 0.0, VERIFIER: 0.0} == dict(recalls["system", "score"].rows())


def test_scores_over_three_labels_are_ranked_compared_and_not_the_papers(three: DataFolder):
    """Without the third verdict balanced accuracy is two thirds at most, and a note says so."""
    board = three.read("leaderboard").filter(pl.col("score").is_not_null())
    scores = dict(board.filter(benchmark=BASE)["system", "score"].rows())
    assert scores[VERIFIER] <= 200 / 3 < scores[SIMPLE]
    pairs = three.read("comparison").filter(benchmark=BASE)["system", "other", "difference"].rows()
    for system, other, difference in pairs:
        assert scores[system] - scores[other] == pytest.approx(difference)
    assert len(pairs) == 3
    page = " ".join(board_page(three, board, {BASE: "FEVER"}).split())
    assert "three labels" in page
    assert page.endswith("FEVER.")
