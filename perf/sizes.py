"""Sizes of the benchmarks: the paper's, and small ones to test the benchmarks themselves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rows and dimensions of every input."""

    claims: int
    tests: int
    split: int
    brute_force: int
    semantic: tuple[int, int]
    semantic_long: tuple[int, int]
    sequential: tuple[int, int]
    cell: tuple[int, int]
    large_cell: tuple[int, int]
    decontaminated: tuple[int, int]
    dimensions: int
    evidence: int
    embedded: int
    chat: int
    slow_peers: bool


PAPER = Sizes(
    claims=155_506,
    tests=50_000,
    split=20_000,
    brute_force=5_000,
    semantic=(24_355, 3_072),
    semantic_long=(100_000, 384),
    sequential=(4_000, 3_072),
    cell=(3_482, 430),
    large_cell=(17_328, 5_000),
    decontaminated=(17_000, 50_000),
    dimensions=3_072,
    evidence=30_000,
    embedded=1_000,
    chat=2_000,
    slow_peers=True,
)
QUICK = Sizes(
    claims=20_000,
    tests=6_000,
    split=3_000,
    brute_force=1_000,
    semantic=(4_000, 768),
    semantic_long=(12_000, 384),
    sequential=(1_000, 768),
    cell=(800, 100),
    large_cell=(2_000, 500),
    decontaminated=(2_000, 6_000),
    dimensions=768,
    evidence=3_000,
    embedded=100,
    chat=500,
    slow_peers=False,
)
