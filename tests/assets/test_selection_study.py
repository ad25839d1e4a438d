"""The asset ``study/selectors``: its table, its figure for the report, its place in the graph."""

from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.selection_study import selectors
from dagster_project.definitions import defs
from decomposerl.funnel.selector_comparison import compare_selectors
from decomposerl.funnel.settings import SelectorStudySettings
from decomposerl.kernels.cosine_filter import unit_rows
from decomposerl.reports.figure_style import drawn
from decomposerl.reports.selector_report import (
    selectors_figure,
    selectors_markdown,
    selectors_sentence,
)
from decomposerl.schemas import SELECTOR_STUDY, SILVER_DECOMPOSED
from fakes import BagOfWordsEmbedder
from resources.embedder.resource import EmbedderResource
from resources.report.studies import CLOCKS, STUDIES, read_studies
from resources.store.parquet import DataFolder, ParquetTables, write_parquet
from strategies import example_row, frame_of

CHOSEN = {"selectors": ["facility_location", "k_means", "random"], "seeds": 2}
PLACES = ["Oslo", "Paris", "Lima", "Quito"]
THINGS = ["bridge", "opera", "harbour", "tower", "museum", "school"]


def pool() -> pl.DataFrame:
    """24 claims of two sources and both labels."""
    rows = [
        example_row(
            claim=f"The {thing} of {place} opened in {1880 + 7 * number}.",
            label=["Supported", "Refuted"][number % 2],
            source=["hover", "wice"][place in PLACES[:1]],
            native_id=f"{place} {thing}",
        )
        for place in PLACES
        for number, thing in enumerate(THINGS)
    ]
    return frame_of(SILVER_DECOMPOSED, rows)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dg.ExecuteInProcessResult]:
    data = tmp_path_factory.mktemp("data")
    write_parquet(pool(), data / "silver_decomposed.parquet")
    done = dg.materialize(
        [selectors, dg.AssetSpec("silver_decomposed")],
        selection=[selectors],
        resources={
            "io_manager": ParquetTables(base_dir=str(data)),
            "data_folder": DataFolder(base_dir=str(data)),
            "embedder": EmbedderResource(results_dir=str(data / "engine_results")),
        },
        run_config={"ops": {"study__selectors": {"config": CHOSEN}}},
    )
    return data, done


def test_the_table_and_its_figure_are_on_disk_with_the_engine_named(
    made: tuple[Path, dg.ExecuteInProcessResult],
):
    """A row for each run and the paper's three, each under what made its vectors."""
    data, done = made
    assert done.success
    table = SELECTOR_STUDY.conform(DataFolder(base_dir=str(data)).read("study/selectors"))
    here = table.filter(origin="here")
    assert ["facility_location", *["k_means"] * 2, *["random"] * 2] == here["selector"].to_list()
    assert all(engine.startswith("minilm") for engine in here["engine"])
    assert {24} == set(here["pool"])
    assert 3 == table.filter(origin="paper").height
    assert (here["core_seconds"] >= 0).all()
    drawn_as = {path.name for path in (data / STUDIES).iterdir()}
    assert {f"selectors.{end}" for end in ("png", "svg", "txt")} == drawn_as
    (study,) = read_studies(data)
    assert "selectors" == study.name
    assert study.drawn.svg.lstrip().startswith(b"<?xml")
    assert "of 24 claims under the same quotas" in study.sentence
    assert "with 2 seeds; vectors by minilm" in study.sentence
    (event,) = done.get_asset_materialization_events()
    metadata = event.materialization.metadata
    assert "data:image/png" in str(metadata["figure"].value)
    assert "farthest point | text-embedding-3-large" in str(metadata["selectors"].value)


def test_no_other_job_includes_a_study():
    """A study runs only where it is named, by the jobs of studies or by itself.

    That of three verdicts needs a data folder of its own, so it has a job of its own.
    """
    graph = defs.resolve_asset_graph()
    studies = {key for key in graph.get_all_asset_keys() if key.path[0] == "study"}
    grouped = {key for key in studies if graph.get(key).group_name == "studies"}
    assert dg.AssetKey(["study", "selectors"]) in grouped
    assert {dg.AssetKey(["study", "three_way"])} == studies - grouped
    jobs = {job.name: job for job in defs.resolve_all_job_defs()}
    holding = {
        name for name, job in jobs.items() if studies & set(job.asset_layer.selected_asset_keys)
    }
    assert {"studies", "three_way"} == holding - {"__ASSET_JOB"}
    behind = dg.AssetSelection.groups("funnel", "report").upstream().resolve(graph)
    assert not studies & behind


def test_a_table_shows_median_and_range_of_seeds_and_what_the_paper_lacks():
    """Of one run the figure alone; null is a dash; equal inputs draw equal bytes."""
    frame, embedder = pool(), BagOfWordsEmbedder()
    vectors = unit_rows(embedder.embed(frame["claim"].to_list()), frame.height)
    chosen = SelectorStudySettings.model_validate({**CHOSEN, "seeds": 3})
    compared = compare_selectors(vectors, frame, chosen, embedder.engine, CLOCKS)
    named = {
        tuple(cells[:2]): cells[2:]
        for cells in (
            line.strip("| ").split(" | ")
            for line in selectors_markdown(compared.table).splitlines()[2:]
        )
    }
    bins = compared.table.filter(selector="random")["bins"].sort().to_list()
    shown = named["random", "bag-of-words"][0]
    low, middle, high = (f"{one:.1f}" for one in bins)
    assert shown == (middle if low == high else rf"{middle} \({low} to {high}\)")
    assert ["66.6", "0.467", "0.653", "7.6", "3.28", "–", "–", "–", "–", "23.70", "–"] == named[
        "facility location", r"text-embedding-3-large \(paper\)"
    ]
    assert drawn(selectors_figure(compared)) == drawn(selectors_figure(compared))
    assert "No selector was run." == selectors_sentence(compared.table.filter(origin="paper"))
