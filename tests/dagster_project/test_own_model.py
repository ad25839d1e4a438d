"""``--endpoint URL --model NAME``: servers as people run them, wrong options, results kept."""

import json
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from math import exp
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.environment import entries_for
from environment import having, settings_of
from evaluation_graph import write_tests
from fault_server import MODEL, UNKNOWN_KEY, Answer, FaultServer, replying, spelled
from project import ROOT
from resources.policy_tiny.folder import CHECKPOINT, VIEW
from sample.policy_lessons import lessons
from tables import cases_beside

EVIDENCE = "Ada Brown was born in Odense."
CLAIM = ("--claim", EVIDENCE, "--evidence-text", EVIDENCE)
TRACE = "<think>a</think><question>Who?</question><answer>Ada.</answer><think>b</think>"
SERVERS = cases_beside(__file__, "model_servers")
"""The names that are asked for and reported, the field of a thought, and what is refused."""


@pytest.fixture(autouse=True)
def environment(tmp_path: Path) -> Iterator[None]:
    with having(DECOMPOSERL_DATA=str(tmp_path / "data"), OWN_KEY="sk-secret", COLUMNS="200"):
        yield


def run(*words: object) -> Result:
    """A command in this process, without the variables that it sets for those that it starts."""
    before = dict(os.environ)
    done = CliRunner().invoke(app, list(map(str, words)))
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    return done


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server["server"])
def test_verify_answers_at_every_kind_of_server(server: dict[str, Any], tmp_path: Path):
    """Whatever the reply calls the model; no server is sent what it refuses, nothing twice."""
    name, logprobs = server["asked"], server["logprobs"]
    thought = {server["thought"]: "Hm."} if server["thought"] else {}
    answer = spelled("Supported", "Refuted", logprobs=logprobs, model=server["reports"], **thought)
    with FaultServer(usual=answer, lists=server["lists"]) as served:
        options = ("--endpoint", f"{served.url}/", "--model", name, "--key-env", "OWN_KEY")
        words = ("verify", *CLAIM, *options, "--method", "simple", "--json")
        first = run(*words)
        assert 0 == first.exit_code, first.output
        assert first.stdout == run(*words).stdout
        (asked,) = served.asked
        assert {"Bearer sk-secret"} == set(served.authorizations)
    one = json.loads(first.stdout)
    assert set() == set(server["refuses"]) & set(asked)
    assert {"max_tokens", "max_completion_tokens"} & set(asked)
    given = one["confidence"] and one["confidence"]["raw"]
    assert given == (pytest.approx(exp(-0.1)) if logprobs else None)
    (entry,) = entries_for(settings_of(tmp_path / "data"))
    assert (entry.name, entry.key) == (one["system"], "OWN_KEY")
    assert f"chat:{name}@{served.url.removeprefix('http://')}" == one["engine"]
    assert "sk-secret" not in (tmp_path / f"data/named_models/{entry.name}.toml").read_text()


AT = ("--endpoint", "http://127.0.0.1:9/v1", "--model", "m")


@pytest.mark.parametrize("command", ["verify", "evaluate", "score"])
def test_wrong_options_are_one_sentence_with_the_next_step(command: str, tmp_path: Path):
    """Exit code 2, no password, and nothing is remembered."""
    (tmp_path / "traces.jsonl").write_text("{}\n")
    others = {"verify": CLAIM, "score": [tmp_path / "traces.jsonl"]}.get(command, [])
    for case in cases_beside(__file__, "wrong_endpoints"):
        if case["systems"] and command == "score":
            continue
        done = run(command, *others, *case["options"])
        assert (2, 1) == (done.exit_code, len(done.stderr.splitlines())), done.output
        assert case["says"] in done.stderr
        assert "u:p" not in done.stderr
    if command == "verify":
        assert "leave one out" in run(command, *CLAIM, *AT, "--system", "x").stderr
    assert () == entries_for(settings_of(tmp_path / "data"))


@pytest.mark.parametrize(
    ("path", "answer", "said"),
    [
        ("", UNKNOWN_KEY, "wants another key (HTTP 401): name it with --key-env"),
        ("/chat", Answer(404, body=b"{}"), "most endpoints end in /v1"),
    ],
)
def test_a_server_that_refuses_says_what_to_name(path: str, answer: Answer, said: str):
    """At the first use, before any claim is sent."""
    with FaultServer(usual=answer) as served:
        done = run("verify", *CLAIM, "--endpoint", f"{served.url}{path}", "--model", MODEL)
        assert (2, True) == (done.exit_code, said in done.stderr), done.output
        assert [] == [one for one in served.asked if one]


def test_a_judge_of_options_scores_and_gets_no_key_of_another(tmp_path: Path):
    """Its calls go to the endpoint; the key of the settings' judge does not."""
    traces = tmp_path / "traces.jsonl"
    row = {"claim": EVIDENCE, "evidence": EVIDENCE, "trace": TRACE}
    traces.write_text(json.dumps(row) + "\n")
    with FaultServer(usual=replying("<answer>1</answer>")) as served:
        options = ("--endpoint", served.url, "--model", MODEL)
        with having(DECOMPOSERL_JUDGE__KEY="OWN_KEY"):
            done = run("score", traces, *options)
            assert (2, []) == (done.exit_code, served.asked)
            assert "--key-env" in done.stderr
        done = run("score", traces, *options)
        assert (0, True) == (done.exit_code, f"judge=chat:{MODEL}" in done.stderr), done.output
        assert served.asked
    assert "two judges" in run("score", traces, *AT, "--judge-calls", traces).stderr


def template_entry(name: str, **changes: str) -> str:
    """An entry of ``init systems``, uncommented, with other values."""
    template = (ROOT / "dagster_project/systems_template.toml").read_text("utf-8")
    (block,) = re.findall(rf"^(#\[{name}\]\n(?:#\w.*\n)+)", template, re.MULTILINE)
    lines = dict(line.lstrip("#").split(" = ") for line in block.splitlines()[1:])
    lines |= {field: json.dumps(value) for field, value in changes.items()}
    return "\n".join([f"[{name}]", *(" = ".join(one) for one in lines.items()), ""])


def test_merged_weights_of_the_papers_form_verify_in_this_process(tmp_path: Path):
    """A tiny policy with a LoRA merged into it, by the entry of the authors' 7B: verdict, page."""
    pytest.importorskip("peft", reason="peft is not installed (extra train)")
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    folder = tmp_path / "data/weights"
    shutil.copytree(CHECKPOINT, folder)
    base = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype="float32")
    with warnings.catch_warnings(action="ignore"):
        get_peft_model(base, LoraConfig(r=2)).merge_and_unload().save_pretrained(folder)
    changes = {"model": "./weights", "dtype": "float32", "device": "cpu"}
    entry = template_entry("decomposerl-7b-here", **changes) + "max_tokens = 420\n"
    (tmp_path / "data/systems.toml").write_text(entry)
    lesson, page = next(iter(lessons(71_007, VIEW))), tmp_path / "page.html"
    given = tmp_path / "claim.jsonl"
    given.write_text(json.dumps({"claim": lesson.claim, "evidence": lesson.view}))
    done = run("verify", given, "--system", "decomposerl-7b-here", "--json", "--html", page)
    assert 0 == done.exit_code, done.output
    one = json.loads(done.stdout)
    assert one["engine"].startswith("transformers:weights:")
    assert one["verdict"] in {"Supported", "Refuted"}
    assert len(one["questions"]) > 1
    assert page.is_file()


def test_own_models_are_ranked_the_papers_beside_its_card(tmp_path: Path):
    """Measured, the paper's and the card's figures one below the other; a model by options, too."""
    data, asked = tmp_path / "data", "dipta007/decomposeRL-7b"
    write_tests(data, 6)
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    reply = replying(f"{TRACE}<verification>Supported</verification>")
    with FaultServer(usual=reply, lists=[asked]) as served, having(DAGSTER_HOME=str(tmp_path)):
        entry = template_entry("decomposerl-7b", base_url=served.url)
        (data / "systems.toml").write_text(entry)
        options = ("--endpoint", served.url, "--model", MODEL, "--method", "simple")
        done = run("evaluate", "decomposerl-7b", *options, "--benchmarks", "fever")
        assert 0 == done.exit_code, done.output
    board = run("leaderboard").stdout
    own, *_ = [one for one in entries_for(settings_of(data)) if one.method == "simple"]
    assert f"simple @ {MODEL}" in board
    assert (data / f"predictions/fever/{own.name}.parquet").is_file()
    lines = [line.split() for line in board.splitlines()]
    place = next(n for n, words in enumerate(lines) if words[:1] == ["decomposerl-7b"])
    assert "50.0±0.0" in lines[place] or "50.0" in " ".join(lines[place])
    assert [["↳", "paper"], ["↳", "card"]] == [words[:2] for words in lines[place + 1 : place + 3]]
    assert "74.1" in lines[place + 1]
    shown = run("leaderboard", "--format", "markdown").stdout
    (card,) = [line for line in shown.splitlines() if "↳ card" in line]
    assert ["86.3", "60.2", "77.0"] == re.findall(r"\d\d\.\d", card)
