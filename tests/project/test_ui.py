"""The Dagster UI in a real browser, served as by ``make ui``: graph, pages, a run by clicking."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pytest

from chromium import needs_chromium, opened_browser
from project import ROOT
from resources.vllm.process import free_port
from toy_corpus import corpus, row

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = needs_chromium
CLAIMS, FURTHER = 60, 13


class Ui(NamedTuple):
    """Where the UI answers, and the folders of its graph."""

    address: str
    corpora: Path
    data: Path


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    folder = tmp_path_factory.mktemp("ui")
    home = folder / "home"
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
    made = Ui(f"http://127.0.0.1:{(port := free_port())}", folder / "corpora", folder / "data")
    environment = os.environ | {
        "DAGSTER_HOME": str(home),
        "DECOMPOSERL_CORPORA": str(corpus(made.corpora, CLAIMS)),
        "DECOMPOSERL_DATA": str(made.data),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    environment.pop("DAGSTER_MODULE_NAME", None)
    dagster = [sys.executable, "-m", "dagster"]
    chosen = ["-m", "dagster_project.definitions", "--select", '+key:"catalog"']
    run = [*dagster, "asset", "materialize", *chosen]
    subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, check=True)
    server = subprocess.Popen(
        [*dagster, "dev", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", str(port)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until_served(made.address)
        yield made
    finally:
        end(server)


def end(server: "subprocess.Popen[bytes]") -> None:
    """As Ctrl-C, which ends its web server, daemon and graph; then what ignored it."""
    server.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        server.wait(timeout=30)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait(timeout=30)


def wait_until_served(address: str) -> None:
    """Wait until the web server answers."""
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(f"{address}/server_info"):  # noqa: S310 - loopback
                return
        except OSError:
            assert time.monotonic() < deadline, "the web server did not come up"
            time.sleep(0.2)


@pytest.fixture
def page(ui: Ui) -> Iterator["Page"]:
    with opened_browser() as browser:
        yield browser.new_page(viewport={"width": 1280, "height": 900}, base_url=ui.address)


def keep(page: "Page", name: str) -> None:
    """Save a screenshot where UI_SCREENSHOTS names a folder."""
    if folder := os.environ.get("UI_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def test_the_asset_graph_shows_every_group_of_the_funnel(page: "Page"):
    """A newcomer finds sources, benchmarks, funnel and catalogue on the graph."""
    page.goto("/asset-groups")
    page.get_by_text("funnel", exact=True).first.wait_for(timeout=30_000)
    for group in ("sources", "benchmarks", "funnel", "catalog"):
        assert page.get_by_text(group, exact=True).count() > 0, group
    keep(page, "graph")


def test_a_stage_page_shows_its_drops_and_pictures(ui: Ui, page: "Page"):
    """Without a click: bars of kept and dropped, tables by source and reason; none is cut off."""
    page.goto("/assets/rule_filtered?view=overview")
    page.get_by_text("drops by reason").first.wait_for(timeout=30_000)
    figure = page.get_by_role("img", name="rows in, ")
    figure.scroll_into_view_if_needed()
    keep(page, "rule_filtered")
    assert figure.evaluate("image => image.naturalWidth") == 330
    entered = pl.read_parquet(ui.data / "claims/toy.parquet").height
    table = page.get_by_role("table").filter(has_text="share kept").last
    assert ["total", str(entered)] == table.locator("tbody tr").first.inner_text().split()[:2]
    assert page.get_by_text("label balance").count() > 0
    rooms = page.locator("[class*=assetEventMetadataScrollContainer]")
    widths = rooms.evaluate_all("all => all.map(one => [one.clientWidth, one.scrollWidth])")
    assert widths
    assert all(needed <= room for room, needed in widths)


def test_columns_and_configuration_are_shown_before_any_run(page: "Page"):
    """Types and meanings on an asset's page; on a job's, an example of what a user may set."""
    page.goto("/assets/training_claims_random?view=overview")
    page.get_by_text("16 hex digits of SHA-256").first.wait_for(timeout=30_000)
    keep(page, "columns")
    assert page.get_by_text("Never materialized").count() > 0
    assert page.get_by_text("unique: claim_id").count() > 0

    page.goto("/locations/decomposerl/jobs/train")
    page.get_by_text("dry_run_only: true").first.wait_for(timeout=30_000)
    keep(page, "job")


def value_of(page: "Page", label: str) -> str:
    """The value beside a name in the metadata of an asset's page."""
    name = page.get_by_text(label, exact=True)
    return page.locator("tbody > tr").filter(has=name).locator("td").last.inner_text()


def test_a_stage_is_made_by_clicking_and_its_page_has_the_numbers_of_its_file(ui: Ui, page: "Page"):
    """From the graph: jump to it, materialize it, wait for the run; then its page has new rows."""
    draw = random.Random(11)
    rows = [json.dumps(row(draw, number)) for number in range(CLAIMS, CLAIMS + FURTHER)]
    with (ui.corpora / "toy/claims.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n" + "\n".join(rows))
    page.goto("/asset-groups")
    page.get_by_text("sources", exact=True).first.wait_for(timeout=30_000)
    page.get_by_placeholder("Jump to…").fill("claims/toy")
    page.keyboard.press("Enter")
    page.get_by_text("View in Asset Catalog").wait_for(timeout=30_000)
    page.get_by_role("button", name="Materialize selected").click()
    page.get_by_role("link", name="View", exact=True).click(timeout=30_000)
    page.get_by_text("Success", exact=True).first.wait_for(timeout=120_000)
    keep(page, "run")
    page.goto("/assets/claims/toy?view=overview")
    page.get_by_text("rows_kept", exact=True).wait_for(timeout=30_000)
    keep(page, "made_by_clicking")
    assert str(CLAIMS + FURTHER) == value_of(page, "rows_in")
    kept = pl.read_parquet(ui.data / "claims/toy.parquet").height
    assert 0 < kept <= CLAIMS + FURTHER
    assert str(kept) == value_of(page, "rows_kept")
