"""The made-up pools of the studies: the paper's, a large one, and that of the selectors."""

import shlex
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.funnel.catalogue import STAGES
from decomposerl.funnel.selection import label_source_cells
from decomposerl.funnel.selector_comparison import PAPER_BUDGET, PAPER_POOL, SelectorComparison
from decomposerl.kernels.selectors import METHODS
from decomposerl.reports.figure_style import drawn
from decomposerl.reports.selector_report import selectors_figure
from documents import shell_lines
from perf.bench_process import run_fresh
from perf.memory_watch import OVER
from project import ROOT
from resources.report.studies import write_study
from resources.store.parquet import DataFolder, write_parquet
from studies import paper_plan
from studies.large_inputs import write_pool
from studies.large_run import discard, materialize
from studies.paper_facts import planted_facts
from studies.paper_inputs import write_inputs
from studies.paper_run import STEPS, funnel_cost
from studies.selector_pool import (
    LARGEST,
    MADE_UP,
    REAL,
    claims_of,
    compared_pool,
    main,
    options,
    pool_vectors,
    section,
)

PAGE = ROOT / "docs/results/studies.md"
WITHOUT_APRICOT = [name for name in METHODS if name != "apricot"]
ROWS, DIMENSIONS = 1_200, 32
DROPPING = ("rule_filtered", "difficulty_band", "deduplicated", "silver_decomposed")


def test_the_plan_has_the_papers_counts():
    """Raw rows per source, rows in the band and test claims are those of the paper."""
    plan = paper_plan.plan_pool()
    names, counts = np.unique(plan.sources, return_counts=True)
    raw = {source.name: source.paper_raw for source in SOURCES}
    assert raw == dict(zip(names.tolist(), counts.tolist(), strict=True))
    assert (24_355, 50_000) == (len(plan.in_band), len(plan.tests))
    assert {benchmark.name for benchmark in BENCHMARKS} == set(plan.tests.tolist())
    leaving = np.isin(plan.fates, list(paper_plan.LATE)).sum()
    assert abs(24_355 - int(leaving) - 17_328) < 40


def test_copies_and_leaks_of_the_plan_have_their_partners():
    """A kept original stands before its copy; each leak has a test claim of its own."""
    plan = paper_plan.plan_pool(8_000)
    copies = np.flatnonzero(np.isin(plan.fates, paper_plan.WITH_ORIGINAL))
    originals = plan.partners[copies]
    assert len(copies) > 300
    assert np.all((originals >= 0) & (originals < copies))
    assert {paper_plan.KEPT} == set(plan.fates[originals].tolist())
    assert np.all(plan.sources[originals] == plan.sources[copies])
    leaks = np.flatnonzero(np.isin(plan.fates, list(paper_plan.LEAKS)))
    assert len(set(plan.partners[leaks].tolist())) == len(leaks) > 20
    others = ~np.isin(plan.fates, [*paper_plan.LEAKS, *paper_plan.WITH_ORIGINAL])
    assert {-1} == set(plan.partners[others].tolist())


def test_every_step_of_the_papers_funnel_runs_and_finds_the_planted_claims(tmp_path: Path):
    """A small pool passes every stage and check; planted duplicates are all removed."""
    write_inputs(tmp_path, 1_500)
    cost = funnel_cost(tmp_path)
    assert list(STEPS) == [step["step"] for step in cost["steps"]]
    assert {"source_guard"} >= set(cost["checks_failed"])  # small sources end up empty
    facts = {fact["planted"]: fact for fact in planted_facts(tmp_path).to_dicts()}
    assert sum(facts[kind]["reached"] for kind in paper_plan.DUPLICATES) > 10
    assert {1.0, None} >= {facts[kind]["recall"] for kind in paper_plan.DUPLICATES}


def test_every_stage_runs_and_no_later_one_misses_the_evidence_given_back(tmp_path: Path):
    """Checks hold at each stage, although the tables before it have no evidence any more."""
    folder = DataFolder(base_dir=str(tmp_path))
    write_pool(tmp_path, ROWS)
    entered = sum(folder.read(f"claims/{name}", ["claim_id"]).height for name in paper_plan.COUNTS)
    assert abs(entered - ROWS) < len(paper_plan.COUNTS)
    for step in STAGES:
        assert {"source_guard"} >= set(materialize(tmp_path, step, DIMENSIONS)), step
        record = folder.run(step)
        assert 0 < record["rows_kept"] <= record["rows_in"], step
        assert record["rows_kept"] < record["rows_in"] or step not in DROPPING, step
        discard(tmp_path, step)
    assert {""} == set(folder.read("rule_filtered")["evidence"])
    assert {""} == set(folder.read("silver_decomposed")["evidence"])
    kept = folder.read("training_claims")
    assert kept["evidence"].str.len_bytes().mean() > 3_000
    assert (kept["passages"].list.len() > 0).all()


def test_a_step_may_not_hold_more_than_the_limit(tmp_path: Path):
    """The limit is one of the process: with too little, a step ends instead of swapping."""
    words = ["--claims", "300", "--folder", str(tmp_path), "--step", "pool", "--memory-gb"]
    assert "pool" == run_fresh("studies.large_run", *words, "4")["step"]
    assert pl.read_parquet(tmp_path / "claims/hover.parquet").height
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run_fresh("studies.large_run", *words, "0.15")
    assert OVER == caught.value.returncode


@pytest.fixture(scope="module")
def small() -> SelectorComparison:
    return compared_pool(0.02, 64, WITHOUT_APRICOT, 2)


def test_the_pool_of_the_selectors_has_the_papers_size_and_cells():
    """17,328 claims in 28 cells, 2,500 of each label selected, 430 of 3,482 in the largest cell."""
    claims = claims_of()
    cells = label_source_cells(claims, PAPER_BUDGET // 2)
    assert (PAPER_POOL, 28) == (claims.height, cells.height)
    assert {2_500} == set(cells.group_by("label").agg(pl.col("budget").sum())["budget"])
    largest = cells.sort("available").row(-1, named=True)
    assert LARGEST == (largest["source"], largest["available"])
    assert (3_482, 430) == (largest["available"], largest["budget"])


def test_vectors_are_unit_rows_in_clusters_of_their_source():
    """Equal for one seed, others for another; claims of a source are nearer than others."""
    sources = claims_of(0.02)["source"].to_list()
    vectors = pool_vectors(sources, 64)
    assert np.allclose(1, np.linalg.norm(vectors, axis=1), atol=1e-5)
    assert np.array_equal(vectors, pool_vectors(sources, 64))
    assert not np.array_equal(vectors, pool_vectors(sources, 64, seed=8))
    alike = np.equal.outer(np.array(sources), np.array(sources))
    cosines = vectors @ vectors.T
    assert cosines[alike].mean() > cosines[~alike].mean() + 0.05


def test_both_sections_of_the_selectors_are_written_into_a_page(
    tmp_path: Path, small: SelectorComparison
):
    """A row a selector, between markers, the picture beside the page; the rest of it stays."""
    text = section(small.table, "made_up_selectors.png")
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert "](made_up_selectors.png)" in text
    assert len(WITHOUT_APRICOT) + 3 == len(rows)
    assert all("made-up vectors" in row or "(paper" in row for row in rows)
    marks = [
        f"<!-- {name} report: {end} -->" for name in (REAL, MADE_UP) for end in ("begin", "end")
    ]
    page = tmp_path / "page.md"
    page.write_text("\n".join(["# Head", *marks, "tail\n"]), "utf-8")
    write_parquet(small.table, tmp_path / "data/study/selectors.parquet")
    figure = drawn(selectors_figure(small))
    write_study(tmp_path / "data", "selectors", figure, "It says so.")
    main(["--report", str(page), "--data", str(tmp_path / "data")])
    asked = ["--scale", "0.02", "--dimensions", "64", "--seeds", "1", "--selectors", "random"]
    main(["--report", str(page), *asked])
    written = page.read_text("utf-8")
    assert figure.png == (tmp_path / "selectors.png").read_bytes()
    assert (tmp_path / "made_up_selectors.png").is_file()
    assert ("# Head\n", "tail\n") == (written[:7], written[-5:])
    assert section(small.table, "selectors.png") in written
    assert 2 == written.count("\n| random | made-up vectors, 64 numbers, seed 7 |")


def test_the_committed_page_has_every_selector_in_both_sections():
    """So it is of the study as it is now; its commands parse."""
    page = PAGE.read_text("utf-8")
    for name in (REAL, MADE_UP):
        part = page.partition(f"<!-- {name} report: begin -->")[2].partition("<!--")[0]
        lines = [line for line in part.splitlines() if line.startswith("| ")]
        assert len(METHODS) + 3 == len(lines) - 2, name
    ran = [line for line in shell_lines(PAGE) if "studies.selector_pool" in line]
    assert {True, False} == {options(shlex.split(line)[3:]).data is None for line in ran}
