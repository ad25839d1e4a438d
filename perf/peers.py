"""Alternative libraries that a user might choose, each called as its own documentation shows.

They take texts or vectors and return the library's answer. No hidden tuning is applied; each
library keeps its default number of threads.
"""

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Flags = NDArray[np.bool_]

PACKAGES = {
    "rensa": "rensa",
    "datasketch": "datasketch",
    "faiss": "faiss-cpu",
    "submodlib": "submodlib-py",
    "tokenizers": "tokenizers",
}
PERMUTATIONS, SEED = 128, 42


def missing() -> list[str]:
    """Packages of the ``bench`` extra that are not installed."""
    return [name for module, name in PACKAGES.items() if importlib.util.find_spec(module) is None]


def tokens(text: str) -> list[str]:
    """Words of a synthetic claim, split the way a user of a MinHash library would."""
    return text.lower().rstrip(".").split()


def rensa_removed(texts: Sequence[str], threshold: float) -> Flags:
    """Streaming deduplication with an LSH index, one text at a time."""
    import rensa

    index = rensa.RMinHashDeduplicator(threshold, PERMUTATIONS, True, None, SEED)
    removed = np.zeros(len(texts), np.bool_)
    for row, text in enumerate(texts):
        sketch = rensa.RMinHash(PERMUTATIONS, SEED)
        sketch.update(tokens(text))
        removed[row] = not index.add(str(row), sketch)
    return removed


def rensa_leaks(left: Sequence[str], right: Sequence[str], threshold: float) -> Flags:
    """Which of ``left`` are near one of ``right``: index one side, query with the other."""
    import rensa

    index = rensa.RMinHashDeduplicator(threshold, PERMUTATIONS, True, None, SEED)
    for row, text in enumerate(right):
        sketch = rensa.RMinHash(PERMUTATIONS, SEED)
        sketch.update(tokens(text))
        index.add(str(row), sketch)
    leaked = np.zeros(len(left), np.bool_)
    for row, text in enumerate(left):
        sketch = rensa.RMinHash(PERMUTATIONS, SEED)
        sketch.update(tokens(text))
        leaked[row] = index.is_duplicate(f"left {row}", sketch)
    return leaked


def datasketch_removed(texts: Sequence[str], threshold: float) -> Flags:
    """MinHash in bulk, then an LSH index of the kept rows."""
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(threshold, PERMUTATIONS)
    words = ([word.encode() for word in tokens(text)] for text in texts)
    removed = np.zeros(len(texts), np.bool_)
    for row, sketch in enumerate(MinHash.generator(words, num_perm=PERMUTATIONS, seed=SEED)):
        removed[row] = bool(index.query(sketch))
        if not removed[row]:
            index.insert(row, sketch, check_duplication=False)
    return removed


def faiss_pairs(vectors: Vectors, queries: Vectors, threshold: float) -> Any:  # noqa: ANN401 - untyped
    """All neighbours of the queries with at least this cosine: limits, cosines, rows."""
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index.range_search(queries, threshold)


def faiss_removed(vectors: Vectors, threshold: float) -> Flags:
    """Keep-first greedy over the result of faiss's range search."""
    limits, _, neighbours = faiss_pairs(vectors, vectors, threshold)
    removed = np.zeros(len(vectors), np.bool_)
    for row in range(len(vectors)):
        near = neighbours[limits[row] : limits[row + 1]]
        earlier = near[near < row]
        removed[row] = bool((~removed[earlier]).any())
    return removed


def faiss_leaks(left: Vectors, right: Vectors, threshold: float) -> Flags:
    """Which of ``left`` have a nearest neighbour in ``right`` with at least this cosine."""
    import faiss

    index = faiss.IndexFlatIP(right.shape[1])
    index.add(right)
    cosines, _ = index.search(left, 1)
    leaked: Flags = cosines[:, 0] >= threshold
    return leaked


def submodlib_picks(
    count: int, *, vectors: Vectors | None = None, similarity: Vectors | None = None
) -> list[int]:
    """Facility location by lazy greedy, from vectors or from a similarity matrix."""
    from submodlib import FacilityLocationFunction

    given = vectors if similarity is None else similarity
    if given is None:
        raise ValueError("either vectors or a similarity matrix is needed")
    source: dict[str, Any] = (
        {"sijs": similarity} if vectors is None else {"data": vectors, "metric": "cosine"}
    )
    function = FacilityLocationFunction(n=len(given), mode="dense", separate_rep=False, **source)
    chosen = function.maximize(
        budget=count,
        optimizer="LazyGreedy",
        stopIfZeroGain=False,
        stopIfNegativeGain=False,
        verbose=False,
        show_progress=False,
    )
    return [row for row, _ in chosen]


def polars_overlap(claims: pl.Series, evidence: pl.Series, stop: Sequence[str]) -> pl.DataFrame:
    """Per row: best share of the claim's content words in one sentence, sentences, words.

    Sentences are split at ". " and words at spaces: the fastest expressions that give the
    same numbers on synthetic text. Real text needs regular expressions, which take twice as
    long.
    """
    claim_words = pl.col("claim").str.to_lowercase().str.strip_chars(".").str.split(" ")
    words = pl.col("text").str.strip_chars(".").str.split(" ")
    shared = words.list.set_intersection("claim_words").list.len()
    return (
        pl.LazyFrame({"text": evidence, "claim": claims})
        .with_row_index("row")
        .select(
            "row",
            pl.col("text").str.to_lowercase().str.split(". "),
            words=pl.col("text").str.count_matches(" ", literal=True) + 1,
            claim_words=claim_words.list.set_difference(list(stop)),
        )
        .explode("text", empty_as_null=True)
        .select("row", "words", share=shared / pl.col("claim_words").list.len())
        .group_by("row")
        .agg(pl.col("share").max(), pl.len(), pl.col("words").first())
        .sort("row")
        .collect()
    )
