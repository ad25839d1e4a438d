"""Confidence is read where the verdict stands; calibration equals scikit-learn's fits."""

import json
import math

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
    Confidence,
    fit_calibration,
    read_confidence,
    reliability,
)
from decomposerl.evaluation.metrics import calibration_error
from tables import value_beside


def listed(text: str, **chances: float) -> Token:
    """A token that stands first among its alternatives."""
    every = {text: chances.pop("own", 0.9)} | {k.replace("_", " "): v for k, v in chances.items()}
    logs = tuple((word, math.log(p)) for word, p in every.items())
    return Token(text, logs[0][1], logs)


def plain(*texts: str) -> list[Token]:
    return [Token(text, -0.5, ((text, -0.5), ("Refuted", -1.0))) for text in texts]


CUT = listed("S", own=0.6, Supported=0.1, _Ref=0.2, Not=0.05)
SHARED = listed(">\nRef", own=0.5, **{">Sup": 0.25, "Sup": 0.2})
CORRECTED = ("<verification>", "Refuted", "</", "verification>", "\n<verif", "ication>", "\n")


@pytest.mark.parametrize(
    ("before", "step", "rest", "expected"),
    [
        (CORRECTED, CUT, ("upported", "</verification>"), ("Supported", 0.7, 0.7 / 0.9)),
        (("<verification",), SHARED, ("uted</verification>",), ("Refuted", 0.5, 0.5 / 0.75)),
    ],
)
def test_a_trace_is_read_after_its_last_tag(
    before: tuple[str, ...], step: Token, rest: tuple[str, ...], expected: tuple[str, float, float]
):
    """Alternatives are grouped by the word they begin, after the end of a tag that they share."""
    read = read_confidence([*plain(*before), step, *plain(*rest)])
    verdict, raw, normalised = expected
    sure = pytest.approx(raw), pytest.approx(normalised)
    assert read == Confidence(*sure, lower_bound=False, verdict=verdict)


def test_a_plain_verdict_is_found():
    """A named verdict counts wherever it stands, a bare one on the last line with letters.

    What spells no label has no confidence, nor a token for which an endpoint lists nothing.
    """
    for tokens, verdict in value_beside(__file__, "plain_verdicts"):
        letters = () if verdict else ("".join(tokens),)
        for cut in (tokens, *letters):
            read = read_confidence(plain(*cut))
            assert verdict == (read and read.verdict), cut
    assert read_confidence([Token("Supported", -0.01)]) is None
    assert read_confidence([]) is None


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


NAMED = {"model": "paper_7b", "prompt_hash": "ab" * 32, "fitted_on": "wice dev"}


def overconfident(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidences whose log odds are three times what they should be, two of each evidence."""
    rng = np.random.default_rng(0)
    odds = np.abs(rng.normal(1.0, 1.0, rows))
    right = rng.random(rows) < 1 / (1 + np.exp(-odds))
    return 1 / (1 + np.exp(-3 * odds)), right, np.arange(rows) // 2


def test_the_temperature_equals_the_reference():
    """Logistic regression of right on log odds, without intercept and penalty, finds 1 / T."""
    confidences, right, evidence = overconfident(2_000)
    odds = np.log(confidences / (1 - confidences))[:, None]
    model = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(odds, right)
    found, _ = fit_calibration(confidences, right, evidence, **NAMED)
    assert 1 / model.coef_[0, 0] == pytest.approx(found.temperature, rel=1e-4)
    assert found.temperature == pytest.approx(3.0, rel=0.15)


def test_it_calibrates_and_keeps_the_order():
    """The error falls, surer stays at least as sure, in 0..1; NaN stays."""
    found, _ = fit_calibration(*overconfident(2_000), **NAMED)
    assert found.error_after < found.error_before / 2
    asked = np.linspace(0, 1, 101)
    given_back = found.apply(asked)
    assert (np.diff(given_back) >= 0).all()
    assert ((given_back >= 0) & (given_back <= 1)).all()
    assert math.isnan(found.apply(np.array([np.nan]))[0])


def test_its_worth_is_told_by_verdicts_that_it_was_not_fitted_to():
    """Errors after are those of each fold by the temperature of the others, as fitted by hand."""
    confidences, right, evidence = overconfident(700)
    found, cross_fitted = fit_calibration(confidences, right, evidence, **NAMED)
    after = np.empty(700)
    for fold in range(5):
        held = evidence % 5 == fold
        rest, _ = fit_calibration(confidences[~held], right[~held], evidence[~held], **NAMED)
        after[held] = rest.apply(confidences[held])
    assert after == pytest.approx(cross_fitted, abs=1e-9)
    assert found.error_after == pytest.approx(calibration_error(after, right))
    assert found.brier_after == pytest.approx(np.mean((after - right) ** 2))
    assert found.brier_before == pytest.approx(np.mean((confidences - right) ** 2))
    assert (5, 700) == (found.folds, found.rows)
    itself = found.apply(confidences)
    assert found.brier_after > np.mean((itself - right) ** 2)


def test_reliability_tells_how_often_like_verdicts_were_right():
    """Every verdict in one bin, means and shares its own; the gaps make the calibration error."""
    confidences, right, _ = overconfident(600)
    rows = reliability(confidences, right)
    assert 600 == rows["rows"].sum()
    assert rows["confidence"].is_between(rows["low"], rows["high"]).all()
    assert (rows["high"].to_numpy()[:-1] < rows["low"].to_numpy()[1:]).all()
    gaps = ((rows["confidence"] - rows["right"]).abs() * rows["rows"]).sum() / 600
    assert gaps == pytest.approx(calibration_error(confidences, right))
    assert reliability(np.empty(0), np.empty(0, dtype=bool)).is_empty()


def test_too_few_verdicts_are_refused():
    """A temperature needs 20, and evidence that is not all one."""
    confidences, right, evidence = overconfident(50)
    for verdicts, said in (
        ((confidences[:19], right[:19], evidence[:19]), "19 verdicts"),
        ((confidences, right, evidence * 0), "evidence"),
    ):
        with pytest.raises(EvaluationError, match=said):
            fit_calibration(*verdicts, **NAMED)


def test_where_confidence_says_nothing_or_all_the_temperature_is_bounded():
    """Always wrong when sure flattens to a half; always right sharpens; neither is infinite."""
    sure, right, evidence = np.full(50, 0.9), np.ones(50, dtype=bool), np.arange(50)
    flat, _ = fit_calibration(sure, ~right, evidence, **NAMED)
    assert flat.apply(sure) == pytest.approx(np.full(50, 0.5), abs=0.01)
    sharp, _ = fit_calibration(sure, right, evidence, **NAMED)
    assert sharp.apply(sure) == pytest.approx(np.ones(50), abs=0.01)
    assert math.isfinite(sharp.temperature)


def test_a_damaged_file_is_no_calibration():
    """Nor is a curve of earlier versions; their temperatures, with an empty curve, are."""
    found, _ = fit_calibration(*overconfident(50), **NAMED)
    stored = json.loads(found.model_dump_json()) | {"confidences": [], "shares": []}
    assert found == Calibration.model_validate(stored)
    for change in ({"temperature": 0}, {"method": "isotonic"}, {"model": ""}, {"rows": None}):
        with pytest.raises(ValidationError):
            Calibration.model_validate(stored | change)
