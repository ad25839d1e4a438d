"""Predictions of a system as frames: what stands in them, and that labels never do."""

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    ModelReply,
    Steps,
    Verification,
    ask,
)
from decomposerl.chat import Token
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.confidence import READING
from decomposerl.schemas import BENCHMARK_CLAIMS, CALLS, PREDICTIONS
from decomposerl.traces.trace import Cycle
from evaluation_parts import ScriptedCaller, two_steps
from fakes import ScriptedVerifier
from resources.evaluation.calibrating import fit_on_predictions, read_calibration, write_calibration
from resources.evaluation.generation import Task, predict
from resources.evaluation.verifier_caller import VerifierCaller, scored

LABELS = ("Supported", "Refuted")


def claims(count: int) -> pl.DataFrame:
    rows = [
        {
            "claim_id": f"{n:016x}",
            "claim": f"claim {n}",
            "evidence": "one\ntwo",
            "passages": ["one", "two"],
            "label": LABELS[n % 2],
            "document_id": f"page {n // 2}",
        }
        for n in range(count)
    ]
    return pl.DataFrame(rows, {name: BENCHMARK_CLAIMS.schema[name] for name in rows[0]})


def traced(question: ClaimInput) -> Steps:
    """One call whose answer is the verdict; a trace of two cycles, one an abstention."""
    (spoken,) = yield from ask(ModelCall("verify", "first", {"claim": question.claim}))
    cycles = (Cycle("Who?", "Ann.", "Good."), Cycle("When?", "I don't know."))
    verdict = "Supported" if "Supported" in spoken.text else None
    notes = {"agreement": 0.5, "rounds": len(question.passages)}
    status = "parsed" if verdict else "unparsed"
    return Verification(verdict, status, spoken.text, cycles, "Start.", spoken, notes)


def sure(call: ModelCall) -> ModelReply:
    """Supported with a probability by the claim's number; the last claims are unsure."""
    number = int(call.variables["claim"].split()[1])
    listed = (("Supported", -0.1 - number / 100), ("Refuted", -2.5 + number / 100))
    return ModelReply("Supported", tokens=(Token("Supported", listed[0][1], listed),))


def task(**changes: object) -> Task:
    named = {"system": "s-m-faithful", "method": "s", "model": "m", "protocol": "faithful"}
    return Task(**{**named, "procedure": traced, "prompt": "simple", **changes})  # type: ignore[arg-type]


def test_a_row_holds_what_was_said(tmp_path: Path):
    """Verdict, confidence, trace and notes of each claim in order; calls beside it."""
    made = predict(task(), "hover", claims(3), ScriptedCaller(sure), tmp_path)
    assert made.predictions.schema == PREDICTIONS.schema
    assert made.calls.schema == CALLS.schema
    assert 3 == made.asked
    row = made.predictions.row(1, named=True)
    assert f"{1:016x}" == row["claim_id"]
    assert ("Supported", "parsed", 0.5, 2, 1, 1) == tuple(
        row[name]
        for name in (
            *("verdict", "parse_status", "agreement", "questions", "abstentions", "calls"),
        )
    )
    assert 0.8 < row["confidence_raw"] < row["confidence_normalised"] < 1
    assert row["confidence_bound"] is False
    assert row["confidence_calibrated"] is None
    assert row["support_score"] is None
    assert {"agreement": 0.5, "rounds": 2} == json.loads(row["notes"])
    assert {"question": "When?", "answer": "I don't know.", "thought": None} == row["trace"][
        "cycles"
    ][1]
    assert [0, 0, 0] == made.calls["call"].to_list()
    assert {None} == set(made.calls["failure"])


def test_without_alternatives_a_confidence_is_unavailable(tmp_path: Path):
    """No log probabilities, no number: null, and never 1."""
    said = ScriptedCaller(lambda _: ModelReply("Supported"))
    found = predict(task(), "hover", claims(2), said, tmp_path).predictions
    for name in ("confidence_raw", "confidence_normalised", "confidence_bound"):
        assert [None, None] == found[name].to_list()


def test_a_confidence_of_another_verdict_is_none(tmp_path: Path):
    """The tokens must spell the verdict that was read."""
    contrary = ModelReply("Supported", tokens=(Token("Refuted", -0.1, (("Refuted", -0.1),)),))
    caller = ScriptedCaller(lambda _: contrary)
    found = predict(task(), "hover", claims(1), caller, tmp_path).predictions
    assert [None] == found["confidence_raw"].to_list()


def test_labels_are_never_seen_and_runs_are_no_ops(tmp_path: Path):
    """Other labels, or none, give the same frames; nothing is asked again."""
    first = predict(task(), "hover", claims(5), ScriptedCaller(sure), tmp_path)
    blind = claims(5).drop("label")
    caller = ScriptedCaller(sure)
    again = predict(task(), "hover", blind, caller, tmp_path)
    assert [] == caller.batches
    assert 0 == again.asked
    assert first.predictions.equals(again.predictions)
    assert first.calls.equals(again.calls)
    for change in (
        {"system": "other"},
        {"settings": "[1]"},
        {"seed": 7},
        {"samples": 2},
        {"revision": 2},
    ):
        other = predict(task(**change), "hover", claims(5), ScriptedCaller(sure), tmp_path)
        assert 5 == other.asked


def test_the_hash_is_of_words_and_settings_alone():
    """Samples change no answer; protocol, the code's revision, settings and seed may."""
    caller = ScriptedCaller()
    hashes = [
        task(**change).prompt_hash(caller)
        for change in (
            {},
            {"protocol": "single_call"},
            {"revision": 2},
            {"settings": "[1]"},
            {"seed": 7},
        )
    ]
    assert 5 == len(set(hashes))
    assert hashes[0] == task(samples=3).prompt_hash(caller)
    assert {64} == {len(one) for one in hashes}
    parts = [caller.prompt_hash("simple"), "faithful", 1, "{}", 42]
    read = [*parts, READING]  # a confidence that is read anew is another result
    assert hashes[0] == hashlib.sha256(json.dumps(read).encode()).hexdigest()


def test_another_cut_of_the_evidence_is_another_question(tmp_path: Path):
    """A claim keeps its id where its units are cut anew; it is asked again, the others are not."""
    predict(task(), "hover", claims(3), ScriptedCaller(sure), tmp_path)
    again = claims(3).with_columns(
        passages=pl.when(pl.col("claim") == "claim 1")
        .then(pl.lit(["one two"]))
        .otherwise("passages")
    )
    made = predict(task(), "hover", again, ScriptedCaller(sure), tmp_path)
    assert 1 == made.asked
    rounds = [json.loads(notes)["rounds"] for notes in made.predictions["notes"]]
    assert [2, 1, 2] == rounds


def test_no_claims_give_empty_frames(tmp_path: Path):
    """A test set that is not there has no predictions, and nobody is asked."""
    made = predict(task(), "hover", claims(1).clear(), ScriptedCaller(), tmp_path)
    assert (0, 0) == (made.predictions.height, made.calls.height)


def test_a_baseline_without_decomposition_has_no_trace(tmp_path: Path):
    """Its trace is null, not empty."""
    plain = task(procedure=two_steps, decomposes=False)
    made = predict(plain, "hover", claims(2), ScriptedCaller(), tmp_path)
    assert [None, None] == made.predictions["trace"].to_list()
    assert [0, 1, 0, 1] == made.calls["call"].to_list()
    assert {3} == set(made.calls["prompt_tokens"])


def test_a_verifier_gives_a_score(tmp_path: Path):
    """All claims in one batch, each with its probability and the verdict at one half."""
    verifier = ScriptedVerifier({"claim 0": 0.5, "claim 1": 0.9})
    method = task(procedure=scored, prompt="minicheck", decomposes=False)
    caller = VerifierCaller(verifier)
    found = predict(method, "hover", claims(2), caller, tmp_path).predictions
    assert [0.5, 0.9] == found["support_score"].to_list()
    assert ["Refuted", "Supported"] == found["verdict"].to_list()
    assert [2] == verifier.asked
    assert ["scripted-verifier"] == found["engine"].unique().to_list()


def test_a_calibration_is_used_where_it_fits_and_refused_elsewhere(tmp_path: Path):
    """It comes from a dev split, is kept by system, and holds for one model and prompt."""
    dev = predict(task(), "dev", claims(40), ScriptedCaller(sure), tmp_path).predictions
    calibration = fit_on_predictions(dev, claims(40), "temperature", "dev split").calibration
    write_calibration(tmp_path, "s-m-faithful", calibration)
    kept = read_calibration(tmp_path, "s-m-faithful")
    assert calibration == kept
    assert read_calibration(tmp_path, "another") is None
    caller = ScriptedCaller(sure)
    found = predict(task(), "hover", claims(4), caller, tmp_path, calibration=kept).predictions
    assert 0 == found["confidence_calibrated"].null_count()
    assert (found["confidence_calibrated"] < found["confidence_normalised"]).all()
    asked = ScriptedCaller(sure)
    with pytest.raises(EvaluationError, match="fitted to prompt hash"):
        predict(task(seed=9), "hover", claims(4), asked, tmp_path, calibration=kept)
    assert [] == asked.batches
    other = ScriptedCaller(sure, engine="another")
    with pytest.raises(EvaluationError, match="fitted to model"):
        predict(task(), "hover", claims(4), other, tmp_path, calibration=kept)
