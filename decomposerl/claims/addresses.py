"""Where the files of every training corpus and test set are: ``addresses.toml`` as ``ACCESS``.

Each address names the public page or repository that it was read from (``checked_in``). Files in
Git repositories are pinned by commit. Sizes and checksums are those that a repository's own
objects or a named publication state; any other checksum is recorded at the first fetch and held
from then on.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.downloads import Access, Download
from decomposerl.claims.source import Benchmark, Source


def corpus_named(name: str) -> Source | Benchmark:
    """The training corpus of a name in ``ACCESS``, or the test set where it has none."""
    every: tuple[Source | Benchmark, ...] = (*SOURCES, *BENCHMARKS)
    return next(corpus for corpus in every if corpus.name == name)


def _accesses() -> Iterator[Access]:
    text = files(__package__).joinpath("addresses.toml").read_text("utf-8")
    for name, table in tomllib.loads(text).items():
        yield Access(
            name=name,
            downloads=tuple(_downloads(table.get("downloads", ()))),
            hub=corpus_named(name).hub,
            step=table.get("step", ""),
            placed=tuple(table.get("placed", ())),
            other=tuple(table.get("other", {}).items()),
            checked_in=table.get("checked_in", ""),
        )


def _downloads(tables: Sequence[Mapping[str, Any]]) -> Iterator[Download]:
    for table in tables:
        if "git" in table:
            yield from _git_files(**table)
        else:
            lists = {
                "files": tuple(table["files"].items()),
                "redirects": tuple(table.get("redirects", ())),
            }
            yield Download(**{**table, **lists})


def _git_files(git: str, folder: str, to: str, objects: Sequence[str]) -> Iterator[Download]:
    """Files of the repository ``owner/name@commit``, each as object id, name and perhaps size."""
    owner, commit = git.split("@")
    for words in map(str.split, objects):
        yield Download(
            url=f"https://raw.githubusercontent.com/{owner}/{commit}/{folder}/{words[1]}",
            files=(("", f"{to}/{words[1]}"),),
            checked_in=f"https://github.com/{owner}/tree/{commit}/{folder}",
            git_blob=words[0],
            size=int(words[2]) if words[2:] else None,
        )


ACCESS: Mapping[str, Access] = {access.name: access for access in _accesses()}
"""By the name of the corpus, which a training corpus and its test set share."""
