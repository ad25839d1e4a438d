"""MiniCheck: a verifier's support probability, cut at one half (Tang et al. 2024).

Calls per claim: 1, the verifier's score of the pair (evidence, claim), however many chunks it
splits long evidence into. There is no chat model behind it, so ``procedures`` is empty: the runner
calls ``ports.Verifier.support_probability`` for all claims at once and makes each score a
verification with ``from_probability``. Its protocol is named ``faithful``; there is no other. The
publication has one threshold for all data sets.
"""

import math

from decomposerl.baselines.method import CallFailedError, Method, Verification
from decomposerl.traces.trace import Verdict

THRESHOLD = 0.5
"""Supported is strictly above it, as in the public code."""
SUPPORT = "support_probability"
"""The note with the verifier's probability."""


def from_probability(probability: float, threshold: float = THRESHOLD) -> Verification:
    """The verification that a support probability of 0..1 stands for: Supported is above.

    Raises:
        CallFailedError: it is no probability: there is nothing to read.
    """
    if math.isnan(probability) or not 0 <= probability <= 1:
        raise CallFailedError(f"the verifier gave no probability: {probability}")
    verdict: Verdict = "Supported" if probability > threshold else "Refuted"
    notes = {SUPPORT: float(probability)}
    return Verification(verdict, "parsed", f"{probability:.6f}", notes=notes)


METHOD = Method(
    name="minicheck",
    title="MiniCheck",
    publication="Tang et al. 2024",
    calls="1",
    procedures={},
    formula=lambda _: 1,
    decomposes=False,
    engine="verifier",
)
