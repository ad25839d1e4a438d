"""Test sets that are made from another one: a question of their own, and no part of any mean.

Takes the claims of a test set as ``BENCHMARK_CLAIMS``, gives those of the derived one. What a
system says of it is predicted and scored as of any test set, under its own name; systems are not
compared on it, because its claims are those of the other.

Left out deliberately: what is done to the claims (``evaluation.ratings``), and files.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import polars as pl

from decomposerl.evaluation.ratings import without_ratings


@dataclass(frozen=True, slots=True)
class Derived:
    """One of them: its name, its title for readers, what it is made from and how."""

    name: str
    title: str
    base: str
    claims: Callable[[pl.DataFrame], pl.DataFrame]


DERIVED = (
    # The fact-checker's article ends with its verdict: without it evidence must be read.
    Derived(
        "claimdecomp_without_ratings",
        "ClaimDecomp without ratings",
        "claimdecomp",
        without_ratings,
    ),
)


def derived_from(benchmarks: Iterable[str]) -> dict[str, Derived]:
    """By name, those whose test set is among ``benchmarks`` and whose name is not."""
    there = set(benchmarks)
    return {one.name: one for one in DERIVED if one.base in there and one.name not in there}
