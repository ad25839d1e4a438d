"""Ex-FEVER as a benchmark: the test split; its published sample as a list of claims.

Left out deliberately: reading (the training source's reader serves).
"""

from decomposerl.claims.source import Benchmark, NativeFile
from decomposerl.claims.sources.ex_fever import EX_FEVER as SOURCE

EX_FEVER = Benchmark(
    name="ex_fever",
    title=SOURCE.title,
    domain=SOURCE.domain,
    in_domain=True,
    homepage=SOURCE.homepage,
    license=SOURCE.license,
    terms=SOURCE.terms,
    labels=SOURCE.labels,
    files=(NativeFile("ex_fever/test.csv", "csv", "test"),),
    read=SOURCE.read,
    claim_lists=(NativeFile("ex_fever/mini_test.csv", "csv", "test"),),
    source=SOURCE.name,
    notes=("mini_test.csv is a sample of the test split, without the page texts.",),
)
