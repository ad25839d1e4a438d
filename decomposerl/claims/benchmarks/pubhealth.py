"""PubHealth as a benchmark: the native test split, else the shared excerpt.

Left out deliberately: reading (the training source's reader serves).
"""

from decomposerl.claims.source import Benchmark, NativeFile
from decomposerl.claims.sources.pubhealth import EXCERPT
from decomposerl.claims.sources.pubhealth import PUBHEALTH as SOURCE

PUBHEALTH = Benchmark(
    name="pubhealth",
    title=SOURCE.title,
    domain=SOURCE.domain,
    in_domain=True,
    homepage=SOURCE.homepage,
    license=SOURCE.license,
    terms=SOURCE.terms,
    labels=SOURCE.labels,
    files=(NativeFile("pubhealth/test.tsv", "tsv", "test"),),
    read=SOURCE.read,
    shared=(EXCERPT,),
    source=SOURCE.name,
    notes=("The excerpt does not say which PubHealth split each of its rows is from.",),
)
