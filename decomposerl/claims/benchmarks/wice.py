"""WiCE as a benchmark: the claim-level test split, else the claim-level dev split.

Left out deliberately: reading (the training source's reader serves), and the sub-claim
files, which are training material only.
"""

from decomposerl.claims.source import Benchmark, NativeFile
from decomposerl.claims.sources.wice import CLAIM_DEV
from decomposerl.claims.sources.wice import WICE as SOURCE

WICE = Benchmark(
    name="wice",
    title=SOURCE.title,
    domain=SOURCE.domain,
    in_domain=True,
    homepage=SOURCE.homepage,
    license=SOURCE.license,
    terms=SOURCE.terms,
    labels=SOURCE.labels,
    files=(NativeFile("wice/claim/test.jsonl", "jsonl", "test", subset="claim"),),
    read=SOURCE.read,
    shared=(CLAIM_DEV,),
    source=SOURCE.name,
    notes=("WiCE is also one of the parts of LLM-AggreFact.",),
)
