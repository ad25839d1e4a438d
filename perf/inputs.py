"""Synthetic claims, vectors and evidence at the paper's size, the same for every seed.

Takes numbers of rows and a seed, gives strings and unit vectors. The shapes follow what was
measured on real claims: word frequencies by Zipf and Mandelbrot, templates that many claims
share, near copies, clusters of paraphrases around the threshold.

Left out deliberately: meaning. Quality is measured on the bundled sample and real corpora.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Random = np.random.Generator

VOCABULARY = 60_000
ONSETS = [*"bcdfghjklmnprstvwz", *(a + "r" for a in "bcdfgpt"), "ch", "cl", "pl", "sh", "st", "th"]
NUCLEI = ["a", "e", "i", "o", "u", "ai", "ea", "ee", "io", "ou"]
CODAS = ["", "l", "m", "n", "nd", "r", "rt", "s", "st", "t"]
ACCENTED = {"a": "á", "e": "é", "o": "ö", "u": "ü"}
COPIED, TEMPLATED, SHUFFLED = 0.1, 0.25, 1 / 3
MEDIAN_WORDS, SPREAD, LEAST_WORDS, MOST_WORDS = 540, 0.93, 80, 7_000
ACCENTED_ROWS = 0.2
BLOCK = 4_096


def vocabulary(seed: int = 7) -> NDArray[np.object_]:
    """60,000 different pronounceable words, the commonest first."""
    rng = np.random.default_rng([seed, 1])
    syllables = [onset + nucleus + coda for onset in ONSETS for nucleus in NUCLEI for coda in CODAS]
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        parts = rng.integers(0, len(syllables), (VOCABULARY, 3))
        lengths = rng.integers(1, 4, VOCABULARY)
        for row, length in zip(parts.tolist(), lengths.tolist(), strict=True):
            found["".join(syllables[part] for part in row[:length])] = None
    return np.array(sorted(found, key=len)[:VOCABULARY], dtype=object)


def word_numbers(rng: Random, count: int) -> NDArray[np.int64]:
    """``count`` word numbers with Zipf-Mandelbrot frequencies (exponent 1.05, shift 2.7)."""
    weights = (np.arange(VOCABULARY) + 2.7) ** -1.05
    return np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(count))


def synthetic_claims(rows: int, seed: int = 7) -> list[str]:
    """Claims of 12 to 40 words, a quarter on shared templates, a tenth near copies.

    A copy has some of its words replaced, so that its Jaccard with the original lies
    uniformly between 0.5 and 1; a third of the copies are shuffled.
    """
    rng = np.random.default_rng([seed, 2])
    words = vocabulary(seed)
    sizes = rng.integers(12, 41, rows)
    ends = np.cumsum(sizes)
    numbers = word_numbers(rng, int(ends[-1]) if rows else 0)
    claims = [part.copy() for part in np.split(numbers, ends[:-1])] if rows else []
    templates = [word_numbers(rng, int(size)) for size in rng.integers(6, 20, max(rows // 390, 1))]
    for row in np.flatnonzero(rng.random(rows) < TEMPLATED).tolist():
        template = templates[int(rng.integers(len(templates)))][: len(claims[row])]
        claims[row][: len(template)] = template
    for row in np.flatnonzero(rng.random(rows) < COPIED).tolist():
        if row:
            claims[row] = _copy(rng, claims[int(rng.integers(row))])
    return [f"{' '.join(words[claim])}.".capitalize() for claim in claims]


def _copy(rng: Random, original: NDArray[np.int64]) -> NDArray[np.int64]:
    jaccard = rng.uniform(0.5, 1)
    replaced = round(len(original) * (1 - jaccard) / (1 + jaccard))
    copy = original.copy()
    places = rng.choice(len(copy), replaced, replace=False)
    copy[places] = word_numbers(rng, replaced)
    return rng.permutation(copy) if rng.random() < SHUFFLED else copy


def clustered_vectors(
    rows: int, dimensions: int, seed: int = 7, rows_a_cluster: int = 6
) -> Vectors:
    """Unit vectors in clusters whose inner cosine runs from about 0.4 to 0.85.

    0.45 of a common direction, 0.65 of the cluster's, 0.62 a of noise, with a uniform in
    0.45 to 1.5 a cluster: thresholds cut through clusters.
    """
    rng = np.random.default_rng([seed, 3])
    clusters = max(rows // rows_a_cluster, 1)
    member = rng.integers(0, clusters, rows)
    tightness = rng.uniform(0.45, 1.5, clusters).astype(np.float32)
    common, centres = _units(rng, 1, dimensions), _units(rng, clusters, dimensions)
    vectors = _units(rng, rows, dimensions)
    for start in range(0, rows, BLOCK):
        block = slice(start, start + BLOCK)
        vectors[block] *= (0.62 * tightness[member[block]])[:, None]
        vectors[block] += np.float32(0.65) * centres[member[block]] + np.float32(0.45) * common
    return _normalised(vectors)


def selection_vectors(rows: int, dimensions: int, seed: int = 7) -> Vectors:
    """Unit vectors of one cell: rows / 20 clusters, a fifth of the rows near copies."""
    rng = np.random.default_rng([seed, 4])
    vectors = clustered_vectors(rows, dimensions, seed, rows_a_cluster=20)
    copies = np.flatnonzero(rng.random(rows) < 0.2)  # noqa: PLR2004 - a fifth
    originals = rng.integers(0, max(rows, 1), len(copies))
    noise = np.float32(0.2) * _units(rng, len(copies), dimensions)
    vectors[copies] = vectors[originals] + noise
    return _normalised(vectors)


def holdout_vectors(train: Vectors, rows: int, seed: int = 7, planted: int = 600) -> Vectors:
    """Unit vectors of test claims, ``planted`` of them near a training row (noise 0.2-0.7)."""
    rng = np.random.default_rng([seed, 5])
    vectors = clustered_vectors(rows, train.shape[1], seed + 1)
    places = rng.choice(rows, min(planted, rows), replace=False)
    near = train[rng.integers(0, len(train), len(places))]
    noise = rng.uniform(0.2, 0.7, len(places)).astype(np.float32)[:, None]
    vectors[places] = near + noise * _units(rng, len(places), train.shape[1])
    return _normalised(vectors)


def evidence_lengths(rows: int, seed: int = 7) -> NDArray[np.int64]:
    """Words of evidence a row: log-normal, median 540, mean about 830, 80 to 7,000."""
    rng = np.random.default_rng([seed, 6])
    drawn = np.exp(rng.normal(np.log(MEDIAN_WORDS), SPREAD, rows))
    return np.clip(drawn, LEAST_WORDS, MOST_WORDS).astype(np.int64)


def synthetic_evidence(rows: int, seed: int = 7) -> Iterator[list[str]]:
    """Evidence of each row as passages of up to 120 words, in blocks of 4,096 rows or fewer.

    Sentences of 8 to 30 words with a capital and a full stop; in a fifth of the rows words
    carry accents.
    """
    words = vocabulary(seed)
    lengths = evidence_lengths(rows, seed)
    accented = np.array([_accented(word) for word in words], dtype=object)
    for start in range(0, rows, BLOCK):
        rng = np.random.default_rng([seed, 7, start])
        for length in lengths[start : start + BLOCK].tolist():
            chosen = accented if rng.random() < ACCENTED_ROWS else words
            yield _passages(rng, chosen[word_numbers_of_text(rng, length)].tolist())


_CUMULATIVE = np.cumsum((np.arange(VOCABULARY) + 2.7) ** -1.05)


def word_numbers_of_text(rng: Random, count: int) -> NDArray[np.int64]:
    """Like ``word_numbers``, for many short draws."""
    return np.searchsorted(_CUMULATIVE, rng.random(count) * _CUMULATIVE[-1])


def _passages(rng: Random, words: list[str]) -> list[str]:
    cuts = np.cumsum(rng.integers(8, 31, len(words) // 8 + 1)).tolist()
    sentences, start = [], 0
    for cut in cuts:
        if start >= len(words):
            break
        sentence = " ".join(words[start:cut])
        sentences.append(sentence[:1].upper() + sentence[1:] + ".")
        start = cut
    return [" ".join(sentences[place : place + 6]) for place in range(0, len(sentences), 6)]


def _accented(word: str) -> str:
    return "".join(
        ACCENTED.get(letter, letter) if i == 1 else letter for i, letter in enumerate(word)
    )


def _units(rng: Random, rows: int, dimensions: int) -> Vectors:
    return _normalised(rng.standard_normal((rows, dimensions), dtype=np.float32))


def _normalised(vectors: Vectors) -> Vectors:
    for start in range(0, len(vectors), BLOCK):
        block = vectors[start : start + BLOCK]
        block /= np.sqrt(np.einsum("ij,ij->i", block, block))[:, None]
    return vectors
