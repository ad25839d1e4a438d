"""FEVEROUS as a benchmark: the native dev split, else the reduced sentence-only dev file.

Left out deliberately: reading (the training source's reader serves).
"""

from decomposerl.claims.source import Benchmark, NativeFile
from decomposerl.claims.sources.feverous import FEVEROUS as SOURCE
from decomposerl.claims.sources.feverous import SENTENCE_DEV

FEVEROUS = Benchmark(
    name="feverous",
    title=SOURCE.title,
    domain=SOURCE.domain,
    in_domain=True,
    homepage=SOURCE.homepage,
    license=SOURCE.license,
    terms=SOURCE.terms,
    labels=SOURCE.labels,
    files=(NativeFile("feverous/feverous_dev_challenges.jsonl", "jsonl", "dev"),),
    read=SOURCE.read,
    shared=(SENTENCE_DEV,),
    source=SOURCE.name,
    notes=(
        "feverous_s holds the claims whose gold evidence is sentences only (subset feverous_s).",
        "The rows of feverous_s/dev.json are also rows of the native dev file.",
    ),
)
