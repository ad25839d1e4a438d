"""The made-up inputs of the benchmarks: the same for a seed, with the shapes they promise."""

import numpy as np

from decomposerl.kernels.text_scan import sentences
from perf import inputs


def test_a_seed_gives_the_same_inputs_and_another_seed_gives_others():
    """Every generator is a function of its sizes and seed alone."""
    for make in (
        lambda seed: inputs.synthetic_claims(50, seed),
        lambda seed: inputs.clustered_vectors(30, 16, seed).tolist(),
        lambda seed: inputs.selection_vectors(30, 16, seed).tolist(),
        lambda seed: list(inputs.synthetic_evidence(20, seed)),
    ):
        assert make(1) == make(1)
        assert make(1) != make(2)


def test_claims_have_their_lengths_and_the_promised_share_of_near_copies():
    """12 to 40 words; about a tenth share most of their words with another claim."""
    rows = 2_000
    claims = inputs.synthetic_claims(rows, covered=0.5)
    assert {12 <= len(claim.split()) <= 40 for claim in claims} == {True}
    alone = inputs.synthetic_claims(rows, copied=0.0, covered=0.5)
    sets = [frozenset(claim.lower().rstrip(".").split()) for claim in claims]
    holders: dict[str, list[int]] = {}
    for row, words in enumerate(sets):
        for word in words:
            holders.setdefault(word, []).append(row)
    copies = sum(
        any(
            len(words & sets[other]) >= 0.45 * len(words | sets[other])
            for word in words
            if len(holders[word]) < 30
            for other in holders[word]
            if other < row
        )
        for row, words in enumerate(sets)
    )
    assert 0.07 <= copies / rows <= 0.13
    assert len(set(alone)) == rows


def test_clusters_straddle_the_threshold():
    """Unit rows; neighbours run from below 0.70 to above it, strangers stay far below."""
    vectors = inputs.clustered_vectors(600, 512)
    cosines = vectors @ vectors.T
    assert np.allclose(np.diag(cosines), 1, atol=1e-5)
    np.fill_diagonal(cosines, 0)
    nearest = cosines.max(axis=1)
    assert 0.2 <= (nearest >= 0.7).mean() <= 0.6
    assert np.median(cosines) < 0.4


def test_planted_test_vectors_are_near_the_training_rows():
    """Only planted rows come near a training row, at the cosines their noise gives."""
    train = inputs.clustered_vectors(300, 512)
    tests = inputs.holdout_vectors(train, 400, planted=60)
    nearest = np.sort((tests @ train.T).max(axis=1))[::-1]
    assert np.all(nearest[:60] > 0.75)
    assert np.all(nearest[60:] < 0.75)


def test_selection_vectors_hold_a_fifth_of_near_copies():
    """A near copy has a cosine of about 0.98 with its original."""
    vectors = inputs.selection_vectors(500, 512)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, 0)
    assert 0.2 <= (cosines.max(axis=1) > 0.95).mean() <= 0.45


def test_neighbours_lie_at_the_cosines_asked():
    """Up to what chance adds in 2,048 dimensions."""
    rng = np.random.default_rng(0)
    vectors = inputs.unit_noise(rng, 40, 2_048)
    asked = rng.uniform(0.5, 0.98, 40)
    got = np.einsum("ij,ij->i", inputs.neighbours(rng, vectors, asked), vectors)
    assert np.allclose(got, asked, atol=0.05)


def test_evidence_has_its_lengths_sentences_and_accents():
    """Words as drawn plus at most one sentence; capitals and full stops; a fifth accented."""
    rows = 400
    texts = ["\n".join(passages) for passages in inputs.synthetic_evidence(rows)]
    extra = np.array([len(text.split()) for text in texts]) - inputs.evidence_lengths(rows)
    assert extra.min() >= 0
    assert extra.max() < 31
    assert 0.1 <= np.mean([not text.isascii() for text in texts]) <= 0.3
    assert min(len(sentences(text)) for text in texts) >= 2
    assert all(text[0].isupper() and text.endswith(".") for text in texts)
