"""The one ordered list of training corpora and the one of test sets; a user's own join them.

``SOURCES`` is in the order of the paper's table of per-source counts (appendix "Per-source
training-row counts"), ``BENCHMARKS`` in the order of its appendix "Evaluation Benchmarks". To add
a corpus, write its file and add its line here; a test set that its corpus's reader can read is an
entry here, ``Benchmark.from_source``, and one with its own format a file in ``benchmarks/``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from decomposerl.claims.benchmarks import coverbench, fever
from decomposerl.claims.source import Benchmark, NativeFile, Source, with_hub
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
from decomposerl.errors import ConfigError

_NOT_STATED = {"", "not stated"}
Member = TypeVar("Member", Source, Benchmark)

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
        claim_lists=(hover.TEST,),
    ),
    Benchmark.from_source(
        feverous.SOURCE,
        with_hub(NativeFile("feverous/feverous_dev_challenges.jsonl", "jsonl", "dev")),
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
        with_hub(NativeFile("wice/claim/test.jsonl", "jsonl", "test", subset="claim"), "claim"),
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
        with_hub(NativeFile("foolmetwice/test.jsonl", "jsonl", "test")),
        shared=(foolmetwice.DEV,),
    ),
    Benchmark.from_source(
        claimdecomp.SOURCE,
        with_hub(NativeFile("claimdecomp/test.jsonl", "jsonl", "test")),
        notes=("The evidence states the rating in words: read scores with that in mind.",),
    ),
    Benchmark.from_source(
        pubhealth.SOURCE,
        pubhealth.native_file("test", "test"),
        shared=(pubhealth.EXCERPT,),
        same_rows=(pubhealth.EXCERPT,),
        notes=("The excerpt does not say which PubHealth split each of its rows is from.",),
    ),
    Benchmark.from_source(
        pubmedclaim.SOURCE,
        replace(pubmedclaim.ALL_ROWS, split="test"),
        shared=(pubmedclaim.TRAIN_HALF,),
        notes=("Claims are PubMedQA's questions, verbatim.",),
    ),
    coverbench.BENCHMARK,
    Benchmark.from_source(
        llm_aggrefact.SOURCE,
        with_hub(NativeFile("llm_aggrefact/test.parquet", "parquet", "test")),
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


def other_forms(path: str) -> tuple[str, ...]:
    """Where other forms of a file of the catalogue may be; none for any other path."""
    listed = [file for one in SOURCES for file in (*one.files, *one.extra)]
    for benchmark in BENCHMARKS:
        listed += (*benchmark.files, *benchmark.shared, *benchmark.claim_lists)
    return next((file.also for file in (*listed, scifact.CORPUS) if file.path == path), ())


def with_own_sources(own: Iterable[Source]) -> tuple[Source, ...]:
    """``SOURCES``, each replaced by the user's copy of its name, then the user's other sources.

    A copy keeps the catalogue's title, domain, ``paper_raw`` and ``training_off``, and its license,
    terms and homepage where the user states none.

    Raises:
        ConfigError: a name is taken, or a source replaces what is not in the catalogue.
    """
    listed = list(own)
    # A file with test files alone replaces a test set, and names no training corpus.
    copies = _copies([one for one in listed if one.files or not one.replaces], SOURCES)
    kept = ("domain", "title", "paper_raw", "training_off")
    catalogue = [
        _copy(copies[one.name], one, kept) if one.name in copies else one for one in SOURCES
    ]
    return (*catalogue, *(one for one in listed if not one.replaces))


def with_own_benchmarks(own: Iterable[Benchmark]) -> tuple[Benchmark, ...]:
    """``BENCHMARKS``, each replaced by the user's copy of its name, then the user's other ones.

    Raises:
        ConfigError: as ``with_own_sources``.
    """
    listed = list(own)
    without = {one.name for one in SOURCES} - {one.name for one in BENCHMARKS}
    # A copy of a training corpus that the paper does not test on may add test files.
    replacing = (replace(one, replaces=one.replaces and one.name not in without) for one in listed)
    copies = _copies(list(replacing), BENCHMARKS)
    kept = ("domain", "title", "in_domain", "source")
    catalogue = [
        _copy(copies[one.name], one, kept) if one.name in copies else one for one in BENCHMARKS
    ]
    return (*catalogue, *(one for one in listed if one.name not in copies))


def _copies(own: Sequence[Member], catalogue: Sequence[Member]) -> dict[str, Member]:
    """The corpora that replace one of the catalogue, by name."""
    known, seen = {one.name for one in catalogue}, set[str]()
    for one in own:
        if one.name in seen or (one.name in known and not one.replaces):
            hint = "" if one.name in seen else ", or say replaces = true to read it in its place"
            raise ConfigError(
                f"source.toml: the corpus name '{one.name}' is taken; choose another{hint}"
            )
        if one.replaces and one.name not in known:
            raise ConfigError(
                f"source.toml: replaces = true, but the catalogue has no '{one.name}' to replace; "
                f"it has {', '.join(sorted(known))}"
            )
        seen.add(one.name)
    return {one.name: one for one in own if one.replaces}


def _copy(own: Member, listed: Member, kept: Sequence[str]) -> Member:
    theirs: dict[str, Any] = {name: getattr(listed, name) for name in kept}
    for name in ("license", "terms", "homepage"):
        if getattr(own, name) in _NOT_STATED:
            theirs[name] = getattr(listed, name)
    return replace(own, **theirs)
