"""``decomposerl doctor``: what is missing and how to fix it, and what a run will cost."""

import json
import math
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from dagster_project import public_figures as figures
from dagster_project.cli import app
from dagster_project.doctor import check_profile
from dagster_project.engine_choices import MINICHECK_7B, engine_choices
from dagster_project.profiles import Profile, read_key
from decomposerl.reports.cost import PAPER, Workload, cost_totals, estimate
from decomposerl.reports.readiness import CostEstimate, Readiness, ReadinessCheck, readiness_text
from resources.preflight import probes as look
from resources.preflight import servers
from resources.preflight.workload import measured_workload
from resources.store.prompts import load_prompt
from resources.tokens.word_tokens import WordTokens

CANARY = "sk-canary-0123456789"
NO_KEY = SecretStr("")
NAMES = (
    *("PROFILE", "CORPORA", "DATA", "DEVICE", "VLLM", "VLLM_CARDS", "VERIFIER_URL"),
    *("VERIFIER_KEY", "VERIFIER_TOKENIZER", "EMBEDDER_URL", "EMBEDDER_MODEL", "EMBEDDER_PRICE"),
    *("CHAT_URL", "CHAT_MODEL", "CHAT_PRICE", "CHAT_DOLLARS", "PROMPTS"),
    *(f"{role}_{what}" for role in ("JUDGE", "QUESTIONS") for what in ("URL", "MODEL", "KEY")),
)
BARE: dict[str, str | None] = {"OPENAI_API_KEY": None} | {f"DECOMPOSERL_{n}": None for n in NAMES}


class ModelList(ThreadingHTTPServer):
    """Answers ``/v1/models`` with ``body``, and keeps the keys it was shown."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        self.body, self.status = body, status
        self.keys: list[str | None] = []
        super().__init__(("127.0.0.1", 0), _Answers)

    @property
    def url(self) -> str:
        """As a variable names it."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Answers(BaseHTTPRequestHandler):
    server: ModelList

    def do_GET(self) -> None:
        """The list, whatever it is, for the one path there is."""
        self.server.keys.append(self.headers.get("Authorization"))
        self.send_response(self.server.status if self.path == "/v1/models" else 404)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Quiet."""


@contextmanager
def listing(*names: str, body: bytes | None = None, status: int = 200) -> Iterator[ModelList]:
    """A server that lists these models, until the block ends."""
    made = json.dumps({"data": [{"id": name} for name in names]}).encode()
    with ModelList(made if body is None else body, status) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def closed_url() -> str:
    """Where nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


def doctor(data: Path, *words: str, **env: str) -> Result:
    named = {f"DECOMPOSERL_{name}": value for name, value in env.items() if name != "KEY"}
    key = {"OPENAI_API_KEY": env["KEY"]} if "KEY" in env else {}
    return CliRunner(env=BARE | named | key).invoke(app, ["doctor", "--data", str(data), *words])


def test_the_embedded_profile_needs_nothing_that_is_not_here(tmp_path: Path):
    """Exit code 0; no key, endpoint or model is asked for, and no money is due."""
    result = doctor(tmp_path)
    assert 0 == result.exit_code, result.output
    assert "nothing required is missing" in result.stdout
    assert "✗" not in result.stdout
    assert "endpoint" not in result.stdout
    page = json.loads(doctor(tmp_path, "--json").stdout)
    assert (0, 0.0) == (page["missing"], page["estimates"][0]["total"]["dollars"])


def test_the_bundled_sample_is_named_where_the_papers_models_would_read_it(tmp_path: Path):
    """With the variable to set, in ``local`` and ``paper``; nothing once a folder is named."""
    (tmp_path / "corpora").mkdir()
    nowhere = {"CHAT_URL": closed_url(), "EMBEDDER_URL": closed_url()}
    for name in ("local", "paper"):
        page = doctor(tmp_path, PROFILE=name, **nowhere).stdout
        assert "· corpora   the bundled sample: invented claims" in page
        assert "    set DECOMPOSERL_CORPORA (docs/how-to/curate.md#lay-out-real-corpora)" in page
        named = doctor(tmp_path, PROFILE=name, CORPORA=str(tmp_path / "corpora"), **nowhere).stdout
        assert "bundled sample" not in named
        assert "✓ corpora" in named


def test_each_missing_thing_stands_with_what_mends_it(tmp_path: Path):
    """Exit code 1; the line after a cross is a command or a variable."""
    result = doctor(tmp_path, PROFILE="local", CHAT_URL=closed_url(), EMBEDDER_MODEL="no/such")
    assert 1 == result.exit_code
    lines = result.stdout.splitlines()
    crosses = [i for i, line in enumerate(lines) if line.startswith("✗")]
    assert f"{len(crosses)} required things missing" == lines[-1]
    fixes = [lines[i + 1].strip() for i in crosses]
    assert "hf download no/such" in fixes
    assert any(fix.endswith("DECOMPOSERL_CHAT_URL") for fix in fixes)
    assert [] == [
        m for m in fixes if not m.startswith(("pip ", "python ", "hf ", "start ", "set "))
    ]


def test_the_paper_profile_wants_a_card_or_a_server(tmp_path: Path):
    """Without a verifier URL vLLM and a GPU are needed; with one, neither."""
    nowhere = closed_url()
    env = {"PROFILE": "paper", "CHAT_URL": nowhere, "EMBEDDER_URL": nowhere}
    starts = json.loads(doctor(tmp_path, "--json", VLLM="no-such-program", **env).stdout)
    by_part = {(f["part"], f["what"]): f for f in starts["findings"]}
    assert "missing" == by_part["program", "no-such-program"]["state"]
    assert "DECOMPOSERL_VERIFIER_URL" in by_part["program", "no-such-program"]["fix"]
    with listing(MINICHECK_7B) as server:
        attached = doctor(tmp_path, "--json", VERIFIER_URL=server.url, **env)
    page = json.loads(attached.stdout)
    parts = {(f["part"], f["state"]) for f in page["findings"]}
    assert not [part for part in parts if part[0] == "program" or part == ("GPU", "missing")]
    assert ("endpoint", "ok") in parts
    assert page["missing"] == sum(f["state"] == "missing" for f in page["findings"]) > 0


def test_a_key_is_sent_to_its_endpoint_and_never_shown(tmp_path: Path):
    """The report says that it is set; text and JSON hold no part of it."""
    with listing("gpt-5-mini", "text-embedding-3-large") as server:
        env = {"PROFILE": "paper", "CHAT_URL": server.url, "EMBEDDER_URL": server.url}
        results = [doctor(tmp_path, *words, KEY=CANARY, **env) for words in ((), ("--json",))]
    assert {f"Bearer {CANARY}"} == set(server.keys)
    for result in results:
        assert CANARY not in result.output
        assert "canary" not in result.output
        assert "set (never shown)" in result.stdout


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b'{"data": [{"id": "another"}]}', 200, "serves another, not the model"),
        (b'{"data": []}', 200, "serves nothing"),
        (b"<html>", 200, "no list of models"),
        (b'{"data": 3}', 200, "no list of models"),
        (b"\xff\xfe", 200, "no list of models"),
        (b"{}", 401, "status 401"),
    ],
)
def test_an_endpoint_that_is_not_the_right_one_says_how(body: bytes, status: int, said: str):
    """Each way of being wrong has its sentence, and none is an exception."""
    with listing(body=body, status=status) as server:
        found = servers.endpoint(server.url, "tiny", NO_KEY, "fix")
        assert [None] == server.keys  # no key, no header
    assert ("missing", "fix") == (found.state, found.fix)
    assert said in found.said


def test_an_endpoint_that_nobody_listens_at_is_missing():
    """And one that lists the model is not."""
    assert "does not answer" in servers.endpoint(closed_url(), "tiny", NO_KEY, "").said
    with listing("other", "tiny") as server:
        assert "ok" == servers.endpoint(server.url, "tiny", NO_KEY, "").state


def test_the_endpoints_of_an_evaluation_are_looked_at(tmp_path: Path):
    """A person's own must list its model; the one for open models is noted where it is silent."""

    def findings_of(own: str, opened: str) -> list[tuple[str, str]]:
        env = {"PROFILE": "local", "ENDPOINT_MODEL": "mine", "CHAT_URL": own}
        found = doctor(tmp_path, "--json", ENDPOINT_URL=own, EVALUATION_URL=opened, **env)
        findings = json.loads(found.stdout)["findings"]
        asked = (f"{own} for mine", opened)
        return [(f["state"], f["said"]) for f in findings if f["what"] in asked]

    with listing("mine", "another") as server:
        right = findings_of(server.url, server.url)
    assert ("ok", "answers and lists the model") in right
    assert ("ok", "answers and serves mine, another") in right
    with listing("yours") as server:
        (own, opened) = findings_of(server.url, closed_url())
    assert ("missing", "serves yours, not the model") == own
    assert "note" == opened[0]
    assert "does not answer" in opened[1]


@pytest.mark.parametrize(
    ("model", "state"),
    [
        ("Qwen/Qwen3-32B", "ok"),
        ("gpt-5-mini", "ok"),
        ("Qwen/QwQ-32B", "note"),
        ("deepseek-ai/DeepSeek-R1", "note"),
        ("openai/gpt-oss-20b", "note"),
        ("Qwen/Qwen2.5-7B-Instruct", None),
    ],
)
def test_a_verdict_needs_room_for_the_thought(model: str, state: str | None, tmp_path: Path):
    """A model that thinks, but that gets no tokens for it, is noted with what fixes it."""
    env = {"PROFILE": "local", "ENDPOINT_MODEL": model}
    found = doctor(tmp_path, "--json", ENDPOINT_URL=closed_url(), **env)
    budgets = [one for one in json.loads(found.stdout)["findings"] if one["part"] == "budget"]
    assert [one["what"] for one in budgets] == [f"tokens of a verdict by {model}"] * bool(state)
    assert [state] * bool(state) == [one["state"] for one in budgets]
    assert [state == "note"] * bool(state) == ["thinking_tokens" in one["fix"] for one in budgets]
    limits = {room: look.verdict_tokens(model, room)[0].state for room in (1_023, 1_024)}
    assert {1_023: "note", 1_024: "ok"} == limits


def test_a_model_at_one_place_is_asked_for_once(tmp_path: Path):
    """Though the silver stage asks it, and a person named it for an evaluation as well."""
    with listing("shared") as server:
        env = {
            f"{role}_{part}": of
            for role in ("CHAT", "ENDPOINT")
            for part, of in (("URL", server.url), ("MODEL", "shared"))
        }
        page = doctor(tmp_path, PROFILE="local", **env).stdout
    assert 1 == page.count(f"{server.url} for shared")


def test_a_required_key_is_missed_and_an_optional_one_is_noted():
    """Only OpenAI's own endpoint needs one."""
    assert "missing" == look.key("A_KEY", NO_KEY, required=True).state
    assert "note" == look.key("A_KEY", NO_KEY, required=False).state
    paper, local = engine_choices("paper", {}), engine_choices("local", {})
    assert [False, True, True, False, False] == [server.needs_key for server in paper.servers]
    assert [False, False] == [server.needs_key for server in local.servers]


def test_packages_and_models_are_found_where_they_are(tmp_path: Path):
    """An installed distribution has its version; a folder counts once its files are there."""
    assert "ok" == look.package("numpy", "").state
    absent = look.package("no-such-package", "pip install it", required=False)
    assert ("note", "pip install it") == (absent.state, absent.fix)
    folder = str(tmp_path)
    assert "no tokenizer.json" == look.hub_model(folder, "tokenizer.json").said
    (tmp_path / "tokenizer.json").write_text("{}")
    assert "ok" == look.hub_model(folder, "tokenizer.json").state
    assert "ok" == look.hub_model(folder).state
    assert "missing" == look.hub_model("nobody/nothing").state
    assert "missing" == look.spacy_model("en_core_web_no").state


def test_the_program_behind_env_is_the_one_looked_for(tmp_path: Path):
    """``env`` is on every machine; the server that it starts may not be."""
    starts = f"env CUDA_VISIBLE_DEVICES=1 {tmp_path}/vllm serve"
    nowhere = closed_url()
    env = {"PROFILE": "paper", "VLLM": starts, "CHAT_URL": nowhere, "EMBEDDER_URL": nowhere}
    findings = json.loads(doctor(tmp_path, "--json", **env).stdout)["findings"]
    (program,) = [found for found in findings if found["part"] == "program"]
    assert (f"{tmp_path}/vllm", "missing") == (program["what"], program["state"])


def test_bytes_instead_of_tokens_are_named(tmp_path: Path):
    """Without the model's tokenizer the page says what is lost, and where one may be named."""
    lost = look.chunk_tokenizer("", "nobody/nothing")
    assert ("note", True) == (lost.state, "measured in bytes" in lost.said)
    assert "DECOMPOSERL_VERIFIER_TOKENIZER" in lost.fix
    assert "note" == look.chunk_tokenizer("", "/no such name").state
    assert "missing" == look.chunk_tokenizer(str(tmp_path), "nobody/nothing").state
    (tmp_path / "tokenizer.json").write_text("{}")
    assert "ok" == look.chunk_tokenizer(str(tmp_path), "nobody/nothing").state
    assert "ok" == look.chunk_tokenizer("", str(tmp_path)).state
    assert "as configured" in look.chunk_tokenizer("bytes", str(tmp_path)).said
    wrong = look.hub_model("/no such/name")
    assert ("missing", "neither a folder nor a name of the hub") == (wrong.state, wrong.said)
    env = {"PROFILE": "paper", "CHAT_URL": closed_url(), "VERIFIER_TOKENIZER": str(tmp_path)}
    findings = json.loads(doctor(tmp_path, "--json", **env).stdout)["findings"]
    (found,) = [one for one in findings if one["what"].startswith("tokenizer of the chunks")]
    assert str(tmp_path / "tokenizer.json") == found["said"]


def test_cards_are_those_that_nvidia_smi_lists(tmp_path: Path):
    """Name, memory and free memory of each; without the program there are none."""
    program = tmp_path / "smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB, 81559, 80000'\necho 'X, Y, 9, 8'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    first, second = look.gpus(str(program), required=True)
    assert ("0 NVIDIA H100 80GB", "81,559 MiB, 80,000 MiB free") == (first.what, first.said)
    assert "1 X, Y" == second.what
    program.write_text("#!/bin/sh\nexit 9\n")
    assert ["missing"] == [found.state for found in look.gpus(str(program), required=True)]
    assert ["note"] == [found.state for found in look.gpus("no-such-program", required=False)]


def test_too_small_a_disk_is_missing(tmp_path: Path):
    """The folder need not exist yet."""
    folder = tmp_path / "not" / "yet"
    assert "ok" == look.disk(folder, 1e-6).state
    full = look.disk(folder, 1e9)
    assert ("missing", True) == (full.state, "DECOMPOSERL_DATA" in full.fix)
    assert not folder.exists()


def frame(claims: int, evidence: str = "a b c d e f g h i j") -> pl.DataFrame:
    return pl.DataFrame({"claim": ["one two"] * claims, "evidence": [evidence] * claims})


def write(frame: pl.DataFrame, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(file)


def test_rows_and_lengths_are_counted_where_there_are_some(tmp_path: Path):
    """A stage that has not run keeps, as far as anybody knows, all that it is given."""
    assert measured_workload(tmp_path) is None
    write(frame(30), tmp_path / "claims" / "a.parquet")
    write(frame(10, "a " * 50), tmp_path / "claims" / "b.parquet")
    write(frame(5), tmp_path / "benchmark" / "t.parquet")
    expected = Workload(40, 40, 45, 40, 2.6, 1.3 * (30 * 10 + 10 * 50) / 40, measured=True)
    assert expected == measured_workload(tmp_path)
    write(frame(20), tmp_path / "rule_filtered.parquet")
    write(frame(9), tmp_path / "decontaminated.parquet")
    found = measured_workload(tmp_path)
    assert found is not None
    assert (40, 20, 25, 9) == (found.entities, found.verifier, found.embedder, found.decomposer)


def test_the_cost_is_estimated_for_what_is_here_and_for_the_papers_pool(tmp_path: Path):
    """Both say which rows they took; money follows from the price of the variable."""
    write(frame(30), tmp_path / "claims" / "a.parquet")
    env = {"DECOMPOSERL_CHAT_PRICE": "1/10", "DECOMPOSERL_CHAT_URL": closed_url()}
    env |= {"DECOMPOSERL_EMBEDDER_URL": env["DECOMPOSERL_CHAT_URL"]}
    profile = Profile("paper", None, tmp_path, engine_choices("paper", env))
    here, paper, _ = check_profile(profile, lambda name: read_key(name, env)).estimates
    assert "30 claims in the data folder (rows and lengths measured)" in here.basis
    assert "155,506 claims (rows from the paper" in paper.basis
    assert "assumed" in paper.basis
    lines = {line.port: line for line in paper.lines}
    chat = lines["decomposer"]
    assert chat.dollars == pytest.approx((chat.prompt_tokens + 10 * chat.completion_tokens) / 1e6)
    assert lines["verifier"].gpu_hours == pytest.approx(PAPER.verifier / 500 / 60)
    assert 30 == here.lines[0].calls


def test_the_prompts_are_as_long_as_the_figures_say():
    """Words around document and claim times 1.3, of the longer form, up to the next ten."""

    def tens(*texts: str) -> float:
        return 10.0 * math.ceil(max(WordTokens().count(texts)) / 10)

    silver, minicheck = load_prompt("silver"), load_prompt("minicheck")
    blank = {"document": "", "claim": ""}
    forms = [
        silver.filled("prompt", **blank, reply_format=silver.filled(form))
        for form in ("json", "tags")
    ]
    assert figures.SILVER_PROMPT_TOKENS == tens(*forms)
    both = f"{minicheck.filled('system')} {minicheck.filled('user', **blank)}"
    assert figures.MINICHECK_PROMPT_TOKENS == tens(both)


def test_the_page_says_what_is_missing_in_the_last_line():
    """And keeps a finding's fix for when it is needed."""
    fine = ReadinessCheck("package", "numpy", "ok", "2.0", "pip install numpy")
    lost = ReadinessCheck("model", "m", "missing", "not here", "hf download m")

    def text(*findings: ReadinessCheck) -> str:
        lines: tuple[Any, ...] = tuple(estimate(PAPER, []))
        basis = CostEstimate("nothing", PAPER, lines)
        return readiness_text(Readiness("local", "/data", findings, (basis,), ("a source",)))

    assert text(fine).endswith("\nnothing required is missing")
    assert "pip install" not in text(fine)
    assert text(fine, lost).endswith("\n1 required thing missing")
    assert "hf download m" in text(fine, lost)
    assert "- a source" in text(fine)
    assert (0, 0, 0.0, 0.0) == cost_totals([])
