"""A small calibrated verifier: a logistic model over lexical features.

It stands in for a verifier model where none can run: it compares words, names, numbers and
polarity with the best lexical sentence of the evidence and understands nothing else. Its
weights (``lexical_verifier.json``) are fitted by ``python -m studies.fit_verifier``;
``docs/explanation/embedded-engines.md`` shows how well it does.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from resources.verifier.evidence_match import FEATURES, RULES, feature_matrix

WEIGHTS_FILE = Path(__file__).with_name("lexical_verifier.json")


@dataclass(frozen=True, slots=True)
class VerifierWeights:
    """A logistic model over ``FEATURES``: ``intercept + weights . (x - means) / scales``.

    ``rules`` is the version of the feature code; ``fitted_on`` says on what, in words.
    """

    features: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    rules: int
    fitted_on: Mapping[str, object]

    @property
    def fingerprint(self) -> str:
        """8 hex digits of SHA-256 over all of it."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def probability(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(supported), shape (n,), of features of shape (n, len(FEATURES))."""
        scaled = (features - np.array(self.means)) / np.array(self.scales)
        logits = scaled @ np.array(self.weights) + self.intercept
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)), dtype=np.float64)

    def save(self, path: Path) -> None:
        """Write as JSON with its fingerprint."""
        content = {**asdict(self), "fingerprint": self.fingerprint}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def load_weights(path: Path = WEIGHTS_FILE) -> VerifierWeights:
    """Read and check a weights file.

    Raises:
        EngineError: the file was edited by hand or belongs to other feature code.
    """
    content = json.loads(path.read_text("utf-8"))
    stated = content.pop("fingerprint")
    vectors = {name: tuple(content[name]) for name in ("features", "means", "scales", "weights")}
    weights = VerifierWeights(**{**content, **vectors})
    if weights.fingerprint != stated:
        raise EngineError(f"{path} does not match its fingerprint: fit it again, do not edit it")
    if weights.features != FEATURES or weights.rules != RULES:
        raise EngineError(f"{path} was fitted for other features: python -m studies.fit_verifier")
    return weights


class LexicalVerifier:
    """A ``Verifier`` on ``lexical_verifier.json``; it needs nothing installed."""

    def __init__(self, weights: VerifierWeights | None = None) -> None:
        """Without ``weights``, the shipped ones are read at the first call."""
        self._given = weights

    @property
    def engine(self) -> str:
        """Fingerprint of the weights, which decide the answers."""
        return f"lexical_verifier:{self._weights.fingerprint}"

    def support_probability(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """P(supported) of each ``(evidence, claim)`` pair, shape (n,), range 0..1."""
        return self._weights.probability(feature_matrix(pairs))

    @cached_property
    def _weights(self) -> VerifierWeights:
        return self._given or load_weights()
