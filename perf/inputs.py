"""Synthetic claims, vectors and evidence at the paper's size, deterministic in the seed.

The shapes follow measurements on real claims: word frequencies by Zipf and Mandelbrot, shared
templates, near copies, clusters of paraphrases around the threshold. The texts have no meaning;
quality is measured on the bundled sample and on real corpora.
"""

import itertools
from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]
Random = np.random.Generator

VOCABULARY = 60_000
_ONSETS = [*"bcdfghjklmnprstvwz", *(a + "r" for a in "bcdfgpt"), "ch", "cl", "pl", "sh", "st", "th"]
_NUCLEI = ["a", "e", "i", "o", "u", "ai", "ea", "ee", "io", "ou"]
_CODAS = ["", "l", "m", "n", "nd", "r", "rt", "s", "st", "t"]
COPIED, TEMPLATED, SHUFFLED = 0.1, 0.25, 1 / 3
CLAIMS_A_TEMPLATE = 390
MEDIAN_WORDS, SPREAD, LEAST_WORDS, MOST_WORDS = 540, 0.93, 80, 7_000
ACCENTED_ROWS, ACCENTED_SENTENCES = 0.2, 3
SENTENCES, SENTENCES_A_PASSAGE = 60_000, 6
BLOCK = 4_096
TINY_DECODER = {
    "vocab_size": 256,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
"""The sizes of a decoder that stands for a whole model where there is no GPU."""


@cache
def vocabulary(seed: int = 7) -> NDArray[np.object_]:
    """60,000 distinct pronounceable words by frequency; frequent words tend to be short."""
    rng = np.random.default_rng([seed, 1])
    syllables = [a + b + c for a in _ONSETS for b in _NUCLEI for c in _CODAS]
    distinct: dict[str, None] = {}
    while len(distinct) < VOCABULARY:
        parts = rng.integers(0, len(syllables), (VOCABULARY, 3))
        lengths = rng.integers(1, 4, VOCABULARY)
        for row, length in zip(parts.tolist(), lengths.tolist(), strict=True):
            distinct["".join(syllables[part] for part in row[:length])] = None
    words = np.array(list(distinct)[:VOCABULARY], dtype=object)
    lengths = np.array([len(word) for word in words])
    return words[np.argsort(lengths + rng.normal(0, 2, VOCABULARY), kind="stable")]


def word_numbers(rng: Random, count: int) -> Numbers:
    """``count`` word numbers with Zipf-Mandelbrot frequencies (exponent 1.05, shift 2.7)."""
    weights = np.cumsum((np.arange(VOCABULARY) + 2.7) ** -1.05)
    numbers: Numbers = np.searchsorted(weights, rng.random(count) * weights[-1])
    return numbers


def synthetic_claims(
    rows: int,
    seed: int = 7,
    *,
    copied: float = COPIED,
    covered: float = 1.0,
    language: int | None = None,
) -> list[str]:
    """Claims of 12 to 40 words, a quarter on shared templates, a tenth near copies.

    ``covered`` is the largest share of a claim that comes from its template: with 1.0 a short
    claim can be all template and equal to others. Copies have words replaced so that their
    Jaccard with the original is roughly uniform between 0.5 and 1; a third are shuffled. Their
    words are those of the seed ``language``, by default ``seed``.
    """
    if not rows:
        return []
    rng = np.random.default_rng([seed, 2])
    sizes = rng.integers(12, 41, rows)
    copies = np.flatnonzero(rng.random(rows) < copied)
    originals = (rng.random(len(copies)) * copies).astype(np.int64)
    for copy, original in zip(copies.tolist(), originals.tolist(), strict=True):
        sizes[copy] = sizes[original]
    starts = np.concatenate(([0], np.cumsum(sizes)))
    numbers = word_numbers(rng, int(starts[-1]))
    _write_templates(rng, numbers, starts, covered)
    for copy, original in zip(copies.tolist(), originals.tolist(), strict=True):
        if copy:
            source = numbers[starts[original] : starts[original + 1]]
            numbers[starts[copy] : starts[copy + 1]] = _copy(rng, source)
    words = vocabulary(seed if language is None else language)
    return _sentences_of(words[numbers].tolist(), starts.tolist())


def _sentences_of(words: list[str], bounds: list[int]) -> list[str]:
    return [
        f"{' '.join(words[start:end])}.".capitalize() for start, end in itertools.pairwise(bounds)
    ]


def _write_templates(rng: Random, numbers: Numbers, starts: Numbers, covered: float) -> None:
    rows = len(starts) - 1
    lengths = rng.integers(6, 20, max(rows // CLAIMS_A_TEMPLATE, 1)).tolist()
    templates = [word_numbers(rng, length) for length in lengths]
    templated = np.flatnonzero(rng.random(rows) < TEMPLATED)
    chosen = rng.integers(0, len(templates), len(templated)).tolist()
    for row, which in zip(templated.tolist(), chosen, strict=True):
        part = templates[which][: int(covered * (starts[row + 1] - starts[row]))]
        numbers[starts[row] : starts[row] + len(part)] = part


def _copy(rng: Random, original: Numbers) -> Numbers:
    copy = original.copy()
    replaced = replaced_positions(rng, len(original), rng.uniform(0.5, 1))
    copy[replaced] = rng.integers(0, VOCABULARY, len(replaced))
    return rng.permutation(copy) if rng.random() < SHUFFLED else copy


def replaced_positions(rng: Random, words: int, jaccard: float) -> Numbers:
    """Positions to replace among ``words`` distinct words to get about this Jaccard."""
    return rng.permutation(words)[: round(words * (1 - jaccard) / (1 + jaccard))]


def clustered_vectors(
    rows: int,
    dimensions: int,
    seed: int = 7,
    rows_a_cluster: int = 6,
    spread: tuple[float, float] = (0.45, 1.5),
) -> Vectors:
    """Unit vectors in clusters with inner cosines from about 0.4 to 0.85.

    Each is 0.45 of a common direction, 0.65 of its cluster's and 0.62 a of noise, with a
    uniform in ``spread`` per cluster, so that thresholds cut through clusters. The common
    direction is the same for every seed.
    """
    rng = np.random.default_rng([seed, 3])
    clusters = max(rows // rows_a_cluster, 1)
    member = rng.integers(0, clusters, rows)
    tightness = rng.uniform(*spread, clusters).astype(np.float32)
    common = np.float32(0.45) * unit_noise(np.random.default_rng(dimensions), 1, dimensions)
    centres = np.float32(0.65) * unit_noise(rng, clusters, dimensions)
    vectors = unit_noise(rng, rows, dimensions)
    for start in range(0, rows, BLOCK):
        block = slice(start, start + BLOCK)
        vectors[block] *= (0.62 * tightness[member[block]])[:, None]
        vectors[block] += centres[member[block]]
        vectors[block] += common
    return scaled_to_one(vectors)


def selection_vectors(rows: int, dimensions: int, seed: int = 7) -> Vectors:
    """Unit vectors of one cell: rows / 20 clusters; a fifth of the rows are near copies."""
    rng = np.random.default_rng([seed, 4])
    vectors = clustered_vectors(rows, dimensions, seed, rows_a_cluster=20)
    copies = np.sort(rng.permutation(rows)[: rows // 5])
    originals = rng.integers(0, max(rows, 1), len(copies))
    noise = np.float32(0.2) * unit_noise(rng, len(copies), dimensions)
    vectors[copies] = vectors[originals] + noise
    return scaled_to_one(vectors)


def holdout_vectors(train: Vectors, rows: int, seed: int = 7, planted: int = 600) -> Vectors:
    """Unit vectors of test claims; ``planted`` of them are near a training row (noise 0.2-0.7)."""
    rng = np.random.default_rng([seed, 5])
    vectors = clustered_vectors(rows, train.shape[1], seed + 1)
    leaked = rng.permutation(rows)[:planted]
    near = train[rng.integers(0, len(train), len(leaked))]
    noise = rng.uniform(0.2, 0.7, len(leaked)).astype(np.float32)[:, None]
    vectors[leaked] = scaled_to_one(near + noise * unit_noise(rng, len(leaked), train.shape[1]))
    return vectors


def neighbours(rng: Random, vectors: Vectors, cosines: NDArray[np.float64]) -> Vectors:
    """Unit vectors with about these cosines to ``vectors``, row by row."""
    noise = np.sqrt(1 / cosines**2 - 1).astype(np.float32)[:, None]
    return scaled_to_one(vectors + noise * unit_noise(rng, *vectors.shape))


def unit_noise(rng: Random, rows: int, dimensions: int) -> Vectors:
    """Unit vectors in random directions, shape (rows, dimensions)."""
    return scaled_to_one(rng.standard_normal((rows, dimensions), dtype=np.float32))


def scaled_to_one(vectors: Vectors) -> Vectors:
    """Scale every row to length 1, in place; returns the same array."""
    for start in range(0, len(vectors), BLOCK):
        block = vectors[start : start + BLOCK]
        block /= np.sqrt(np.einsum("ij,ij->i", block, block))[:, None]
    return vectors


def evidence_lengths(rows: int, seed: int = 7, median: int = MEDIAN_WORDS) -> Numbers:
    """Words of evidence per row: log-normal, median 540, mean about 830, 80 to 7,000."""
    rng = np.random.default_rng([seed, 6])
    drawn = np.exp(rng.normal(np.log(median), SPREAD, rows))
    return np.clip(drawn, LEAST_WORDS, MOST_WORDS).astype(np.int64)


def synthetic_evidence(
    rows: int, seed: int = 7, *, sentences: int = SENTENCES, median: int = MEDIAN_WORDS
) -> Iterator[list[str]]:
    """Yield the evidence of each row as passages of six sentences.

    A row is a slice of one long synthetic text, cut at sentences, so that rows share sentences
    as claims share pages. Sentences have 8 to 30 words, a capital and a full stop; in a fifth
    of the rows every third sentence has accents. The text has ``sentences`` of them: with few, rows
    compress well. ``median`` is that of the words of a row.
    """
    plain, accented, ends = _long_text(seed, sentences)
    rng = np.random.default_rng([seed, 7])
    starts = rng.integers(0, sentences, rows)
    wanted = (
        evidence_lengths(rows, seed, median) + ends[starts - 1]
    )  # the text is doubled: wrap around
    stops = np.searchsorted(ends, np.where(starts == 0, wanted - ends[-1], wanted)) + 1
    has_accents = rng.random(rows) < ACCENTED_ROWS
    for first_row in range(0, rows, BLOCK):  # Python's numbers of all rows would fill the memory
        block = slice(first_row, first_row + BLOCK)
        columns = (starts[block].tolist(), stops[block].tolist(), has_accents[block].tolist())
        for start, stop, accents in zip(*columns, strict=True):
            text = accented if accents else plain
            yield [
                " ".join(text[first : min(first + SENTENCES_A_PASSAGE, stop)])
                for first in range(start, stop, SENTENCES_A_PASSAGE)
            ]


@cache
def _long_text(seed: int, sentences: int) -> tuple[list[str], list[str], Numbers]:
    """The long text twice in a row, plain and accented, and each sentence's end in words."""
    rng = np.random.default_rng([seed, 8])
    sizes = rng.integers(8, 31, sentences)
    ends = np.cumsum(np.tile(sizes, 2))
    words = vocabulary(seed)[word_numbers(rng, int(sizes.sum()))].tolist()
    plain = _sentences_of(words, [0, *ends[:sentences].tolist()])
    accented = [
        text if index % ACCENTED_SENTENCES else text.replace("a", "á", 2).replace("o", "ö", 1)
        for index, text in enumerate(plain)
    ]
    return plain * 2, accented * 2, ends
