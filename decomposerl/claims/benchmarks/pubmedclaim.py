"""PubMedClaim as a benchmark: the official test half, else the shared other half.

Left out deliberately: reading (the training source's reader serves).
"""

from decomposerl.claims.source import Benchmark, NativeFile
from decomposerl.claims.sources.pubmedclaim import ALL_ROWS, TRAIN_HALF
from decomposerl.claims.sources.pubmedclaim import PUBMEDCLAIM as SOURCE

PUBMEDCLAIM = Benchmark(
    name="pubmedclaim",
    title=SOURCE.title,
    domain=SOURCE.domain,
    in_domain=True,
    homepage=SOURCE.homepage,
    license=SOURCE.license,
    terms=SOURCE.terms,
    labels=SOURCE.labels,
    files=(NativeFile(ALL_ROWS, "json_object", "test"),),
    read=SOURCE.read,
    shared=(TRAIN_HALF,),
    source=SOURCE.name,
    notes=("Claims are PubMedQA's questions, verbatim.",),
)
