"""LLM-AggreFact as a benchmark: the test split with its eleven parts (``subset``).

Left out deliberately: reading (the training source's reader serves).
"""

from decomposerl.claims.source import Benchmark, NativeFile
from decomposerl.claims.sources.llm_aggrefact import LLM_AGGREFACT as SOURCE

LLM_AGGREFACT = Benchmark(
    name="llm_aggrefact",
    title=SOURCE.title,
    domain=SOURCE.domain,
    in_domain=False,
    homepage=SOURCE.homepage,
    license=SOURCE.license,
    terms=SOURCE.terms,
    labels=SOURCE.labels,
    files=(NativeFile("llm_aggrefact/test.parquet", "parquet", "test"),),
    read=SOURCE.read,
    source=SOURCE.name,
    hub=SOURCE.hub,
    notes=(
        "Report the pooled score and the mean of the eleven parts.",
        "The part WiCE is also a benchmark of its own.",
    ),
)
