"""Lexical duplicates and leaks next to MinHash libraries, at the paper's size.

Both sides start from strings and find words themselves. What plain MinHash misses is described
in ``docs/funnel.md``.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.matches import Matches
from decomposerl.kernels.set_join import cross_matches, keep_first_duplicates
from decomposerl.kernels.text_scan import words
from perf import peers
from perf.busy import busy_core
from perf.inputs import synthetic_claims
from perf.sizes import Sizes
from perf.timing import Row, paired, timed

THRESHOLD = 0.7
WARM = 2_000


def lexical_rows(sizes: Sizes) -> Iterator[Row]:
    """Duplicates against rensa, with what it misses, and one pair against datasketch."""
    texts = synthetic_claims(sizes.claims)
    ours = partial(keep_first_duplicates, texts, THRESHOLD)
    peer = partial(peers.rensa_removed, texts, THRESHOLD)
    keep_first_duplicates(texts[:WARM], THRESHOLD)
    quiet = paired(ours, peer)
    with busy_core():
        busy = paired(ours, peer, pairs=1)
    limit = copied_once_s(texts)
    yield Row(
        f"lexical duplicates, {sizes.claims:,} claims",
        quiet.ours_s,
        "rensa, streaming",
        quiet.peer_s,
        quiet.ratio,
        2.5,
        limit,
        f"{_engine(quiet.ours)}; {_difference(quiet.ours, quiet.peer)}; "
        f"{_brute_force(texts[: sizes.brute_force])}",
        busy.ours_s,
        busy.ratio,
    )
    if sizes.slow_peers:
        both = paired(ours, partial(peers.datasketch_removed, texts, THRESHOLD), pairs=1)
        yield Row(
            f"lexical duplicates, {sizes.claims:,} claims (2)",
            both.ours_s,
            "datasketch, in bulk",
            both.peer_s,
            both.ratio,
            20.0,
            limit,
            f"one pair; {_difference(both.ours, both.peer)}",
        )


def minhash_rows(sizes: Sizes) -> Iterator[Row]:
    """The engine above the candidate budget: MinHash proposes, exact sets decide."""
    texts = synthetic_claims(sizes.claims)
    verified = partial(keep_first_duplicates, threshold=THRESHOLD, engine="minhash_verified")
    verified(texts[:WARM])
    exact = keep_first_duplicates(texts, THRESHOLD).is_matched
    work = partial(verified, texts)
    peer = partial(peers.rensa_removed, texts, THRESHOLD)
    both = paired(work, peer)
    with busy_core():
        busy = paired(work, peer, pairs=1)
    removed = both.ours.is_matched
    recall = (removed & exact).sum() / max(exact.sum(), 1)
    precision = (removed & exact).sum() / max(removed.sum(), 1)
    yield Row(
        f"verified MinHash, {sizes.claims:,} claims",
        both.ours_s,
        "rensa, streaming",
        both.peer_s,
        both.ratio,
        note=f"{_engine(both.ours)}; of the exact removals {recall:.4f} found, "
        f"{precision:.4f} of its own exact",
        busy_ours_s=busy.ours_s,
        busy_ratio=busy.ratio,
    )


def lexical_leak_rows(sizes: Sizes) -> Iterator[Row]:
    """The lexical part of decontamination: claims against test claims."""
    every = synthetic_claims(sizes.claims + sizes.tests)
    tests, claims = every[: sizes.tests], every[sizes.tests :]
    ours = partial(cross_matches, claims, tests, THRESHOLD)
    peer = partial(peers.rensa_leaks, claims, tests, THRESHOLD)
    cross_matches(claims[:WARM], tests[:WARM], THRESHOLD)
    quiet = paired(ours, peer)
    with busy_core():
        busy = paired(ours, peer, pairs=1)
    yield Row(
        f"lexical leaks, {len(claims):,} claims, {len(tests):,} tests",
        quiet.ours_s,
        "rensa, streaming",
        quiet.peer_s,
        quiet.ratio,
        2.5,
        copied_once_s(every),
        f"{_engine(quiet.ours)}; {_difference(quiet.ours, quiet.peer)}",
        busy.ours_s,
        busy.ratio,
    )


def copied_once_s(texts: Sequence[str]) -> float:
    """Seconds to copy the strings into one array of bytes: a lower bound."""
    return min(timed(lambda: "".join(texts).encode())[0] for _ in range(3))


def _engine(matches: Matches) -> str:
    return matches.engine or "engine unnamed"


def _difference(ours: Matches, peer: NDArray[np.bool_]) -> str:
    shared = int((ours.is_matched & peer).sum())
    return (
        f"removes {int(ours.is_matched.sum()):,}, the peer {int(peer.sum()):,} "
        f"(recall {shared / max(int(ours.is_matched.sum()), 1):.3f}, "
        f"precision {shared / max(int(peer.sum()), 1):.3f})"
    )


def _brute_force(texts: Sequence[str]) -> str:
    """Compare with a brute-force pass over all pairs of sets."""
    sets = [frozenset(words(text)) for text in texts]
    kept: list[int] = []
    removed = np.zeros(len(sets), np.bool_)
    for row, one in enumerate(sets):
        near = (10 * len(one & sets[k]) >= 7 * len(one | sets[k]) for k in kept)
        removed[row] = any(near)
        if not removed[row]:
            kept.append(row)
    wrong = int((keep_first_duplicates(texts, THRESHOLD).is_matched != removed).sum())
    return f"{wrong} wrong of {len(texts):,} by brute force"
