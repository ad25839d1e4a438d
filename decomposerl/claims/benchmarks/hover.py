"""HoVer as a benchmark: the dev split, because the test split is published without labels.

Left out deliberately: reading (the training source's reader serves). The unlabelled test
claims are used for decontamination alone.
"""

from decomposerl.claims.source import Benchmark, NativeFile
from decomposerl.claims.sources.hover import DEV
from decomposerl.claims.sources.hover import HOVER as SOURCE

HOVER = Benchmark(
    name="hover",
    title=SOURCE.title,
    domain=SOURCE.domain,
    in_domain=True,
    homepage=SOURCE.homepage,
    license=SOURCE.license,
    terms=SOURCE.terms,
    labels=SOURCE.labels,
    files=(),
    read=SOURCE.read,
    shared=(DEV,),
    claim_lists=(NativeFile("hover/hover_test_release_v1.1.json", "json_array", "test"),),
    source=SOURCE.name,
)
