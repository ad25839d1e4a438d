"""FoolMeTwice as a benchmark: the test split, else the dev split.

Left out deliberately: reading (the training source's reader serves).
"""

from decomposerl.claims.source import Benchmark, NativeFile
from decomposerl.claims.sources.foolmetwice import DEV
from decomposerl.claims.sources.foolmetwice import FOOLMETWICE as SOURCE

FOOLMETWICE = Benchmark(
    name="foolmetwice",
    title=SOURCE.title,
    domain=SOURCE.domain,
    in_domain=True,
    homepage=SOURCE.homepage,
    license=SOURCE.license,
    terms=SOURCE.terms,
    labels=SOURCE.labels,
    files=(NativeFile("foolmetwice/test.jsonl", "jsonl", "test"),),
    read=SOURCE.read,
    shared=(DEV,),
    source=SOURCE.name,
)
