"""Labelled claims of real corpora for fitting and scoring the embedded verifier.

Takes a corpora folder, gives (evidence, claim) pairs with labels: the training side of a
corpus with the claims made from its evidence, or all labelled claims of a corpus.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES, benchmark_of
from decomposerl.claims.load import LoadSettings, load_benchmark, load_source
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
    # By content, because the order of rows in a file must not choose what is made.
    evidences = loaded.claims["evidence"].unique().sort().to_list()
    made = weak_claims(evidences, _MADE_PER_CORPUS)
    return _claims(name, loaded.claims), Claims(
        name,
        [(one.evidence, one.claim) for one in made],
        np.array([float(one.supported) for one in made]),
        tuple(one.kind for one in made),
    )


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


def _claims(name: str, frame: pl.DataFrame) -> Claims:
    pairs = [(evidence, claim) for evidence, claim in frame.select("evidence", "claim").rows()]
    return Claims(name, pairs, (frame["label"] == "Supported").cast(pl.Float64).to_numpy())
