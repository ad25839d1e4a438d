"""docs/how-to/paper-tables.md, run in order on one card, and what its runs cost."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import dagster as dg
import polars as pl
import pytest
import yaml

from dagster_project.engine_choices import engine_choices
from dagster_project.engine_resources import engine_resources
from dagster_project.profiles import profile_from_environment, resources_for
from dagster_project.public_figures import PRICES
from decomposerl.baselines.catalogue import METHODS
from decomposerl.evaluation.published import TEST_SET_SIZES
from decomposerl.evaluation.systems import system_named, systems
from decomposerl.reports import cost
from decomposerl.schemas import BENCHMARK_CLAIMS, CURVES
from evaluation_graph import claim_row
from project import ROOT, SUPPORT
from resources.store.parquet import DataFolder, write_parquet
from resources.training.process import TrainingOutcome
from resources.training.run_store import RunFolder, write_outcome
from resources.vllm.process import free_port
from stand_in_server import adapter, requests_of

POLICIES = ("paper_7b", "supervision_10", "no_necessity")
SYSTEMS = systems(METHODS, POLICIES)
PATIENCE_S = 300
PASSED_ON = ("DECOMPOSERL_PROFILE", "DECOMPOSERL_EVALUATION_URL", "DECOMPOSERL_EVALUATION_CONTEXT")
DAGSTER = """#!/bin/sh
for name in {names}; do set -- "$@" --data-urlencode "$name=$(printenv $name)"; done
while [ "$1" != --partition ]; do shift; done
partition=$2; shift 2
exec curl -sSf -G "http://127.0.0.1:{port}/$partition" "$@"
"""
VLLM = """#!/bin/sh
STAND_IN_HOLDS={held} CUDA_VISIBLE_DEVICES=0 exec {python} {program} "$@"
"""


def blocks() -> list[str]:
    """The shell blocks that evaluate on the card: not those that cost money or only rank."""
    page = (ROOT / "docs/how-to/paper-tables.md").read_text("utf-8")
    found = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    return [one for one in found if "serve" in one]


COMMIT = "0123456789abcdef0123456789abcdef01234567"
"""MiniCheck runs code of its repository, so its server starts at a commit only."""


class Evaluation:
    """Predicts one claim with a system in this process, as a line of the page would all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: list[str] = []

    def predict(self, key: str, env: dict[str, str]) -> None:
        """Raises whatever the run would."""
        own = {
            "DECOMPOSERL_VLLM": f"{self.folder}/bin/vllm serve",
            "DECOMPOSERL_ALLOW_OWN_PROMPT": "yes",
        }
        choices = engine_choices("paper", env | own)
        made = engine_resources(choices, str(self.folder / "results"))
        model = made["evaluation_model"]
        verifier = made["verifier"].model_copy(update={"revision": COMMIT})
        row = pl.DataFrame([claim_row(len(self.done))], schema=BENCHMARK_CLAIMS.schema)
        try:
            data = DataFolder(base_dir=str(self.folder))
            engine = model.opened(system_named(key, SYSTEMS), data, verifier)
            engine.predict("fever", BENCHMARK_CLAIMS.conform(row), 0.0, str)
            self.done.append(key)
        finally:
            model.close()
            verifier.close()


@pytest.fixture
def evaluation(tmp_path: Path) -> Iterator[tuple[Evaluation, int]]:
    """A folder with both policies, and the port at which its lines are answered."""
    for name in POLICIES:
        run = RunFolder(tmp_path / "policy" / name)
        run.path.mkdir(parents=True)
        adapter(run.adapter, rank=64)
        write_parquet(CURVES.empty(), run.curves)
        write_outcome(run, TrainingOutcome(7, 0, "", run.adapter, run.curves, {}, {}, {}, {}, {}))
    mine = Evaluation(tmp_path)

    class Line(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Evaluate; 500 with the error where the line fails."""
            asked = urlsplit(self.path)
            env = {name: values[0] for name, values in parse_qs(asked.query).items()}
            status, said = 200, ""
            try:
                mine.predict(asked.path.strip("/"), env)
            except Exception as error:  # noqa: BLE001 - the line's failure
                status, said = 500, str(error)
                sys.stderr.write(f"{asked.path}: {said}\n")
            self.send_response(status)
            self.end_headers()

    server = HTTPServer(("127.0.0.1", 0), Line)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield mine, server.server_port
    server.shutdown()
    server.server_close()


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_the_rows_of_the_tables_are_filled_in_order_on_one_card(
    evaluation: tuple[Evaluation, int], tmp_path: Path
):
    """Every line evaluates; no server is asked for what it lacks, and no two share the card."""
    mine, port = evaluation
    stand_in = {"python": sys.executable, "program": SUPPORT / "vllm_stand_in.py"}
    stand_in |= {"held": tmp_path / "held"}
    script(tmp_path / "bin/vllm", VLLM.format(**stand_in))
    names = " ".join(PASSED_ON)
    script(tmp_path / ".venv/bin/dagster", DAGSTER.format(names=names, port=port))
    ending = "trap 'kill $server 2> /dev/null || true' EXIT"
    lines = "\n".join(["set -eE", ending, *blocks()]).replace(
        "wait $server;", "wait $server || true;"
    )
    ran = subprocess.run(
        ["/bin/bash", "-c", lines.replace("8004", str(free_port()))],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2_000:]
    printed = re.findall(r"^evaluate (\S+)", "\n".join(blocks()), re.MULTILINE)
    assert printed == mine.done
    assert 20 < len(printed)
    assert {200} == {one["status"] for one in requests_of(tmp_path)}


COSTS, BASELINES, PROMPTS = (
    (ROOT / "docs" / name).read_text("utf-8")
    for name in ("how-to/costs.md", "results/baselines.md", "reference/prompts.md")
)
REPLY, LONG_REPLY = 40, 300
SINGLE_CALLS, POLICIES = 8, 2


def calls_a_claim() -> dict[str, float]:
    """By system, the mean that the study of baselines counted."""
    table = BASELINES.split("| Step by step | Calls per claim | Mean |")[1].split("<!--")[0]
    cost_rows = re.findall(r"^\| (\w[^|]*?) \| .* \| ([\d.]+) \|$", table, re.MULTILINE)
    return {name: float(mean) for name, mean in cost_rows}


def tokens(section: str) -> int:
    """Of a section of Self-Ask's prompt."""
    return int(re.findall(rf"\(#self_ask-{section}\) \| `\w+` \| (\d+) ", PROMPTS)[0])


def cost_rows() -> list[tuple[str, ...]]:
    """Calls per claim, calls, prompt tokens and dollars of each row."""
    counted = calls_a_claim()
    assert 11 == len(counted)
    price, text = PRICES["gpt-4.1-mini"], cost.PAPER.claim_tokens + cost.PAPER.evidence_tokens
    steps = text + (tokens("transcript") + tokens("answer")) / 2
    paid = ((counted["Self-Ask"], steps, REPLY), (1.0, text + tokens("single_call"), LONG_REPLY))
    found = []
    for each, prompt, reply in paid:
        calls = cost.BENCHMARK_CLAIMS * each
        dollars = price.dollars(calls * prompt, calls * reply)
        amount = f"{calls * prompt / cost.PER_PRICE:,.0f} M"
        found.append((f"{each:g}", f"{calls:,.0f}", amount, f"{dollars:,.0f}"))
    whole = sum(counted.values()) + SINGLE_CALLS + POLICIES
    calls = cost.BENCHMARK_CLAIMS * whole
    amount = f"≥ {calls * text / cost.PER_PRICE:,.0f} M"
    return [*found, (f"{whole:g}", f"{calls:,.0f}", amount, "")]


def test_the_table_is_calculated_from_what_the_page_names(tmp_path: Path):
    """Claims, calls, prompts and prices give each cell; the ceiling keeps the model's prices."""
    section = COSTS.split("## Evaluation\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    printed = [tuple(cell.strip() for cell in line.split("|")[2:-1]) for line in lines]
    assert cost_rows() == printed
    assert f"{cost.BENCHMARK_CLAIMS:,} test claims" in section
    assert f"{sum(one.rows for one in TEST_SET_SIZES.values()):,} in the four" in section
    dollars = sum(float(row[-1]) for row in printed[:2])
    tables = (ROOT / "docs/how-to/paper-tables.md").read_text("utf-8")
    assert f"about {round(dollars, -1):.0f} dollars" in tables
    (block,) = re.findall(r"```yaml\n(.*?)```", COSTS, re.DOTALL)
    given = yaml.safe_load(block)["resources"]["evaluation_model"]
    env = {"DECOMPOSERL_PROFILE": "paper", "DECOMPOSERL_DATA": str(tmp_path)}
    made = resources_for(profile_from_environment(env))["evaluation_model"]
    resource_config = {"evaluation_model": given}
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_resources({"evaluation_model": made}, instance, resource_config) as found,
    ):
        openai = found.evaluation_model.openai
    price = PRICES["gpt-4.1-mini"]
    assert (20.0, price.prompt, price.completion) == (
        openai.dollar_ceiling, openai.prompt_price, openai.completion_price
    )  # fmt: skip
