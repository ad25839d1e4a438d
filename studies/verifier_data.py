"""Labelled claims of real corpora for fitting and scoring the embedded verifier.

Takes a corpora folder, gives (evidence, claim) pairs with labels: the training side of a
corpus with the claims made from its evidence, or all labelled claims of a corpus. For the encoder's
study it gives folds with nothing on both sides: the corpora that are not left out, without claims
and sentences of those that are, split by document. Only corpora of ``TRAINED`` are in them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES, benchmark_of
from decomposerl.claims.load import LoadSettings, load_benchmark, load_source
from decomposerl.judge.call import JudgeCall
from decomposerl.judge.distillation import (
    HEADS,
    DistillationSettings,
    Head,
    RuledCall,
    judge_examples,
)
from decomposerl.text.sentences import split_sentences
from resources.corpora.folder import FolderCorpora
from studies.weak_claims import weak_claims

EVALUATED = {
    "hover": "hover",
    "feverous_s": "feverous",
    "foolmetwice": "foolmetwice",
    "scitab": "scitab",
    "scifact": "scifact",
    "fever_symmetric": "fever",
    "pubmedqa": "pubmedclaim",
    "pubhealthtab": "pubhealthtab",
    "pubhealth": "pubhealth",
    "wice (drop_middle)": "wice",
    "wice (middle_is_refuted)": "wice",
}
"""Corpora of the report and the catalogue source that each must be scored without."""
TRAINED = {
    "hover": "CC BY-SA 4.0",
    "feverous_s": "CC BY-SA 3.0",
    "foolmetwice": "Apache 2.0",
    "scifact": "CC BY 4.0, abstracts ODC-By 1.0",
    "fever_symmetric": "CC BY-SA 3.0",
    "wice (middle_is_refuted)": "ODC-By 1.0",
}
"""Corpora whose licences allow training, with the licence of the annotations; texts of Wikipedia
are CC BY-SA."""
FOLDS = {
    "hover": ("hover",),
    "fever": ("feverous_s", "fever_symmetric"),
    "foolmetwice": ("foolmetwice",),
    "scifact": ("scifact",),
    "wice": ("wice (middle_is_refuted)", "wice (drop_middle)"),
}
"""Corpora that each adapter never saw; two of one origin are left out together."""
OTHERS = "wice"
"""The fold that scores corpora which no adapter was trained on."""
HEAD: Head = next(head for head in HEADS if head.name == "answerability")
"""The tiny judge's head with the same shape: a short text, its document, yes or no."""
MADE = " made"
"""Ends the name of claims that were made from a corpus's evidence."""
_LEAST_WORDS = 6
"""Shorter sentences, such as headings, name no document."""
_WORD = re.compile(r"\w+")
_MADE_PER_CORPUS = 700


@dataclass(frozen=True)
class Claims:
    """Pairs of (evidence, claim), whether each is supported, and how made claims were made."""

    name: str
    pairs: list[tuple[str, str]]
    supported: NDArray[np.float64]
    kinds: tuple[str, ...] = ()

    @property
    def made(self) -> bool:
        """Whether these are weak supervision rather than a corpus's own claims."""
        return bool(self.kinds)


@dataclass(frozen=True)
class Examples:
    """Claims with their features, shape (n, len(FEATURES))."""

    claims: Claims
    features: NDArray[np.float64]


def training_claims(root: Path, name: str) -> tuple[Claims, Claims]:
    """The training side of a source, and claims made from the same evidence."""
    source = next(one for one in SOURCES if one.name == name)
    loaded = load_source(source, benchmark_of(source), FolderCorpora(root), LoadSettings())
    own = _claims(name, loaded.claims)
    return own, made_claims(own, _MADE_PER_CORPUS)


def evaluation_claims(root: Path, name: str) -> Claims:
    """All labelled claims with text of one corpus of ``EVALUATED``."""
    files, settings = FolderCorpora(root), LoadSettings()
    if name == "fever_symmetric":
        fever = next(one for one in BENCHMARKS if one.name == "fever")
        frame = load_benchmark(fever, None, files, settings).claims
        return _claims(name, frame.filter(pl.col("subset") == name))
    if name == "wice (middle_is_refuted)":
        wice = next(one for one in BENCHMARKS if one.name == "wice")
        wide = LoadSettings(label_rule="middle_is_refuted")
        return _claims(name, load_benchmark(wice, None, files, wide).claims)
    source = next(one for one in SOURCES if one.name == EVALUATED[name])
    return _claims(name, load_source(source, None, files, settings).claims)


@dataclass(frozen=True, slots=True)
class FoldSettings:
    """``per_corpus`` claims of a corpus at most, the same draw each time.

    ``made``: claims made from their evidence (``studies.weak_claims``), of each corpus at most.
    ``scored``: claims of a left-out corpus. ``held_out`` and ``dev``: shares of documents.
    ``all_layers``: train the encoder itself instead of an adapter.
    """

    per_corpus: int = 1_600
    made: int = 0
    scored: int = 5_000
    all_layers: bool = False
    held_out: float = 0.15
    dev: float = 0.05


def fold_of(corpus: str) -> str:
    """The fold whose adapter scores this corpus."""
    return next((fold for fold, left_out in FOLDS.items() if corpus in left_out), OTHERS)


def training_corpora(fold: str) -> tuple[str, ...]:
    """The corpora that the fold's adapter is trained on."""
    return tuple(name for name in TRAINED if name not in FOLDS[fold])


def traces_of(evidence: str, claim: str) -> set[str]:
    """What two pairs of one document share: normalised sentences, and the claim."""
    sentences = (" ".join(_WORD.findall(one.lower())) for one in split_sentences(evidence))
    long = {one for one in sentences if len(one.split()) >= _LEAST_WORDS}
    return long | {"claim " + " ".join(_WORD.findall(claim.lower()))}


def without_leaks(claims: Claims, forbidden: Iterable[Claims]) -> Claims:
    """The claims that share no sentence and no claim with any of ``forbidden``."""
    seen = {trace for other in forbidden for pair in other.pairs for trace in traces_of(*pair)}
    kept = [i for i, pair in enumerate(claims.pairs) if seen.isdisjoint(traces_of(*pair))]
    return _chosen(claims, kept)


def documents_of(pairs: Sequence[tuple[str, str]]) -> list[int]:
    """The number of each pair's document: pairs that share a sentence or a claim have one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    number: dict[str, int] = {}
    edges = [
        (row, number.setdefault(trace, len(number)))
        for row, pair in enumerate(pairs)
        for trace in sorted(traces_of(*pair))
    ]
    rows, traces = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    nodes = len(pairs) + len(number)
    graph = coo_array((np.ones(len(rows)), (rows, traces + len(pairs))), shape=(nodes, nodes))
    _, part = connected_components(graph, directed=False)
    return [int(one) for one in part[: len(pairs)]]


def fold_claims(claims: Mapping[str, Claims], fold: str, settings: FoldSettings) -> list[Claims]:
    """What the fold may be trained on, at most ``per_corpus`` of each corpus."""
    forbidden = [claims[name] for name in FOLDS[fold] if name in claims]
    kept = [without_leaks(claims[name], forbidden) for name in training_corpora(fold)]
    drawn = [drawn_claims(one, settings.per_corpus) for one in kept]
    return drawn + [made_claims(one, settings.made) for one in drawn if settings.made]


def made_claims(claims: Claims, most: int) -> Claims:
    """Claims with a known answer, made from the evidence of these."""
    # By content, because the order of rows in a file must not choose what is made.
    made = weak_claims(sorted({evidence for evidence, _ in claims.pairs}), most)
    return Claims(
        f"{claims.name}{MADE}",
        [(one.evidence, one.claim) for one in made],
        np.array([float(one.supported) for one in made]),
        tuple(one.kind for one in made),
    )


def fold_examples(parts: Sequence[Claims], settings: FoldSettings) -> pl.DataFrame:
    """``JUDGE_EXAMPLES`` with the rows of ``HEAD`` alone: text is the claim, context the evidence.

    Claims of one document are in one split. ``teacher`` is ``gold``; ``claim_id`` is the corpus
    with the place of the claim in it.
    """
    pairs = [pair for part in parts for pair in part.pairs]
    labels = [int(one) for part in parts for one in part.supported]
    names = [f"{part.name} {i}" for part in parts for i in range(len(part.pairs))]
    ruled = [
        RuledCall(
            JudgeCall(HEAD.task, document=evidence, question=claim),
            str(label),
            name,
            claim,
            f"document {document}",
        )
        for (evidence, claim), label, name, document in zip(
            pairs, labels, names, documents_of(pairs), strict=True
        )
    ]
    split = DistillationSettings(
        test_share=settings.held_out, dev_share=settings.dev, repeats=2, most_dev=400
    )
    return judge_examples(ruled, "gold", split)


def drawn_claims(claims: Claims, most: int) -> Claims:
    """At most ``most`` of the claims, in their order, the same draw each time."""
    order = np.random.default_rng(0).permutation(len(claims.pairs))[:most]
    return _chosen(claims, sorted(int(one) for one in order))


def _chosen(claims: Claims, rows: Sequence[int]) -> Claims:
    kinds = tuple(claims.kinds[row] for row in rows) if claims.kinds else ()
    pairs = [claims.pairs[row] for row in rows]
    return Claims(claims.name, pairs, claims.supported[list(rows)], kinds)


def _claims(name: str, frame: pl.DataFrame) -> Claims:
    pairs = [(evidence, claim) for evidence, claim in frame.select("evidence", "claim").rows()]
    return Claims(name, pairs, (frame["label"] == "Supported").cast(pl.Float64).to_numpy())
