"""Confidence is read where the verdict stands; calibration equals scikit-learn's fits."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.linear_model import LogisticRegression

from decomposerl.chat import Token
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.calibration import (
    Calibration,
    CalibrationMethod,
    Confidence,
    cross_fitted,
    fit_calibration,
    read_confidence,
    reliability,
)
from decomposerl.evaluation.metrics import calibration_error


def listed(text: str, **chances: float) -> Token:
    """A token that stands first among its alternatives."""
    every = {text: chances.pop("own", 0.9)} | {k.replace("_", " "): v for k, v in chances.items()}
    logs = tuple((word, math.log(p)) for word, p in every.items())
    return Token(text, logs[0][1], logs)


def plain(*texts: str) -> list[Token]:
    return [Token(text, -0.5, ((text, -0.5), ("Refuted", -1.0))) for text in texts]


def test_a_trace_is_read_after_its_last_tag():
    """Alternatives are grouped by the word they begin; others count for neither."""
    step = listed("S", own=0.6, Supported=0.1, _Ref=0.2, Not=0.05)
    tokens = [*plain("<verification>", "Refuted", "</", "verification>", "\n<verif")]
    tokens += [*plain("ication>", "\n"), step, *plain("upported", "</verification>")]
    read = read_confidence(tokens)
    assert read is not None
    assert (read.verdict, read.lower_bound) == ("Supported", False)
    assert read.raw == pytest.approx(0.7)
    assert read.normalised == pytest.approx(0.7 / 0.9)
    assert read.support == pytest.approx(0.7 / 0.9)


def test_a_tag_that_shares_its_token_with_the_verdict():
    """The end of the tag stands before the word in every alternative that counts."""
    step = listed(">\nRef", own=0.5, **{">Sup": 0.25, "Sup": 0.2})
    read = read_confidence([*plain("<verification"), step, *plain("uted</verification>")])
    assert read is not None
    assert (read.verdict, read.lower_bound) == ("Refuted", False)
    assert read.normalised == pytest.approx(0.5 / 0.75)
    assert read.support == pytest.approx(0.25 / 0.75)


PLAIN_VERDICTS = json.loads(Path(__file__).with_name("plain_verdicts.json").read_text("utf-8"))


def test_a_plain_verdict_is_found():
    """A named verdict counts wherever it stands, a bare one on the last line with letters."""
    for tokens, verdict in PLAIN_VERDICTS:
        read = read_confidence(plain(*tokens))
        assert read is not None, tokens
        assert verdict == read.verdict, tokens


def test_no_verdict_gives_no_confidence():
    """Nor has what does not spell a label, nor a token for which an endpoint lists nothing."""
    assert read_confidence([Token("Supported", -0.01)]) is None
    assert read_confidence([]) is None
    for text in (
        *("", "\n\n", "Not supported", "Verdict: not supported", "Unknown", "<verification>"),
        "Supported\nVerdict: unclear",
        "Final answer: none\nSupported",
        "So the final answer is: unclear\nSupported",
        "I doubt that the final answer is: Supported",
        "Verdict: Supported or Refuted",
        "Supported, since the text says so.",
        "Supported\nbut unsure",
        "<verification>Unknown</verification>",
        "<verification>Supporters</verification>",
        "<verification>Supp",
        "Supported <verification>yes</verification>",
    ):
        assert read_confidence(plain(*text)) is None, text
        assert read_confidence(plain(text)) is None, text


def test_an_unlisted_rival_gets_the_most_it_can_have():
    """The bound is the least listed probability, or what the list leaves where that is less."""
    wide = read_confidence([listed("Supported", own=0.5, the=0.2, a=0.1)])
    assert wide == Confidence(0.5, pytest.approx(0.5 / 0.6), lower_bound=True, verdict="Supported")
    alone = read_confidence([listed("Supported", own=0.98)])
    assert alone is not None
    assert alone.normalised == pytest.approx(0.98)
    sure = read_confidence([listed("Supported", own=1.0)])
    assert sure is not None
    assert sure.lower_bound
    assert 0.999 < sure.normalised < 1.0


words = st.sampled_from(["Supported", "Refuted"])


@given(st.floats(0.01, 0.6), st.floats(0.01, 0.3), st.integers(1, 8), words)
def test_normalised_is_the_share_of_the_two(own: float, other: float, cut: int, word: str):
    """However the word is cut into tokens: raw <= normalised = own / (own + other) <= 1."""
    rival = "Refuted" if word == "Supported" else "Supported"
    first = listed(word[:cut] or word, own=own)
    step = Token(first.text, first.logprob, (*first.alternatives, (rival[:3], math.log(other))))
    rest = plain(word[cut:]) if word[cut:] else []
    read = read_confidence([*plain("<verification>"), step, *rest, *plain("</verification>")])
    assert read is not None
    assert read.verdict == word
    assert read.raw == pytest.approx(own)
    assert read.normalised == pytest.approx(own / (own + other))
    assert read.support == pytest.approx((own if word == "Supported" else other) / (own + other))


BOUND = {"model": "paper_7b", "prompt_hash": "ab" * 32}


def overconfident(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Confidences whose log odds are three times what they should be."""
    rng = np.random.default_rng(0)
    odds = np.abs(rng.normal(1.0, 1.0, rows))
    right = rng.random(rows) < 1 / (1 + np.exp(-odds))
    return 1 / (1 + np.exp(-3 * odds)), right


def fitted(method: CalibrationMethod, rows: int = 2_000) -> Calibration:
    return fit_calibration(*overconfident(rows), method, **BOUND, fitted_on="wice dev")


def test_the_temperature_equals_the_reference():
    """Logistic regression of right on log odds, without intercept and penalty, finds 1 / T."""
    confidences, right = overconfident(2_000)
    odds = np.log(confidences / (1 - confidences))[:, None]
    model = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(odds, right)
    found = fitted("temperature")
    assert 1 / model.coef_[0, 0] == pytest.approx(found.temperature, rel=1e-4)
    assert found.temperature == pytest.approx(3.0, rel=0.15)


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_it_calibrates_and_keeps_the_order(method: CalibrationMethod):
    """The error falls, surer stays at least as sure, in 0..1; NaN stays; it survives JSON."""
    found = fitted(method)
    assert found.error_after < found.error_before / 2
    asked = np.linspace(0, 1, 101)
    given_back = found.apply(asked)
    assert (np.diff(given_back) >= 0).all()
    assert ((given_back >= 0) & (given_back <= 1)).all()
    assert math.isnan(found.apply(np.array([np.nan]))[0])
    again = Calibration.model_validate_json(found.model_dump_json())
    assert found == again
    assert (given_back == again.apply(asked)).all()


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_its_worth_is_told_by_verdicts_that_it_was_not_fitted_to(method: CalibrationMethod):
    """Errors after are those of each fold by the curve of the others, as if fitted by hand."""
    confidences, right = overconfident(700)
    evidence = np.arange(700) // 2
    found = fit_calibration(confidences, right, method, **BOUND, fitted_on="dev", evidence=evidence)
    after = np.empty(700)
    for fold in range(5):
        held = evidence % 5 == fold
        others = (np.tile(part[~held], 2) for part in (confidences, right))
        rest = fit_calibration(*others, method, **BOUND, fitted_on="rest")
        after[held] = rest.apply(confidences[held])
    assert after == pytest.approx(cross_fitted(confidences, right, evidence, method), abs=1e-9)
    assert found.error_after == pytest.approx(calibration_error(after, right))
    assert found.brier_after == pytest.approx(np.mean((after - right) ** 2))
    assert found.brier_before == pytest.approx(np.mean((confidences - right) ** 2))
    assert (5, 700) == (found.folds, found.rows)
    itself = found.apply(confidences)
    assert found.brier_after > np.mean((itself - right) ** 2)


def test_reliability_tells_how_often_like_verdicts_were_right():
    """Every verdict in one bin, means and shares its own; the gaps make the calibration error."""
    confidences, right = overconfident(600)
    rows = reliability(confidences, right)
    assert 600 == rows["rows"].sum()
    assert rows["confidence"].is_between(rows["low"], rows["high"]).all()
    assert (rows["high"].to_numpy()[:-1] < rows["low"].to_numpy()[1:]).all()
    gaps = ((rows["confidence"] - rows["right"]).abs() * rows["rows"]).sum() / 600
    assert gaps == pytest.approx(calibration_error(confidences, right))
    assert reliability(np.empty(0), np.empty(0, dtype=bool)).is_empty()


def test_another_model_or_prompt_is_refused():
    """What was fitted to one says nothing of another."""
    found = fitted("temperature")
    for name, other in {"model": "tiny", "prompt_hash": "cd" * 32}.items():
        assert "fitted to" in found.misfit(**(BOUND | {name: other}))
    assert not found.misfit(**BOUND)


def test_too_few_verdicts_are_refused():
    """Isotonic needs 500, a temperature 20; probabilities lie in 0..1, evidence is not all one."""
    for method, rows in (("isotonic", 499), ("temperature", 19)):
        with pytest.raises(EvaluationError, match=str(rows)):
            fitted(method, rows)
    right, one = np.ones(30, dtype=bool), np.zeros(50, dtype=np.int64)
    with pytest.raises(EvaluationError, match=r"0\.\.1"):
        fit_calibration(np.full(30, 1.2), right, "temperature", **BOUND, fitted_on="dev")
    with pytest.raises(EvaluationError, match="evidence"):
        fit_calibration(*overconfident(50), "temperature", **BOUND, fitted_on="dev", evidence=one)


def test_where_confidence_says_nothing_or_all_the_temperature_is_bounded():
    """Always wrong when sure flattens to a half; always right sharpens; neither is infinite."""
    sure, right = np.full(50, 0.9), np.ones(50, dtype=bool)
    flat = fit_calibration(sure, ~right, "temperature", **BOUND, fitted_on="dev")
    assert flat.apply(sure) == pytest.approx(np.full(50, 0.5), abs=0.01)
    sharp = fit_calibration(sure, right, "temperature", **BOUND, fitted_on="dev")
    assert sharp.apply(sure) == pytest.approx(np.ones(50), abs=0.01)
    assert math.isfinite(sharp.temperature)


def test_a_damaged_file_is_no_calibration():
    """What is no curve, or bound to nothing, is not read."""
    good = json.loads(fitted("temperature").model_dump_json())
    curve = {"confidences": [0.4, 0.5], "shares": [0.3, 0.4], "method": "isotonic"}
    assert Calibration.model_validate_json(json.dumps(good | curve))
    for change in (
        {"temperature": 0},
        {"shares": [0.1]},
        {"method": "isotonic"},
        curve | {"confidences": [0.5, 0.4]},
        curve | {"shares": [0.3, 0.2]},
        curve | {"shares": [0.3, 1.2]},
        {"confidences": [0.4], "shares": [0.3]},
        {"model": ""},
        {"fitted_to": "dev"},
    ):
        with pytest.raises(ValidationError):
            Calibration.model_validate_json(json.dumps(good | change))
