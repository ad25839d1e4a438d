"""The one ordered list of training corpora and the one of test sets.

``SOURCES`` stands in the order of the paper's table of per-source counts (appendix
"Per-source training-row counts"), ``BENCHMARKS`` in the order of its appendix "Evaluation
Benchmarks". To add a corpus, write its file and add its line here.

Left out deliberately: corpora that a user describes in a TOML file (``generic.py``).
"""

from collections.abc import Sequence

from decomposerl.claims.benchmarks.claimdecomp import CLAIMDECOMP as CLAIMDECOMP_TEST
from decomposerl.claims.benchmarks.coverbench import COVERBENCH
from decomposerl.claims.benchmarks.ex_fever import EX_FEVER as EX_FEVER_TEST
from decomposerl.claims.benchmarks.fever import FEVER
from decomposerl.claims.benchmarks.feverous import FEVEROUS as FEVEROUS_TEST
from decomposerl.claims.benchmarks.foolmetwice import FOOLMETWICE as FOOLMETWICE_TEST
from decomposerl.claims.benchmarks.hover import HOVER as HOVER_TEST
from decomposerl.claims.benchmarks.llm_aggrefact import LLM_AGGREFACT as LLM_AGGREFACT_TEST
from decomposerl.claims.benchmarks.pubhealth import PUBHEALTH as PUBHEALTH_TEST
from decomposerl.claims.benchmarks.pubmedclaim import PUBMEDCLAIM as PUBMEDCLAIM_TEST
from decomposerl.claims.benchmarks.wice import WICE as WICE_TEST
from decomposerl.claims.source import Benchmark, Source
from decomposerl.claims.sources.ambifc import AMBIFC
from decomposerl.claims.sources.claimdecomp import CLAIMDECOMP
from decomposerl.claims.sources.ex_fever import EX_FEVER
from decomposerl.claims.sources.faviq_a import FAVIQ_A
from decomposerl.claims.sources.feverous import FEVEROUS
from decomposerl.claims.sources.foolmetwice import FOOLMETWICE
from decomposerl.claims.sources.hover import HOVER
from decomposerl.claims.sources.llm_aggrefact import LLM_AGGREFACT
from decomposerl.claims.sources.pubhealth import PUBHEALTH
from decomposerl.claims.sources.pubhealthtab import PUBHEALTHTAB
from decomposerl.claims.sources.pubmedclaim import PUBMEDCLAIM
from decomposerl.claims.sources.scifact import SCIFACT
from decomposerl.claims.sources.scitab import SCITAB
from decomposerl.claims.sources.wice import WICE

SOURCES: tuple[Source, ...] = (
    EX_FEVER,
    LLM_AGGREFACT,
    FEVEROUS,
    HOVER,
    FOOLMETWICE,
    FAVIQ_A,
    PUBHEALTH,
    AMBIFC,
    PUBHEALTHTAB,
    SCIFACT,
    SCITAB,
    WICE,
    CLAIMDECOMP,
    PUBMEDCLAIM,
)

BENCHMARKS: tuple[Benchmark, ...] = (
    FEVER,
    HOVER_TEST,
    FEVEROUS_TEST,
    WICE_TEST,
    EX_FEVER_TEST,
    FOOLMETWICE_TEST,
    CLAIMDECOMP_TEST,
    PUBHEALTH_TEST,
    PUBMEDCLAIM_TEST,
    COVERBENCH,
    LLM_AGGREFACT_TEST,
)


def source_of(benchmark: Benchmark, sources: Sequence[Source] = SOURCES) -> Source | None:
    """The training corpus that shares files with a test set; None where there is none."""
    return next((source for source in sources if source.name == benchmark.source), None)


def benchmark_of(source: Source, benchmarks: Sequence[Benchmark] = BENCHMARKS) -> Benchmark | None:
    """The test set of a training corpus; None where there is none."""
    return next((one for one in benchmarks if one.source == source.name), None)
