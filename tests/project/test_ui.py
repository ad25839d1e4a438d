"""The Dagster UI in a real browser: the asset graph and one stage's page show the funnel."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from chromium import needs_chromium, opened_browser
from project import ROOT
from toy_corpus import corpus

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = needs_chromium


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("ui")
    home = folder / "home"
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
    environment = os.environ | {
        "DAGSTER_HOME": str(home),
        "DECOMPOSERL_CORPORA": str(corpus(folder / "corpora", claims=60)),
        "DECOMPOSERL_DATA": str(folder / "data"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    chosen = ["-m", "dagster_project.definitions", "--select", '+key:"catalog"']
    run = [sys.executable, "-m", "dagster", "asset", "materialize", *chosen]
    subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, check=True)
    address = f"http://127.0.0.1:{(port := free_port())}"
    serve = [sys.executable, "-m", "dagster_webserver", *chosen[:2]]
    server = subprocess.Popen(
        [*serve, "-h", "127.0.0.1", "-p", str(port)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_served(address)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=30)


def wait_until_served(address: str) -> None:
    """Wait until the web server answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"{address}/server_info"):  # noqa: S310 - loopback
                return
        except OSError:
            assert time.monotonic() < deadline, "the web server did not come up"
            time.sleep(0.2)


@pytest.fixture
def page(ui: str) -> Iterator["Page"]:
    with opened_browser() as browser:
        yield browser.new_page(viewport={"width": 1600, "height": 1200}, base_url=ui)


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


def test_a_stage_page_shows_its_drops_and_pictures(page: "Page"):
    """The page of a stage lists drops by reason and draws rows by source."""
    page.goto("/assets/rule_filtered?view=overview")
    page.get_by_text("drops by reason").first.wait_for(timeout=30_000)
    keep(page, "rule_filtered")
    assert page.get_by_text("by source").count() > 0
    assert page.get_by_text("label balance").count() > 0


def test_columns_are_shown_before_any_run(page: "Page"):
    """With types and meanings, on the page of an asset that was never made."""
    page.goto("/assets/training_claims_random?view=overview")
    page.get_by_text("16 hex digits of SHA-256").first.wait_for(timeout=30_000)
    keep(page, "columns")
    assert page.get_by_text("Never materialized").count() > 0
    assert page.get_by_text("unique: claim_id").count() > 0


def test_a_jobs_page_has_an_example_of_its_configuration(page: "Page"):
    """What a user may set is found where the job is launched."""
    page.goto("/locations/dagster_project.definitions/jobs/train")
    page.get_by_text("dry_run_only: true").first.wait_for(timeout=30_000)
    keep(page, "job")
