"""The plan of the paper's pool: source, fate and partner of each synthetic claim.

The numbers kept per source and stage are the paper's (appendix "Per-source training-row
counts"). What the paper does not state, such as the shares of drop reasons, is a constant
here. Texts and vectors come from ``studies.paper_inputs``.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decomposerl.claims.catalogue import PAPER_COUNTS, PAPER_TOTAL
from perf.inputs import Numbers, Random

PAPER_ROWS = PAPER_TOTAL.raw
COUNTS = {  # raw, after the difficulty band, after silver decomposition
    name: (one.raw, one.difficulty, one.deduplicated) for name, one in PAPER_COUNTS.items()
}
TESTS = {
    "fever": 19_998,
    "hover": 4_000,
    "feverous": 7_890,
    "wice": 358,
    "ex_fever": 5_000,
    "foolmetwice": 1_169,
    "claimdecomp": 200,
    "pubhealth": 1_200,
    "pubmedclaim": 445,
    "coverbench": 733,
    "llm_aggrefact": 9_007,
}
EARLY = {"short": 0.10, "copied": 0.08, "unnamed": 0.27, "easy": 0.35, "mislabelled": 0.20}
DUPLICATES = {"exact_duplicate": 0.10, "near_duplicate": 0.20, "paraphrase": 0.50}
LEAKS = {"exact_leak": 0.04, "near_leak": 0.04, "paraphrase_leak": 0.07}
LATE = {**DUPLICATES, **LEAKS, "unasked": 0.05}
LOOKALIKES = {"lexical_lookalike": 0.02, "semantic_lookalike": 0.02}
KEPT = "kept"
WITH_ORIGINAL = (*DUPLICATES, *LOOKALIKES)


@dataclass(frozen=True)
class PoolPlan:
    """One entry per claim, in pool order.

    ``partners`` is the row of a duplicate's or lookalike's original, the row of a leak's test
    claim, else -1. A lookalike stays below the threshold and must not be removed.
    """

    sources: NDArray[np.str_]
    fates: NDArray[np.str_]
    partners: Numbers
    tests: NDArray[np.str_]

    @property
    def in_band(self) -> Numbers:
        """Rows that reach deduplication."""
        return np.flatnonzero(~np.isin(self.fates, list(EARLY)))

    def rows(self, fate: str) -> Numbers:
        """Rows of one fate."""
        return np.flatnonzero(self.fates == fate)


def plan_pool(rows: int = PAPER_ROWS, seed: int = 7) -> PoolPlan:
    """The plan of a pool of about ``rows`` claims, with test claims in proportion."""
    rng = np.random.default_rng([seed, 20])
    scale = rows / PAPER_ROWS
    sources, fates, partners = [], [], []
    start = 0
    for source, counts in COUNTS.items():
        raw, band, silver = (max(round(count * scale), 1) for count in counts)
        chosen = _fates(rng, raw, min(band, raw), min(silver, band))
        sources += [source] * raw
        fates.append(chosen)
        originals = _originals(rng, chosen)
        partners.append(np.where(originals < 0, -1, originals + start))
        start += raw
    tests = [name for name, count in TESTS.items() for _ in range(max(round(count * scale), 1))]
    plan = PoolPlan(
        np.array(sources), np.concatenate(fates), np.concatenate(partners), np.array(tests)
    )
    leaks = np.flatnonzero(np.isin(plan.fates, list(LEAKS)))
    plan.partners[leaks] = rng.permutation(len(tests))[: len(leaks)]
    return plan


def _fates(rng: Random, raw: int, band: int, silver: int) -> NDArray[np.str_]:
    early = _spread(EARLY, raw - band)
    late = _spread(LATE, band - silver)
    alike = {name: int(share * silver) for name, share in LOOKALIKES.items()}
    counts = {**early, **late, **alike}
    counts[KEPT] = raw - sum(counts.values())
    return rng.permutation(np.repeat(list(counts), list(counts.values())))


def _spread(shares: dict[str, float], total: int) -> dict[str, int]:
    """Whole numbers that sum to ``total``; the last name gets the rounding remainder."""
    counts = {name: int(share * total) for name, share in shares.items()}
    *_, last = shares
    counts[last] += total - sum(counts.values())
    return counts


def _originals(rng: Random, fates: NDArray[np.str_]) -> Numbers:
    """An earlier kept row for each row with an original; rows without one become kept."""
    kept = np.flatnonzero(fates == KEPT)
    copies = np.flatnonzero(np.isin(fates, WITH_ORIGINAL))
    earlier = np.searchsorted(kept, copies)
    fates[copies[earlier == 0]] = KEPT
    partners = np.full(len(fates), -1)
    has_one = earlier > 0
    draws = rng.random(has_one.sum()) * earlier[has_one]
    partners[copies[has_one]] = kept[draws.astype(np.int64)]
    return partners
