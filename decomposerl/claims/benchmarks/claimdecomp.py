"""ClaimDecomp as a benchmark: the official test split.

Left out deliberately: reading (the training source's reader serves) and removing the
sentences that state the rating; evaluation reports with and without them.
"""

from decomposerl.claims.source import Benchmark, NativeFile
from decomposerl.claims.sources.claimdecomp import CLAIMDECOMP as SOURCE

CLAIMDECOMP = Benchmark(
    name="claimdecomp",
    title=SOURCE.title,
    domain=SOURCE.domain,
    in_domain=True,
    homepage=SOURCE.homepage,
    license=SOURCE.license,
    terms=SOURCE.terms,
    labels=SOURCE.labels,
    files=(NativeFile("claimdecomp/test.jsonl", "jsonl", "test"),),
    read=SOURCE.read,
    source=SOURCE.name,
    notes=("The evidence states the rating in words: read scores with that in mind.",),
)
