"""The quality of the embedded verifier as Markdown between two markers.

Takes scores of corpora that the weights did not see; gives ROC AUC beside an overlap-only
baseline, calibration, and behaviour on made claims.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decomposerl.text.words import parse
from resources.verifier.evidence_match import index_evidence
from resources.verifier.lexical import VerifierWeights
from studies.verifier_data import Examples

_BAND = (0.3, 0.8)
_BINS = 10
_SURE = 0.85
_AGAIN = "(middle_is_refuted)"  # the claims of another row under the other label rule


@dataclass(frozen=True)
class Scores:
    """A corpus with the probabilities of weights refitted without it, shape (n,)."""

    name: str
    examples: Examples
    probability: NDArray[np.float64]


def report_tables(
    scores: Sequence[Scores], made: Sequence[Examples], weights: VerifierWeights
) -> str:
    """The table of all corpora as Markdown, and a sentence on made claims."""
    return "\n".join([*_auc_table(scores), "", _made_claims(made, weights)])


def _auc_table(scores: Sequence[Scores]) -> list[str]:
    from sklearn.metrics import roc_auc_score

    lines = [
        "| corpus | claims | AUC | overlap | ECE | in band |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    ours, baseline = [], []
    for one in scores:
        truth, p = one.examples.claims.supported, one.probability
        ours.append(roc_auc_score(truth, p))
        baseline.append(
            roc_auc_score(truth, [_overlap(*pair) for pair in one.examples.claims.pairs])
        )
        lines.append(
            f"| {one.name} | {len(truth):,} | {ours[-1]:.3f} | {baseline[-1]:.3f} "
            f"| {_ece(truth, p):.3f} | {_in_band(p):.2f} |"
        )
    once = [index for index, one in enumerate(scores) if not one.name.endswith(_AGAIN)]
    truth = np.concatenate([scores[index].examples.claims.supported for index in once])
    p = np.concatenate([scores[index].probability for index in once])
    mean = (
        f"**{np.mean([ours[i] for i in once]):.3f}** | {np.mean([baseline[i] for i in once]):.3f}"
    )
    lines.append(
        f"| **mean AUC, others pooled; WiCE once** | {len(truth):,} | {mean} "
        f"| {_ece(truth, p):.3f} | {_in_band(p):.2f} |"
    )
    return lines


def _overlap(evidence: str, claim: str) -> float:
    """The share of the claim's content words in its best sentence."""
    wanted = parse(claim).content
    best = max((len(wanted & one.content) for one in index_evidence(evidence)), default=0)
    return best / len(wanted) if wanted else 0.0


def _made_claims(made: Sequence[Examples], weights: VerifierWeights) -> str:
    """The share of made claims that get confident answers of the shipped weights."""
    kinds = np.array([kind for part in made for kind in part.claims.kinds])
    p = weights.probability(np.vstack([part.features for part in made]))
    shares = []
    for kind in sorted(set(kinds)):
        mine = p[kinds == kind]
        sure = mine > _SURE if kind == "reworded" else mine < 1 - _SURE
        shares.append(f"{kind} {sure.mean():.2f} of {len(mine):,}")
    return f"Confident on made claims: {', '.join(shares)}. Weights: `{weights.fingerprint}`."


def _ece(truth: NDArray[np.float64], p: NDArray[np.float64]) -> float:
    """Expected calibration error over ten equal bins."""
    bins = np.minimum((p * _BINS).astype(int), _BINS - 1)
    gaps = [
        (bins == one).mean() * abs(p[bins == one].mean() - truth[bins == one].mean())
        for one in np.unique(bins)
    ]
    return float(sum(gaps))


def _in_band(p: NDArray[np.float64]) -> float:
    low, high = _BAND
    return float(np.mean((p >= low) & (p <= high)))
