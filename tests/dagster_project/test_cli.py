import inspect
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args, get_type_hints

import polars as pl
import pytest
from typer.models import ArgumentInfo
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from fixture_data import BENCHMARK, FATES, SELECTED, SIZES, SPLIT, World, build
from resources.catalogue.database import build_catalogue
from resources.corpora.bundled_sample import fingerprint

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = build(tmp_path_factory.mktemp("data"))
    build_catalogue(made.data)
    return made


def run(*words: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner(env=env).invoke(app, list(words))


def at(world: World, *words: str) -> Result:
    return run(*words, "--data", str(world.data))


def assert_refused(result: Result, *words: str) -> None:
    """Exit code 2, the words on standard error, no traceback, nothing on standard output."""
    assert 2 == result.exit_code
    assert "" == result.stdout
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in ANSI.sub("", result.stderr)


def paths() -> list[tuple[str, ...]]:
    """Each command with a URL for one of its paths, and plain words where others are required."""
    commands = [((), command) for command in app.registered_commands]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        commands += [((str(group.name),), one) for one in group.typer_instance.registered_commands]
    return [
        (*before, command.callback.__name__.replace("_", "-"), *with_url(command.callback, name))
        for before, command in commands
        if command.callback is not None
        for hints in [get_type_hints(command.callback, include_extras=True)]
        for name, hint in hints.items()
        if Path in {hint, *get_args(hint), *get_args(next(iter(get_args(hint)), None))}
    ]


def with_url(command: Callable[..., object], asked: str) -> list[str]:
    """A command line in which one option or argument is a URL."""
    words = []
    parameters = inspect.signature(command).parameters
    for name, hint in get_type_hints(command, include_extras=True).items():
        if name == "return":
            continue
        required = parameters[name].default is inspect.Parameter.empty
        value = "s3://bucket/x" if name == asked else "word"
        info = next(iter(getattr(hint, "__metadata__", ())), None)
        if isinstance(info, ArgumentInfo):
            words.append(value)
        elif name == asked or required:
            given = [info.default, *(info.param_decls or ())] if info else []
            flags = [flag for flag in given if str(flag).startswith("--")]
            words += [next(iter(flags), f"--{name.replace('_', '-')}"), value]
    return words


@pytest.mark.parametrize("words", paths(), ids=" ".join)
def test_no_command_takes_a_url_for_a_path(words: tuple[str, ...], tmp_path: Path):
    """One sentence, for every option and argument that is a path; nothing is written."""
    before = sorted(Path.cwd().iterdir())
    refused = run(*words, env={"DECOMPOSERL_DATA": str(tmp_path)})
    assert_refused(refused, "holds a URL (s3://...)", "only DECOMPOSERL_DATA may name")
    assert 1 == len(refused.stderr.splitlines())
    assert ([], before) == (list(tmp_path.iterdir()), sorted(Path.cwd().iterdir()))


def test_attrition_prints_the_papers_table(world: World):
    """Every source with its counts, the total, and which engines made them."""
    result = at(world, "attrition")
    assert 0 == result.exit_code
    assert re.search(rf"HoVer +18,171 +30 +{SIZES['hover']}", result.stdout)
    assert f"{sum(SIZES.values())}" in result.stdout
    assert "engine=verifier=lexical" in result.stdout


@pytest.mark.parametrize("by_reason", [False, True])
def test_attrition_formats_hold_the_same_rows(world: World, *, by_reason: bool):
    """CSV, JSON and Markdown hold as many rows; CSV and JSON the same values."""
    words = ["attrition", *(["--by-reason"] if by_reason else [])]
    csv = pl.read_csv(io.StringIO(at(world, *words, "--format", "csv").stdout))
    rows = json.loads(at(world, *words, "--format", "json").stdout)
    markdown = at(world, *words, "--format", "markdown").stdout
    assert csv.to_dicts() == rows
    shown = [row for row in rows if by_reason or row["read"]]  # sources without rows are named
    assert len(shown) + 2 == sum(line.startswith("|") for line in markdown.splitlines())
    assert 0 == at(world, *words).exit_code


def test_attrition_stands_beside_the_papers_table(world: World):
    """Four columns per source and in total, the same as CSV and JSON, each with its reason."""
    words = ("attrition", "--against", "paper")
    rows = json.loads(at(world, *words, "--format", "json").stdout)
    csv = pl.read_csv(io.StringIO(at(world, *words, "--format", "csv").stdout))
    assert csv.to_dicts() == rows
    assert 4 * 15 == len(rows)
    assert all(row["reason"] for row in rows)
    (hover,) = (row for row in rows if (row["source"], row["column"]) == ("hover", "Raw"))
    assert (SIZES["hover"], 18_171) == (hover["ours"], hover["paper"])
    text = at(world, *words).stdout
    assert re.search(rf"HoVer +{SIZES['hover']} +18,171 +{SIZES['hover'] - 18_171:,} ", text)
    assert "HoVer: Rows read: 30;" in text
    assert "engine=verifier=lexical" in text
    assert "| HoVer |" in at(world, *words, "--format", "markdown").stdout
    for other in ("--by-reason", "--semantic-threshold=0.8"):
        assert_refused(at(world, *words, other), "--against")


def test_attrition_before_the_catalogue_says_what_to_run(tmp_path: Path):
    """Without a catalogue, or a folder, one line names the command."""
    assert_refused(run("attrition", "--data", str(tmp_path)), "decomposerl run ")
    assert_refused(run("attrition", "--data", str(tmp_path / "no")), "make demo", "--data")


def test_data_folder_comes_from_the_environment(world: World):
    """Without ``--data`` the profile's folder is used."""
    result = run("attrition", env={"DECOMPOSERL_DATA": str(world.data)})
    assert 0 == result.exit_code
    assert_refused(run("attrition", env={"DECOMPOSERL_PROFILE": "nonsense"}), "nonsense")


def asked_again(world: World, *words: str) -> dict[str, dict[str, int]]:
    rows = json.loads(at(world, "attrition", *words, "--format", "json").stdout)
    return {row["source"]: row for row in rows}


def test_another_threshold_is_answered_from_the_pairs(world: World):
    """At the run's own thresholds nothing changes; above all scores the duplicates stay."""
    stored = len(pl.read_parquet(world.data / "drops/deduplicated.parquet"))
    same = asked_again(world, "--semantic-threshold", "0.7")
    assert [*SIZES, "total"] == list(same)
    assert (0, stored, 0) == tuple(same["total"][n] for n in ("difference", "lexical", "semantic"))
    loose = asked_again(world, "--lexical-threshold", "0.85", "--semantic-threshold", "0.8")
    assert (stored, 0) == (loose["total"]["difference"], loose["total"]["lexical"])
    strict = asked_again(world, "--semantic-threshold", "0.65")
    assert (-1, 1) == (strict["hover"]["difference"], strict["hover"]["semantic"])
    assert strict["total"]["rows_in"] == sum(strict[source]["rows_in"] for source in SIZES)


def test_another_threshold_is_printed_like_the_other_tables(world: World):
    """Text and Markdown show the total, both pairs of thresholds, the floor, the engines."""
    for output in ("text", "markdown"):
        words = ("attrition", "--semantic-threshold", "0.8", "--format", output)
        result = at(world, *words)
        assert 0 == result.exit_code
        for phrase in (
            "total",
            "Would keep",
            "cosine 0.7",
            "0.7 and 0.8",
            "at least 0.6",
            "engine=",
        ):
            assert phrase in result.stdout


def test_another_threshold_without_pairs_says_how_to_keep_them(tmp_path: Path):
    """No run, no pairs, files of different runs: each has its sentence and its command."""
    ask = ("attrition", "--semantic-threshold", "0.8", "--data", str(tmp_path))
    assert_refused(run(*ask), "has not run", "decomposerl run ")
    build(tmp_path)
    drops = tmp_path / "drops/deduplicated.parquet"
    whole = pl.read_parquet(drops)
    whole.head(1).write_parquet(drops)
    assert_refused(run(*ask), "difficulty_band.parquet is not what the stage was given")
    whole.write_parquet(drops)
    band = pl.read_parquet(tmp_path / "difficulty_band.parquet")
    band.reverse().write_parquet(tmp_path / "difficulty_band.parquet")
    assert_refused(run(*ask), "another order")
    band.write_parquet(tmp_path / "difficulty_band.parquet")
    pairs = pl.read_parquet(tmp_path / "pairs/deduplicated.parquet")
    pairs.filter(kind="semantic").write_parquet(tmp_path / "pairs/deduplicated.parquet")
    assert_refused(run(*ask), "do not lead to what the stage decided", "materialize it again")
    pairs.with_columns(later_id=pl.lit("?" * 16)).head(1).write_parquet(
        tmp_path / "pairs/deduplicated.parquet"
    )
    assert_refused(run(*ask), "claims that the stage was not given")
    (tmp_path / "pairs/deduplicated.parquet").unlink()
    assert_refused(run(*ask), "pairs_floor: 0.6", "configs/pairs.yaml")


def test_an_approximate_run_is_answered_with_a_note(tmp_path: Path):
    """After a MinHash search the exact answer differs by what it missed, and says so."""
    build(tmp_path)
    pairs, record = tmp_path / "pairs/deduplicated.parquet", tmp_path / "stage_runs"
    missed = pl.read_parquet(pairs).with_columns(similarity=pl.lit(0.9))
    missed.write_parquet(pairs)
    ran = (record / "deduplicated.json").read_text("utf-8")
    # No removal need name it: a search that missed everything removed nothing.
    ran = ran.replace("exact join (word)", "verified MinHash (word, 32 bands of 4)")
    (record / "deduplicated.json").write_text(ran, "utf-8")
    result = run("attrition", "--semantic-threshold", "0.95", "--data", str(tmp_path))
    assert 0 == result.exit_code
    assert "was approximate: on 1 of " in result.stdout


def test_thresholds_out_of_reach_are_refused(world: World):
    """Below the floor, out of range, or asked beside the reasons of the run as it was."""
    assert_refused(at(world, "attrition", "--semantic-threshold", "0.5"), "0.6, the floor")
    assert_refused(at(world, "attrition", "--lexical-threshold", "1.5"), "at most 1")
    both = at(world, "attrition", "--by-reason", "--lexical-threshold", "0.8")
    assert_refused(both, "--by-reason")


def test_explain_takes_an_id_or_a_beginning(world: World):
    """The whole id and its first eight digits tell the same life."""
    claim_id = world.with_fate(SELECTED)
    whole, beginning = at(world, "explain", claim_id), at(world, "explain", claim_id[:8].upper())
    assert 0 == whole.exit_code
    assert whole.stdout == beginning.stdout
    assert "In the training set" in whole.stdout


def test_explain_shows_a_leak(world: World):
    """A contaminated claim is shown with the test claim, its benchmark and the numbers."""
    result = at(world, "explain", world.dropped("semantic_match"))
    assert "✗ decontaminated" in result.stdout
    assert f"test claim of {BENCHMARK}" in result.stdout
    assert "0.95 is at or above 0.9 (step semantic_match, engine cosine)" in result.stdout


def test_explain_as_json(world: World):
    """``--json`` is one object with the events, the match and the end."""
    result = at(world, "explain", world.dropped("lexical_duplicate"), "--json")
    story = json.loads(result.stdout)
    assert "Dropped by deduplicated." == story["end"]
    assert "lexical_duplicate" == story["events"][-1]["numbers"]["reason"]
    assert "hover" == story["matched"]["name"]


def test_explain_of_a_claim_that_left_while_reading(world: World):
    """A row dropped by its source has no stored text, and its reason is shown."""
    claim_id = pl.read_parquet(world.data / "drops/claims/hover.parquet")["claim_id"][0]
    result = at(world, "explain", claim_id)
    assert "its text is not stored" in result.stdout
    assert "middle class" in result.stdout


@pytest.mark.parametrize("index", range(len(FATES)))
def test_explain_of_a_split_corpus_names_the_step_of_its_source(world: World, index: int):
    """What its own benchmark leaves to training under the same id is no end of a claim."""
    claims = world.claims.filter(pl.col("source") == SPLIT)
    story = json.loads(at(world, "explain", claims["claim_id"][index], "--json").stdout)
    fate = FATES[index]
    end = f"Dropped by {fate.stage}." if fate.reason else "In the training set"
    assert story["end"].startswith(end)
    assert "source" == story["where"]


def test_explain_of_a_held_out_claim_says_whom_it_serves(world: World):
    """A claim held out of its source by document serves the benchmark of that name."""
    held = world.benchmark.filter(pl.col("source") == SPLIT)["claim_id"][0]
    result = at(world, "explain", held)
    assert f"✗ claims/{SPLIT}" in result.stdout
    assert f"it serves the benchmark {SPLIT}" in result.stdout


def test_explain_of_a_claim_that_only_a_benchmark_dropped(tmp_path: Path):
    """Before its source is read, the benchmark's drops explain a claim left to training."""
    made = build(tmp_path)
    claim_id = made.claims.filter(pl.col("source") == SPLIT)["claim_id"][0]
    for path in (*tmp_path.glob("*.parquet"), tmp_path / f"claims/{SPLIT}.parquet"):
        path.unlink()
    result = run("explain", claim_id, "--data", str(tmp_path))
    assert "its document is left to training" in result.stdout


@pytest.mark.parametrize("claim_id", ["abc", "nothex", "ab cd ef", "[red]x", ""])
def test_explain_refuses_what_is_no_id(world: World, claim_id: str):
    """Too short or not hexadecimal: the rule is stated."""
    assert_refused(at(world, "explain", claim_id), "hex digits")


def test_explain_refuses_the_unknown(world: World, tmp_path: Path):
    """An unknown id names the folder; an empty folder names the command to fill it."""
    assert_refused(at(world, "explain", "ffffffffffffffff"), "begins with 'ffffffffffffffff'")
    assert_refused(run("explain", "ffffff", "--data", str(tmp_path)), "decomposerl run ")


def test_explain_lists_ambiguous_beginnings(tmp_path: Path):
    """Two claims with one beginning are both listed, and more digits are asked for."""
    made = build(tmp_path)
    twins = made.claims.head(2).with_columns(claim_id=pl.Series(["abcdef01", "abcdef02"]))
    twins.write_parquet(tmp_path / "claims/twins.parquet")
    result = run("explain", "abcdef", "--data", str(tmp_path))
    assert_refused(result, "2 claim ids", "abcdef01", "abcdef02", "more digits")


def test_wrong_arguments_give_the_usage(world: World):
    """A missing argument or an unknown format prints the usage and exits with 2."""
    assert_refused(run("explain"), "Usage")
    assert_refused(at(world, "attrition", "--format", "xml"), "markdown")
    assert 0 == run("--help").exit_code


def test_sources_lists_licence_terms_and_files(tmp_path: Path):
    """Every corpus with licence, use and files; what is on disk is counted."""
    (tmp_path / "scitab").mkdir()
    (tmp_path / "scitab" / "sci_tab.json").write_text("[]", "utf-8")
    env = {"DECOMPOSERL_CORPORA": str(tmp_path), "COLUMNS": "200"}
    rows = json.loads(run("sources", "--json", env=env).stdout)
    by_use = {(row["name"], row["use"].split(":")[0]): row for row in rows}
    assert ["scitab/sci_tab.json"] == by_use["scitab", "training"]["present"]
    assert [] == by_use["hover", "training"]["present"]
    assert ("llm_aggrefact", "off for training") in by_use
    assert ("coverbench", "benchmark") in by_use
    assert all(row["license"] and row["terms"] for row in rows)
    shown = run("sources", env=env)
    assert 0 == shown.exit_code
    assert "1 of 1 files" in shown.stdout


def test_sources_lists_the_bundled_sample_before_and_after_it_is_written(tmp_path: Path):
    """Without a corpora folder: what a run reads, where it is, and nothing is written."""
    env = {"DECOMPOSERL_CORPORA": "", "DECOMPOSERL_DATA": str(tmp_path), "COLUMNS": "200"}
    rows = {row["name"]: row for row in json.loads(run("sources", "--json", env=env).stdout)}
    assert ["scitab/sci_tab.json"] == rows["scitab"]["present"]
    assert all(row["present"] for row in rows.values())
    where = f"bundled sample: {tmp_path}/sample/{fingerprint()}"
    assert run("sources", env=env).stdout.endswith(f"{where}, which the first run writes\n")
    assert [] == list(tmp_path.iterdir())
    (tmp_path / "sample" / fingerprint()).mkdir(parents=True)
    assert run("sources", env=env).stdout.endswith(f"{where}\n")


def test_commands_start_without_the_graph():
    """Neither Dagster nor a heavy library is imported to show the help or a table."""
    code = (
        "import sys, dagster_project.cli, resources.catalogue.database\n"
        "import resources.catalogue.claim_lookup, resources.catalogue.dedup_run\n"
        "heavy = {'dagster', 'torch', 'spacy', 'matplotlib', 'sklearn', 'numba'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.strip()
