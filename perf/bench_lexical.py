"""Lexical duplicates and leaks next to MinHash libraries, at the paper's size.

Both sides start from strings and find words themselves. What plain MinHash misses is described
in ``docs/results/corpora.md``.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.matches import Matches
from decomposerl.kernels.set_join import cross_matches, keep_first_duplicates
from decomposerl.kernels.set_parts import TextPart, keep_first_in_parts
from decomposerl.kernels.text_scan import words
from perf import peers
from perf.inputs import synthetic_claims
from perf.sizes import Sizes
from perf.timing import Row, paired, quiet_and_busy, timed
from resources.mapper.pools import InProcessMapper
from resources.store.stage_writer import shared_tasks

THRESHOLD = 0.7
WARM = 2_000
PARTS = 4
ROOT = Path(__file__).resolve().parent.parent
OTHER_PYTHON = ROOT / ".venv-peers/bin/python"
CLUSTER_PEERS = {"datatrove": "datatrove, 14 x 8 MinHash", "spark": "Spark, MinHashLSH"}


def lexical_rows(sizes: Sizes) -> Iterator[Row]:
    """Duplicates against rensa, with what it misses, and one pair against datasketch."""
    texts = synthetic_claims(sizes.claims)
    ours = partial(keep_first_duplicates, texts, THRESHOLD)
    peer = partial(peers.rensa_removed, texts, THRESHOLD)
    keep_first_duplicates(texts[:WARM], THRESHOLD)
    quiet, busy = quiet_and_busy(ours, peer)
    limit = copied_once_s(texts)
    yield quiet.row(
        f"lexical duplicates, {sizes.claims:,} claims",
        "rensa, streaming",
        2.5,
        limit_s=limit,
        note=f"{_engine(quiet.ours)}; {_difference(quiet.ours, quiet.peer)}; "
        f"{_brute_force(texts[: sizes.brute_force])}",
        busy=busy,
    )
    if sizes.slow_peers:
        both = paired(ours, partial(peers.datasketch_removed, texts, THRESHOLD), pairs=1)
        yield both.row(
            f"lexical duplicates, {sizes.claims:,} claims (2)",
            "datasketch, in bulk",
            20.0,
            limit_s=limit,
            note=_difference(both.ours, both.peer),
        )


def minhash_rows(sizes: Sizes) -> Iterator[Row]:
    """The engine above the candidate budget: MinHash proposes, exact sets decide."""
    texts = synthetic_claims(sizes.claims)
    verified = partial(keep_first_duplicates, threshold=THRESHOLD, engine="minhash_verified")
    verified(texts[:WARM])
    exact = keep_first_duplicates(texts, THRESHOLD).is_matched
    work = partial(verified, texts)
    peer = partial(peers.rensa_removed, texts, THRESHOLD)
    both, busy = quiet_and_busy(work, peer)
    removed = both.ours.is_matched
    recall = (removed & exact).sum() / max(exact.sum(), 1)
    precision = (removed & exact).sum() / max(removed.sum(), 1)
    yield both.row(
        f"verified MinHash, {sizes.claims:,} claims",
        "rensa, streaming",
        note=f"{_engine(both.ours)}; recall {recall:.4f}, precision {precision:.4f}",
        busy=busy,
    )


def lexical_leak_rows(sizes: Sizes) -> Iterator[Row]:
    """The lexical part of decontamination: claims against test claims."""
    every = synthetic_claims(sizes.claims + sizes.tests)
    tests, claims = every[: sizes.tests], every[sizes.tests :]
    ours = partial(cross_matches, claims, tests, THRESHOLD)
    peer = partial(peers.rensa_leaks, claims, tests, THRESHOLD)
    cross_matches(claims[:WARM], tests[:WARM], THRESHOLD)
    quiet, busy = quiet_and_busy(ours, peer)
    yield quiet.row(
        f"lexical leaks, {len(claims):,} claims, {len(tests):,} tests",
        "rensa, streaming",
        2.5,
        limit_s=copied_once_s(every),
        note=f"{_engine(quiet.ours)}; {_difference(quiet.ours, quiet.peer)}",
        busy=busy,
    )


def split_rows(sizes: Sizes) -> Iterator[Row]:
    """The join split into tasks, next to one process and to what clusters run."""
    texts = synthetic_claims(sizes.split)
    _split_removed(texts[:WARM])
    one = partial(keep_first_duplicates, texts, THRESHOLD, engine="exact")
    both = paired(partial(_split_removed, texts), one)
    wrong = int((both.ours.matched != both.peer.matched).sum())
    name = f"lexical duplicates in tasks, {sizes.split:,} claims"
    yield both.row(name, "the same in one process", note=f"{wrong} matches differ")
    if not OTHER_PYTHON.is_file():
        note = "no .venv-peers: see perf/cluster_peers.py"
        yield Row(f"{name}, cluster peers", None, "datatrove, Spark", None, None, note=note)
        return
    for peer, described in CLUSTER_PEERS.items():
        seconds, removed = _cluster_removed(peer, texts)
        note = _difference(both.peer, removed)
        yield Row(name, both.ours_s, described, seconds, seconds / both.ours_s, note=note)


def _split_removed(texts: Sequence[str]) -> Matches:
    size = -(-len(texts) // PARTS)
    parts: list[TextPart] = [
        partial(list, texts[start : start + size]) for start in range(0, len(texts), size)
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        shared_tasks(InProcessMapper(), Path(folder)) as tasks,
    ):
        return keep_first_in_parts(parts, THRESHOLD, tasks)


def _cluster_removed(peer: str, texts: Sequence[str]) -> tuple[float, NDArray[np.bool_]]:
    """Seconds of a peer that has an environment of its own, and what it removes."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "claims.json", Path(folder) / "kept.json"
        source.write_text(json.dumps(list(texts)))
        command = [str(OTHER_PYTHON), str(ROOT / "perf/cluster_peers.py"), peer]
        command += [str(source), str(target)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - our own program
        found = json.loads(target.read_text())
    removed = np.ones(len(texts), np.bool_)
    removed[found["kept"]] = False
    return found["seconds"], removed


def copied_once_s(texts: Sequence[str]) -> float:
    """Seconds to copy the strings into one array of bytes: a lower bound."""
    return min(timed(lambda: "".join(texts).encode())[0] for _ in range(3))


def _engine(matches: Matches) -> str:
    return matches.engine or "engine unnamed"


def _difference(ours: Matches, peer: NDArray[np.bool_]) -> str:
    shared = int((ours.is_matched & peer).sum())
    return (
        f"peer: recall {shared / max(int(ours.is_matched.sum()), 1):.3f}, "
        f"precision {shared / max(int(peer.sum()), 1):.3f}"
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
    return f"{wrong} of {len(texts):,} wrong"
