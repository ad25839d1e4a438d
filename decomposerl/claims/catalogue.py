"""The one ordered list of training corpora and the one of test sets.

``SOURCES`` is in the order of the paper's table of per-source counts (appendix "Per-source
training-row counts"), ``BENCHMARKS`` in the order of its appendix "Evaluation Benchmarks". To add
a corpus, write its file and add its line here; a test set that its corpus's reader can read is an
entry here, ``Benchmark.from_source``, and one with its own format a file in ``benchmarks/``.
"""

from collections.abc import Sequence

from decomposerl.claims.benchmarks import coverbench, fever
from decomposerl.claims.source import Benchmark, NativeFile, Source
from decomposerl.claims.sources import (
    ambifc,
    claimdecomp,
    ex_fever,
    faviq_a,
    feverous,
    foolmetwice,
    hover,
    llm_aggrefact,
    pubhealth,
    pubhealthtab,
    pubmedclaim,
    scifact,
    scitab,
    wice,
)

SOURCES: tuple[Source, ...] = (
    ex_fever.SOURCE,
    llm_aggrefact.SOURCE,
    feverous.SOURCE,
    hover.SOURCE,
    foolmetwice.SOURCE,
    faviq_a.SOURCE,
    pubhealth.SOURCE,
    ambifc.SOURCE,
    pubhealthtab.SOURCE,
    scifact.SOURCE,
    scitab.SOURCE,
    wice.SOURCE,
    claimdecomp.SOURCE,
    pubmedclaim.SOURCE,
)

BENCHMARKS: tuple[Benchmark, ...] = (
    fever.BENCHMARK,
    # The dev split: the test split is published without labels and serves decontamination alone.
    Benchmark.from_source(
        hover.SOURCE,
        shared=(hover.DEV,),
        claim_lists=(NativeFile("hover/hover_test_release_v1.1.json", "json_array", "test"),),
    ),
    Benchmark.from_source(
        feverous.SOURCE,
        NativeFile("feverous/feverous_dev_challenges.jsonl", "jsonl", "dev"),
        shared=(feverous.SENTENCE_DEV,),
        same_rows=(feverous.SENTENCE_DEV,),
        notes=(
            (
                "feverous_s holds the claims whose gold evidence is sentences only "
                "(subset feverous_s)."
            ),
            "The rows of feverous_s/dev.json are also rows of the native dev file.",
        ),
    ),
    Benchmark.from_source(
        wice.SOURCE,
        NativeFile("wice/claim/test.jsonl", "jsonl", "test", subset="claim"),
        shared=(wice.CLAIM_DEV,),
        notes=("WiCE is also one of the parts of LLM-AggreFact.",),
    ),
    Benchmark.from_source(
        ex_fever.SOURCE,
        NativeFile("ex_fever/test.csv", "csv", "test"),
        claim_lists=(NativeFile("ex_fever/mini_test.csv", "csv", "test"),),
        notes=("mini_test.csv is a sample of the test split, without the page texts.",),
    ),
    Benchmark.from_source(
        foolmetwice.SOURCE,
        NativeFile("foolmetwice/test.jsonl", "jsonl", "test"),
        shared=(foolmetwice.DEV,),
    ),
    Benchmark.from_source(
        claimdecomp.SOURCE,
        NativeFile("claimdecomp/test.jsonl", "jsonl", "test"),
        notes=("The evidence states the rating in words: read scores with that in mind.",),
    ),
    Benchmark.from_source(
        pubhealth.SOURCE,
        NativeFile("pubhealth/test.tsv", "tsv", "test"),
        shared=(pubhealth.EXCERPT,),
        same_rows=(pubhealth.EXCERPT,),
        notes=("The excerpt does not say which PubHealth split each of its rows is from.",),
    ),
    Benchmark.from_source(
        pubmedclaim.SOURCE,
        NativeFile(pubmedclaim.ALL_ROWS, "json_object", "test"),
        shared=(pubmedclaim.TRAIN_HALF,),
        notes=("Claims are PubMedQA's questions, verbatim.",),
    ),
    coverbench.BENCHMARK,
    Benchmark.from_source(
        llm_aggrefact.SOURCE,
        NativeFile("llm_aggrefact/test.parquet", "parquet", "test"),
        in_domain=False,
        notes=(
            "Report the pooled score and the mean of the eleven parts.",
            "The part WiCE is also a separate benchmark.",
        ),
    ),
)


def source_of(benchmark: Benchmark, sources: Sequence[Source] = SOURCES) -> Source | None:
    """The training corpus that shares files with a test set; None where there is none."""
    return next((source for source in sources if source.name == benchmark.source), None)


def benchmark_of(source: Source, benchmarks: Sequence[Benchmark] = BENCHMARKS) -> Benchmark | None:
    """The test set of a training corpus; None where there is none."""
    return next((one for one in benchmarks if one.source == source.name), None)
