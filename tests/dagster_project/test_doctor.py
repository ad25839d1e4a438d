"""``decomposerl doctor``: what is missing and how to fix it, and what a run will cost."""

import json
import math
import re
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from dagster_project import public_figures as figures
from dagster_project.cli import app
from dagster_project.doctor import check_profile, estimates_for
from dagster_project.engine_resources import resources_for
from dagster_project.settings import ProfileName, Settings
from dagster_project.training_estimate import judge_hours, training_estimate
from decomposerl.errors import ConfigError
from decomposerl.prompts.judge import (
    TASKS,
    JudgeSettings,
    judge_request,
)
from decomposerl.reports.cost import PAPER, Workload, cost_totals
from decomposerl.reports.readiness import (
    CostEstimate,
    Readiness,
    ReadinessCheck,
    estimate_text,
    readiness_text,
)
from decomposerl.training.estimate import JudgeTokens, longest_judge_calls
from environment import settings_of, thinking, variables
from minicheck_package import write_package
from project import ROOT
from resources.judge.chat_judge import load_judge_prompts
from resources.preflight import probes as look
from resources.preflight import servers
from resources.preflight.workload import measured_workload
from resources.store.prompts import load_prompt
from resources.tokens.word_tokens import WordTokens

CANARY = "sk-canary-0123456789"
NO_KEY = SecretStr("")
NOBODY = "http://127.0.0.1:9/v1"
BARE: dict[str, str | None] = {"OPENAI_API_KEY": None}


@contextmanager
def listing(*names: str, body: bytes = b"", status: int = 200) -> Iterator[SimpleNamespace]:
    """A server whose ``/v1/models`` lists these models, or is ``body``; ``keys`` were shown it."""
    content = body or json.dumps({"data": [{"id": name} for name in names]}).encode()
    keys: list[str | None] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """The list, whatever it is, for the one path there is."""
            keys.append(self.headers.get("Authorization"))
            self.send_response(status if self.path == "/v1/models" else 404)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_port}/v1", keys=keys)
        finally:
            server.shutdown()
            thread.join()


def doctor(data: Path, *words: str, **env: str) -> Result:
    named = {f"DECOMPOSERL_{name}": value for name, value in env.items() if name != "KEY"}
    key = {"OPENAI_API_KEY": env["KEY"]} if "KEY" in env else {}
    return CliRunner(env=BARE | named | key).invoke(app, ["doctor", "--data", str(data), *words])


def page_of(data: Path, *words: str, **env: str) -> dict[str, Any]:
    """What ``--json`` prints."""
    page: dict[str, Any] = json.loads(doctor(data, "--json", *words, **env).stdout)
    return page


def test_the_embedded_profile_needs_nothing_that_is_not_here(tmp_path: Path):
    """Exit code 0; no key, endpoint or model is asked for, and no money is due."""
    result = doctor(tmp_path)
    assert 0 == result.exit_code, result.output
    assert "✗" not in result.stdout
    assert "endpoint" not in result.stdout
    page = page_of(tmp_path)
    assert (0, 0.0) == (page["missing"], page["estimates"][0]["total"]["dollars"])
    training = page["estimates"][-1]
    total = training["total"]
    assert ("Training tiny", 0.0, 0.0) == (training["run"], total["dollars"], total["gpu_hours"])


def test_the_bundled_sample_is_named_where_the_papers_models_would_read_it(tmp_path: Path):
    """With the variable to set, in ``local``; ``paper`` is refused. Nothing with a folder."""
    (tmp_path / "corpora").mkdir()
    nowhere = {"SILVER__BASE_URL": NOBODY, "EMBEDDER__BASE_URL": NOBODY}
    for name, mark in (("local", "·"), ("paper", "✗")):
        page = doctor(tmp_path, PROFILE=name, **nowhere).stdout
        assert f"{mark} corpora   the bundled sample" in page
        assert "    set DECOMPOSERL_CORPORA (docs/how-to/curate.md" in page
        named = doctor(tmp_path, PROFILE=name, CORPORA=str(tmp_path / "corpora"), **nowhere).stdout
        assert "bundled sample" not in named
        assert "✓ corpora" in named


def test_each_missing_thing_stands_with_what_mends_it(tmp_path: Path):
    """Exit code 1; the line after a cross is a command or a variable."""
    result = doctor(tmp_path, PROFILE="local", SILVER__BASE_URL=NOBODY, EMBEDDER__MODEL="no/such")
    assert 1 == result.exit_code
    lines = result.stdout.splitlines()
    crosses = [i for i, line in enumerate(lines) if line.startswith("✗")]
    assert f"{len(crosses)} required things missing" == lines[-1]
    fixes = [lines[i + 1].strip() for i in crosses]
    assert "hf download no/such" in fixes
    assert any(fix.endswith("DECOMPOSERL_SILVER__BASE_URL") for fix in fixes)
    known = ("pip ", "python ", "hf ", "start ", "set ")
    assert [] == [fix for fix in fixes if not fix.startswith(known)]
    assert [] == [fix for fix in fixes if fix.startswith(("pip ", "hf ")) and ", " in fix]


def test_the_paper_profile_wants_a_card_or_a_server(tmp_path: Path):
    """Without a verifier URL vLLM and a GPU are needed; with one, neither.

    ``env`` is on every machine; the server that it starts may not be.
    """
    env = {"PROFILE": "paper", "SILVER__BASE_URL": NOBODY, "EMBEDDER__BASE_URL": NOBODY}
    starts = {"no-such-program": "no-such-program"}
    starts |= {f"env CUDA_VISIBLE_DEVICES=1 {tmp_path}/vllm serve": f"{tmp_path}/vllm"}
    for words, program in starts.items():
        findings = page_of(tmp_path, MACHINE__VLLM=words, **env)["findings"]
        (lost,) = [one for one in findings if one["part"] == "program"]
        assert (program, "missing") == (lost["what"], lost["state"])
        assert "DECOMPOSERL_VERIFIER__BASE_URL" in lost["fix"]
    with listing(Settings.model_fields["verifier"].default.model) as server:
        page = page_of(tmp_path, VERIFIER__BASE_URL=server.url, **env)
    parts = {(f["part"], f["state"]) for f in page["findings"]}
    assert not [part for part in parts if part[0] == "program" or part == ("GPU", "missing")]
    assert ("endpoint", "ok") in parts
    assert page["missing"] == sum(f["state"] == "missing" for f in page["findings"]) > 0


def test_a_key_is_sent_to_its_endpoint_and_never_shown(tmp_path: Path):
    """Only OpenAI's own endpoint needs one; text and JSON hold no part of it."""
    with listing("gpt-5-mini", "text-embedding-3-large") as server:
        env = {"PROFILE": "paper"}
        for section in ("SILVER", "EMBEDDER"):
            env |= {f"{section}__BASE_URL": server.url, f"{section}__KEY": "OPENAI_API_KEY"}
        results = [doctor(tmp_path, *words, KEY=CANARY, **env) for words in ((), ("--json",))]
    assert {f"Bearer {CANARY}"} == set(server.keys)
    for result in results:
        assert CANARY not in result.output
        assert "canary" not in result.output
        assert "set (never shown)" in result.stdout
    assert "missing" == look.key("A_KEY", NO_KEY).state
    paper, local = (settings_of(tmp_path, profile=name).served for name in ("paper", "local"))
    assert ["embedder", "decomposer"] == [name for name, role in paper.items() if role.at_openai]
    assert not any(role.at_openai for role in local.values())


ANSWERS = [
    (b'{"data": [{"id": "another"}]}', 200, "another"),
    (b'{"data": []}', 200, "serves nothing"),
    *((body, 200, "no list") for body in (b"<html>", b'{"data": 3}', b"\xff\xfe")),
    (b"{}", 401, "401"),
]


def test_an_endpoint_that_is_not_the_right_one_says_how():
    """Each way of being wrong is told apart, nobody listening too, and none is an exception."""
    for body, status, said in ANSWERS:
        with listing(body=body, status=status) as server:
            found = servers.endpoint(server.url, "tiny", NO_KEY, "fix")
            assert [None] == server.keys  # no key, no header
        assert ("missing", "fix") == (found.state, found.fix)
        assert said in found.said
    assert "does not answer" in servers.endpoint(NOBODY, "tiny", NO_KEY, "").said
    with listing("other", "tiny") as server:
        assert "ok" == servers.endpoint(server.url, "tiny", NO_KEY, "").state


def test_the_endpoints_of_an_evaluation_are_looked_at(tmp_path: Path):
    """A person's own must list its model; the one for open models is noted where it is silent."""

    def findings_of(own: str, opened: str) -> list[tuple[str, str]]:
        env = {"PROFILE": "local", "ENDPOINT__MODEL": "mine", "SILVER__BASE_URL": own}
        page = page_of(tmp_path, ENDPOINT__BASE_URL=own, EVALUATION__BASE_URL=opened, **env)
        asked = (f"{own} for mine", opened)
        return [(f["state"], f["said"]) for f in page["findings"] if f["what"] in asked]

    with listing("mine", "another") as server:
        right = findings_of(server.url, server.url)
    assert {"ok"} == {state for state, _ in right}
    assert any("mine, another" in said for _, said in right)
    with listing("yours") as server:
        (own, opened) = findings_of(server.url, NOBODY)
    assert ("missing", "note") == (own[0], opened[0])
    assert "yours" in own[1]
    with listing("shared") as server:  # a model at one place is asked for once
        roles = {f"{role}__BASE_URL": server.url for role in ("SILVER", "ENDPOINT")}
        models = {f"{role}__MODEL": "shared" for role in ("SILVER", "ENDPOINT")}
        page = doctor(tmp_path, PROFILE="local", **roles, **models).stdout
    assert 1 == page.count(f"{server.url} for shared")


THINKS = dict.fromkeys(("Qwen/Qwen3-32B", "gpt-5-mini"), "ok")
THINKS |= dict.fromkeys(("Qwen/QwQ-32B", "deepseek-ai/DeepSeek-R1", "openai/gpt-oss-20b"), "note")
THINKS |= {"Qwen/Qwen2.5-7B-Instruct": ""}


@pytest.mark.parametrize("model", THINKS)
def test_a_verdict_needs_room_for_the_thought(model: str, tmp_path: Path):
    """A model that thinks, but that gets no tokens for it, is noted with what fixes it."""
    state = THINKS[model]
    page = page_of(tmp_path, PROFILE="local", ENDPOINT__MODEL=model, ENDPOINT__BASE_URL=NOBODY)
    budgets = [one for one in page["findings"] if one["part"] == "budget"]
    assert [state] * bool(state) == [one["state"] for one in budgets]
    for one in budgets:
        assert model in one["what"]
        assert (state == "note") == ("thinking_tokens" in one["fix"])
    limits = {room: look.verdict_tokens(model, room)[0].state for room in (1_023, 1_024)}
    assert {1_023: "note", 1_024: "ok"} == limits


def test_packages_models_cards_and_room_are_found_where_they_are(tmp_path: Path):
    """An installed distribution has its version; a folder counts once its files are there.

    Cards have name, memory and free memory; the folder of the data need not exist yet.
    """
    assert "ok" == look.package("numpy", "").state
    absent = look.package("no-such-package", "pip install it", required=False)
    assert ("note", "pip install it") == (absent.state, absent.fix)
    folder = str(tmp_path)
    assert "tokenizer.json" in look.hub_model(folder, "tokenizer.json").said
    (tmp_path / "tokenizer.json").write_text("{}")
    assert "ok" == look.hub_model(folder, "tokenizer.json").state
    assert "ok" == look.hub_model(folder).state
    assert "missing" == look.hub_model("nobody/nothing").state
    assert "missing" == look.spacy_model("en_core_web_no").state
    program = tmp_path / "smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB, 81559, 80000'\necho 'X, Y, 9, 8'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    first, second = look.gpus(str(program), required=True)
    assert ("0 NVIDIA H100 80GB", "81,559 MiB, 80,000 MiB free") == (first.what, first.said)
    assert "1 X, Y" == second.what
    program.write_text("#!/bin/sh\nexit 9\n")
    assert ["missing"] == [found.state for found in look.gpus(str(program), required=True)]
    assert ["note"] == [found.state for found in look.gpus("no-such-program", required=False)]
    for body, peak in {"echo 120; echo 71234": 71_234, "exit 9": None, "echo x": None}.items():
        program.write_text(f"#!/bin/sh\n{body}\n")
        with look.PeakMemory(str(program)) as held:
            pass
        assert peak == held.mib, body  # of the fullest card, over all samples
    later = tmp_path / "not" / "yet"
    assert "ok" == look.disk(later, 1e-6).state
    full = look.disk(later, 1e9)
    assert ("missing", True) == (full.state, "DECOMPOSERL_DATA" in full.fix)
    assert not later.exists()


def frame(claims: int, evidence: str = "a b c d e f g h i j") -> pl.DataFrame:
    return pl.DataFrame({"claim": ["one two"] * claims, "evidence": [evidence] * claims})


def write(frame: pl.DataFrame, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(file)


def test_rows_and_lengths_are_counted_where_there_are_some(tmp_path: Path):
    """What is here is counted; both estimates say which rows they took, money has a price."""
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
    for file in tmp_path.rglob("*.parquet"):
        file.unlink()
    write(frame(30), tmp_path / "claims" / "a.parquet")
    env = variables(SILVER__PROMPT_PRICE=1, SILVER__COMPLETION_PRICE=10, SILVER__BASE_URL=NOBODY)
    env |= variables(EMBEDDER__BASE_URL=NOBODY)
    here, paper, _ = check_profile(settings_of(tmp_path, profile="paper", env=env)).estimates
    assert "30 claims in the data folder (rows and lengths measured)" in here.basis
    assert "155,506 claims (rows from the paper" in paper.basis
    assert "assumed" in paper.basis
    lines = {line.port: line for line in paper.lines}
    chat = lines["decomposer"]
    assert chat.dollars == pytest.approx((chat.prompt_tokens + 10 * chat.completion_tokens) / 1e6)
    assert lines["verifier"].gpu_hours == pytest.approx(PAPER.verifier / 500 / 60)
    assert 30 == here.lines[0].calls


def test_the_prompts_are_as_long_as_the_figures_say():
    """Words around empty texts times 1.3, of the longest form, up to the next ten."""

    def tens(texts: Sequence[str]) -> float:
        return 10.0 * math.ceil(max(WordTokens().count(texts)) / 10)

    silver, minicheck = load_prompt("silver"), load_prompt("minicheck")
    blank = {"document": "", "claim": ""}
    forms = [silver.filled(form) for form in ("json", "tags")]
    longest = tens([silver.filled("prompt", **blank, reply_format=form) for form in forms])
    assert figures.SILVER_PROMPT_TOKENS == longest
    both = f"{minicheck.filled('system')} {minicheck.filled('user', **blank)}"
    assert figures.MINICHECK_PROMPT_TOKENS == tens([both])
    prompts = load_judge_prompts()
    requests = [
        request
        for asking in (JudgeSettings(structured=True), JudgeSettings())
        for request in (
            judge_request(prompts, asking, task, question="\n", answers=[""]) for task in TASKS
        )
    ]
    texts = [" ".join(turn.content for turn in request.messages) for request in requests]
    assert JudgeTokens().around == tens(texts)


def test_the_page_says_what_is_missing_in_the_last_line():
    """And keeps a finding's fix for when it is needed."""
    fine = ReadinessCheck("package", "numpy", "ok", "2.0", "pip install numpy")
    lost = ReadinessCheck("model", "m", "missing", "not here", "hf download m")

    def text(*findings: ReadinessCheck) -> str:
        basis = CostEstimate("nothing", PAPER, ())
        return readiness_text(Readiness("local", "/data", findings, (basis,), ("a source",)))

    assert text(fine).endswith("\nnothing required is missing")
    assert "pip install" not in text(fine)
    assert text(fine, lost).endswith("\n1 required thing missing")
    assert "hf download m" in text(fine, lost)
    assert "- a source" in text(fine)
    assert (0, 0, 0.0, 0.0) == cost_totals([])


ENDPOINTS = ("SILVER", "JUDGE", "EMBEDDER", "QUESTIONS", "EVALUATION", "VERIFIER")


def test_the_form_of_minicheck_is_looked_for(tmp_path: Path):
    """What is lost without MiniCheck's form or the tokenizer is named, with what mends it."""
    nowhere = [str(tmp_path / "nowhere")]
    for use in ("chat", "pair"):
        lost = look.verifier_form(use, "", allow_own=False, search=nowhere)
        assert ("missing", True) == (
            lost.state,
            "DECOMPOSERL_VERIFIER__ALLOW_OWN_PROMPT=yes" in lost.said,
        )
        assert "pip install --no-deps 'minicheck @ git+https://github.com/Liyan06/" in lost.fix
        assert "DECOMPOSERL_PATHS__PROMPTS" in lost.fix
        ours = look.verifier_form(use, "", allow_own=True, search=nowhere)
        assert ("note", True) == (ours.state, "own text" in ours.said)
        here = look.verifier_form(use, "", allow_own=False, search=[write_package(tmp_path / use)])
        assert "ok" == here.state
        assert here.said.startswith("prompt=published@")
    wrong = look.verifier_form("chat", "/no such folder", allow_own=True, search=nowhere)
    assert ("missing", "set DECOMPOSERL_PATHS__PROMPTS") == (wrong.state, wrong.fix)
    lost = look.chunk_tokenizer("", "nobody/nothing")
    assert ("note", True) == (lost.state, "bytes" in lost.said)
    assert "DECOMPOSERL_VERIFIER__TOKENIZER" in lost.fix
    assert "note" == look.chunk_tokenizer("", "/no such name").state
    assert "missing" == look.chunk_tokenizer(str(tmp_path), "nobody/nothing").state
    (tmp_path / "tokenizer.json").write_text("{}")
    for tokenizer, model in ((str(tmp_path), "nobody/nothing"), ("", str(tmp_path))):
        assert "ok" == look.chunk_tokenizer(tokenizer, model).state
    assert "as configured" in look.chunk_tokenizer("bytes", str(tmp_path)).said
    assert "missing" == look.hub_model("/no such/name").state
    env = {"PROFILE": "paper", "SILVER__BASE_URL": NOBODY, "VERIFIER__TOKENIZER": str(tmp_path)}
    findings = page_of(tmp_path, **env)["findings"]
    (found,) = [one for one in findings if one["what"].startswith("tokenizer of the chunks")]
    assert str(tmp_path / "tokenizer.json") == found["said"]


@pytest.mark.parametrize("profile", ["local", "paper"])
def test_the_doctor_reads_the_form_as_the_stage_does(tmp_path: Path, profile: ProfileName):
    """The user's file counts where it has the model's sections; embedded has no such line."""

    def findings(name: ProfileName, **env: str) -> list[str]:
        named = {f"DECOMPOSERL_{section}__BASE_URL": NOBODY for section in ENDPOINTS}
        found = check_profile(settings_of(tmp_path, profile=name, env={**named, **env}))
        return [one.said for one in found.findings if one.part == "prompt"]

    pair = "<!-- section: pair -->\nweigh: {document}{separator}{claim}\n"
    chat = "<!-- section: system -->\nWeigh.\n<!-- section: user -->\n{document} {claim}\n"
    texts = {"local": pair, "paper": chat}
    (tmp_path / "minicheck.md").write_text(texts.pop(profile), "utf-8")
    (said,) = findings(profile, DECOMPOSERL_PATHS__PROMPTS=str(tmp_path))
    assert said.startswith("prompt=file@")
    (tmp_path / "minicheck.md").write_text(texts.popitem()[1], "utf-8")
    (said,) = findings(profile, DECOMPOSERL_PATHS__PROMPTS=str(tmp_path))
    assert "has no section" in said
    assert [] == findings("embedded")


NOWHERE = ROOT / "no such folder"
PRICED = {"JUDGE__PROMPT_PRICE": "1", "JUDGE__COMPLETION_PRICE": "10"}
UNPRICED = {"PROFILE": "local", "SILVER__BASE_URL": NOBODY, "JUDGE__BASE_URL": NOBODY}
LOCAL = UNPRICED | PRICED


def training(data: Path, *words: str, **env: str) -> dict[str, Any]:
    """The page's estimate of training, the last one."""
    estimate: dict[str, Any] = page_of(data, *words, **env)["estimates"][-1]
    return estimate


def test_training_is_estimated_for_the_experiment_that_is_named(tmp_path: Path):
    """Half the epochs, half the rollouts; money follows from the price of the variable.

    Claims that are here are counted, with their n* and lengths; held-out claims at both ends.
    """
    judge, embedder = training(tmp_path, "--experiment", "one_epoch", **LOCAL)["lines"]
    assert round((87_424 // 2 + 4 * 256) * 11.52) == judge["calls"]
    expected = (judge["prompt_tokens"] + 10 * judge["completion_tokens"]) / 1e6
    assert pytest.approx(expected) == judge["dollars"]
    assert embedder["dollars"] is None
    claims = {"claim": "one two", "evidence": "a b c d e f g h i j", "n_star": 3}
    pl.DataFrame([claims] * 8).write_parquet(tmp_path / "training_claims.parquet")
    at = {"TRAINING__GENERATION": "vllm_server", "TRAINING__GENERATION_URL": NOBODY[:-3]}
    page = page_of(tmp_path, **LOCAL, **at)
    estimate = page["estimates"][-1]
    assert "8 training_claims in the data folder" in estimate["basis"]
    sampled = 8 * 16 + 2 * 256
    assert [sampled * (4 * 3 + 1), sampled * 3] == [one["calls"] for one in estimate["lines"][:2]]
    (found,) = [one for one in page["findings"] if one["part"] == "sampler"]
    assert ("missing", NOBODY[:-3]) == (found["state"], found["what"])
    assert "DECOMPOSERL_TRAINING__GENERATION_URL" in found["fix"]


def paper_that_thinks(word: str) -> Settings:
    """The paper's profile, its judge's thinking written as one word or a number of tokens."""
    return settings_of(NOWHERE, profile="paper", env=thinking(word))


def test_a_judge_of_another_kind_costs_otherwise(tmp_path: Path):
    """A ruling takes 120 tokens, more with thinking; unknown hours are a dash."""
    for word, reply in (("", 120), ("off", 120), ("512", 632), ("on", 1_000), ("default", 1_000)):
        line = training_estimate(paper_that_thinks(word)).lines[0]
        assert reply * line.calls == line.completion_tokens
    paper = settings_of(NOWHERE, profile="paper")
    tiny = training_estimate(paper, "tiny_judge").lines[0]
    shown = (tiny.engine, tiny.dollars, tiny.completion_tokens)
    assert ("tiny judge on answerdotai/ModernBERT-large", None, 0) == shown
    large = training_estimate(paper, "paper_7b").lines[0]
    assert 0 < (tiny.gpu_hours or 0) < (large.gpu_hours or 0) / 50
    at_home = training_estimate(settings_of(NOWHERE), "tiny_clean_classifiers").lines[0]
    assert ("tiny judge on minilm", None) == (at_home.engine, at_home.gpu_hours)
    fp8 = UNPRICED | {"JUDGE__MODEL": "Qwen/Qwen3-32B-FP8"}
    (judge, embedder), twice = training(tmp_path, **fp8)["lines"], f"{NOBODY},http://127.0.0.1:7/v1"
    tokens = judge["prompt_tokens"] + judge["completion_tokens"]
    assert judge["gpu_hours"] == pytest.approx(tokens / 4_068 / 3_600)
    assert judge["gpu_hours"] < (large.gpu_hours or 0)
    assert embedder["gpu_hours"] is None
    total = training(tmp_path, **fp8 | {"JUDGE__BASE_URL": twice})["total"]
    assert (total["gpu_hours"], total["hours"]) == (judge["gpu_hours"], judge["gpu_hours"] / 2)
    lines = doctor(tmp_path, **UNPRICED | {"JUDGE__MODEL": "own/judge"}).stdout.splitlines()
    asked = max(n for n, line in enumerate(lines) if line.startswith("judge"))
    assert lines[asked].endswith("–")
    assert lines[asked + 2].startswith("total")
    assert lines[asked + 2].endswith("–")
    total = training(tmp_path, **UNPRICED)["total"]
    assert [] == total["at_least"]


def test_the_doctor_prices_every_way_to_think(tmp_path: Path):
    """GPU-hours by reading, the same in the doctor's figures and on the page; and the chosen."""
    hours = judge_hours()
    words = "; ".join(f"{word} {n:,.1f}" for word, n in hours.items())
    bounded = {"JUDGE__THINKING_TOKENS": "512", "JUDGE__BOUND_THINKING": "yes"}
    page = doctor(tmp_path, **LOCAL, JUDGE__THINKING="on", **bounded).stdout
    assert f"{words}; here it is 512" in " ".join(page.split())
    guide = (ROOT / "docs/how-to/costs.md").read_text("utf-8")
    assert ["off", "512", "on"] == list(hours)
    for word, n in hours.items():
        judge = resources_for(paper_that_thinks(word))["judge"]
        (most,) = longest_judge_calls([9_813], 4_500, judge.most_tokens)
        cells = rf"^\| `{word}` .*\b{judge.most_tokens:,}\b.* \| {most:,} \| {n:,.1f} \|$"
        assert re.search(cells, guide, re.MULTILINE), cells


@pytest.mark.parametrize("name", ["local", "paper"])
def test_the_page_on_costs_prints_what_the_doctor_prints(name: ProfileName, tmp_path: Path):
    """``docs/how-to/costs.md`` holds the estimates at the paper's rows, and that of training."""
    (paper,) = estimates_for(settings_of(tmp_path, profile=name))
    training = training_estimate(settings_of(NOWHERE, profile="paper"))
    assert "Training paper_7b" == training.run
    page = (ROOT / "docs/how-to/costs.md").read_text("utf-8")
    for key, shown in ((f"estimate {name}", paper), ("training paper", training)):
        block = page.split(f"<!-- {key}: begin -->")[1].split("<!--")[0].strip()
        assert f"```text\n{estimate_text(shown)}\n```" == block


def test_a_measured_card_takes_the_place_of_published_rates(tmp_path: Path):
    """By port, not from a small run; a damaged file names the command that writes it again."""
    settings = settings_of(tmp_path, profile="paper")

    def hours() -> dict[str, float | None]:
        (funnel,), training = estimates_for(settings), training_estimate(settings)
        tiny = training_estimate(settings, "tiny_judge")
        named = {"verifier": funnel, "embedder": training, "judge": tiny}
        return {
            port: line.gpu_hours
            for port, of in named.items()
            for line in of.lines
            if port == line.port
        }

    published, card = hours(), tmp_path / "gpu.json"
    rates = {"verifier": 9e3, "embedder": 9e4, "tiny_judge": 1e6, "update": 9e3}
    plain = {"card": "a card, 79 GiB", "tiny": True, "tokens_per_s": rates}
    card.write_text(json.dumps(plain))
    assert published == hours()
    card.write_text(json.dumps(plain | {"tiny": False}))
    measured = hours()
    assert published["embedder"] is None
    assert measured["verifier"] == pytest.approx(PAPER.verifier * 1_131 / 9e3 / 3_600)
    assert measured["embedder"] == pytest.approx(234_638 * 20 / 9e4 / 3_600, rel=0.01)
    assert measured["judge"] == pytest.approx(
        published["judge"] * figures.TINY_JUDGE_TOKENS_A_SECOND.amount / 1e6
    )
    assert "measured by perf.gpu on a card" in " ".join(
        doctor(tmp_path, PROFILE="paper").stdout.split()
    )
    for damaged in ("{", "[]", json.dumps(plain | {"tokens_per_s": {"verifier": "quick"}})):
        card.write_text(damaged)
        with pytest.raises(ConfigError, match=r"gpu.json .* python -m perf.gpu --out"):
            figures.card_rates(tmp_path)
