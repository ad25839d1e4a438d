"""``docs/reference/corpora-status.md``: what was checked of each training corpus and test set.

``REAL_FILES`` are the published files that an adapter was run on; the tests of the real corpora
compare those of ``kept`` with it wherever the files are there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from decomposerl.claims.catalogue import BENCHMARKS, DIFFERENCES, SOURCES, TABLES
from decomposerl.claims.downloads import ACCESS
from decomposerl.claims.source import Benchmark, Source
from decomposerl.reports.tables import count
from studies.reference.markdown import MADE, code, paragraphs, table

NOT_CHECKED = "not checked"
_INTRODUCTION = """\
For each of the 14 training corpora and 11 test sets: how its files are obtained, the public page
that shows the columns its adapter reads, and the published files that the adapter was run on. Every
adapter also has tests on made rows of each layout; "made rows" says that they are all there is.
[Addresses, sizes and licences](catalogue.md#how-the-files-are-obtained);
[why rows differ from the paper's](../explanation/paper-readings.md#rows-of-each-corpus).
"""
_NOTES = """\
Rows expected: those of the files that the adapter was run on, as published; SciFact's claims count
once per abstract. Rows got: those that the adapter gives before any is dropped; none was rejected.
Paper: its rows before the first filter. All files: ours from all public files, – where they were
not counted. † run once on the file of the repository that the link or `decomposerl fetch` names; no
test repeats it. Of FEVEROUS' native dev file, another repository holds 50 rows: the 16 of them that
are in `feverous_s/dev.json` have the same ids there. "In part": the articles are not in the files.

Pages were read as stored copies; no address was requested. A layout that is "not checked" is one
that no page was found for: its columns are assumed to be those of the native files.
"""


@dataclass(frozen=True, slots=True)
class RealFile:
    """A published file: ``rows`` of it expected for ``split``, and rows that the adapter ``got``.

    ``kept`` says that a test reads it where the real corpora are there, ``part`` that only some
    of its rows could be had.
    """

    path: str
    split: str
    rows: int
    got: int
    kept: bool = True
    part: bool = False

    @property
    def shown(self) -> str:
        """Its name, and how far it was read."""
        some = f", {self.rows} rows" if self.part else ""
        return f"{code(self.path.partition('/')[2])}{some}{'' if self.kept else ' †'}"


REAL_FILES = (
    RealFile("hover/hover_dev_release_v1.1.json", "dev", 4_000, 4_000),
    RealFile("hover/hover_test_release_v1.1.json", "test", 4_000, 4_000),
    RealFile("feverous_s/dev.json", "dev", 2_962, 2_962),
    RealFile("feverous/feverous_dev_challenges.jsonl", "dev", 50, 50, kept=False, part=True),
    RealFile("foolmetwice/dev.jsonl", "dev", 1_169, 1_169),
    RealFile("foolmetwice/test.jsonl", "test", 1_380, 1_380, kept=False),
    RealFile("scitab/sci_tab.json", "train", 1_224, 1_224),
    RealFile("scifact/claims_train.jsonl", "train", 564 + 304, 868),
    RealFile("scifact/claims_dev.jsonl", "dev", 209 + 112, 321),
    RealFile("fever_symmetric/fever_symmetric_dev.jsonl", "dev", 708, 708),
    RealFile("fever/paper_dev.jsonl", "dev", 9_999, 9_999),
    RealFile("pubmedqa/pqal_train_dev.json", "train", 500, 500),
    RealFile("pubmedqa/ori_pqal.json", "train", 500, 500, kept=False),
    RealFile("pubmedqa/ori_pqal.json", "test", 500, 500, kept=False),
    RealFile("wice/claim/dev.jsonl", "dev", 349, 349),
    RealFile("wice/claim/test.jsonl", "test", 358, 358, kept=False),
    RealFile("wice/non_supported_tokens/train.jsonl", "train", 374, 374),
    RealFile("wice/non_supported_tokens/dev.jsonl", "dev", 124, 124),
    RealFile("pubhealthtab/pubhealthtab_evalset.jsonl", "dev", 195, 195),
    RealFile("pubhealth/tuning_excerpt.tsv", "dev", 120, 120),
    RealFile("ex_fever/mini_test.csv", "test", 1_000, 1_000),
    RealFile("ex_fever/test.csv", "test", 6_099, 6_099, kept=False),
)


def page() -> str:
    """The page as Markdown."""
    head = ("Name", "Obtained", "Columns shown by", "Run on", "Rows expected", "Rows got")
    return paragraphs(
        "# What was checked of each corpus",
        _INTRODUCTION,
        MADE,
        "## Training corpora",
        table((*head, "Paper", "All files"), [(*_row(one), *_totals(one)) for one in SOURCES]),
        "## Test sets",
        table(head, map(_row, BENCHMARKS)),
        _NOTES,
    )


def _row(corpus: Source | Benchmark) -> tuple[str, ...]:
    native = {(file.path, file.split) for file in corpus.native_files}
    real = [one for one in REAL_FILES if (one.path, one.split) in native]
    access = ACCESS[corpus.name]
    pages = dict.fromkeys(layouts(corpus))
    return (
        corpus.title,
        access.obtained,
        ", ".join(
            f"{name}: {url}" if url == NOT_CHECKED else f"[{name}]({url})" for name, url in pages
        ),
        ", ".join(one.shown for one in real) or "made rows",
        count(sum(one.rows for one in real) or None),
        count(sum(one.got for one in real) or None),
    )


def layouts(corpus: Source | Benchmark) -> Iterator[tuple[str, str]]:
    """Each layout of the corpus with the page that shows its columns, or ``NOT_CHECKED``."""
    folder = "sources" if isinstance(corpus, Source) or corpus.source else "benchmarks"
    for form in TABLES[folder][corpus.name]["forms"]:
        names = form["name"].replace(" or ", ", ").split(", ")
        yield from zip(names, map(_page, form["checked_in"]), strict=True)


def _page(checked_in: str) -> str:
    """An address; of ``owner/name@commit:path`` the page of that file on GitHub."""
    if checked_in == NOT_CHECKED or "://" in checked_in:
        return checked_in
    repository, path = checked_in.split(":")
    return f"https://github.com/{repository.replace('@', '/blob/')}/{path}"


def _totals(source: Source) -> tuple[str, str]:
    """The paper's rows, and ours from all files."""
    known = DIFFERENCES.get(source.name)
    return count(source.paper_raw), count(known.rows if known else None)
