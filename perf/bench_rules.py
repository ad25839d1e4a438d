"""The rules that read evidence, next to polars lists and to tokenising every row.

Times are for ``sizes.evidence`` rows. Entity recognition is timed on a sample by
``studies.paper_scale``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.funnel.catalogue import rule_filter
from decomposerl.funnel.settings import RuleSettings
from decomposerl.kernels.evidence_scan import scan
from decomposerl.kernels.text_scan import content_words
from perf import peers
from perf.frames import SameEntities, claims_frame
from perf.inputs import synthetic_claims, synthetic_evidence, vocabulary
from perf.machine import rates
from perf.sizes import Sizes
from perf.timing import Row, quiet_and_busy, timed

WARM = 64
TRAINED_ON, MERGES = 2_000, 30_000
MOST_COUNTED = 1 / 3


def overlap_rows(sizes: Sizes) -> Iterator[Row]:
    """Overlap, sentences and words of every row."""
    claims = pl.Series(synthetic_claims(sizes.evidence))
    passages = list(synthetic_evidence(sizes.evidence))
    lines = pl.Series(["\n".join(row) for row in passages])
    prose = pl.Series([" ".join(row) for row in passages])
    tables = pl.Series([False] * len(passages))
    stop = [word for word in vocabulary() if not content_words(word)]
    scan(claims[:WARM], lines[:WARM], tables[:WARM])
    work = partial(scan, claims, lines, tables)
    peer = partial(peers.polars_overlap, claims, prose, stop)
    quiet, busy = quiet_and_busy(work, peer)
    same = np.isclose(quiet.ours.overlap, quiet.peer["share"].to_numpy()).mean()
    megabytes = int(lines.str.len_bytes().sum()) / 1e6
    yield quiet.row(
        f"overlap, sentences and words, {sizes.evidence:,} rows",
        "polars lists",
        2.5,
        limit_s=megabytes * 1e6 / rates().read_bytes,
        note=f"{megabytes / quiet.ours_s:,.0f} MB/s; peer equal in {same:.2%} of rows",
        busy=busy,
    )


def token_rows(sizes: Sizes) -> Iterator[Row]:
    """The rule stage with a byte-level tokenizer, which counts only rows that bounds leave open."""
    passages = list(synthetic_evidence(sizes.evidence))
    labels = ["Supported"] * sizes.evidence
    frame = claims_frame("pool", synthetic_claims(sizes.evidence), passages, labels)
    counter = BytePairs.trained([" ".join(row) for row in passages[:TRAINED_ON]])
    work = partial(rule_filter, frame, RuleSettings(), counter, SameEntities())
    seconds, _ = timed(work)
    counted = counter.counted
    share = counted / sizes.evidence
    part = frame["evidence"].to_list()[::10]
    every_s, _ = timed(partial(counter.count, part))
    scaled = every_s * sizes.evidence / len(part)
    yield Row(
        f"rows whose tokens are counted, of {sizes.evidence:,}",
        seconds,
        "tokenising every row",
        scaled,
        MOST_COUNTED / max(share, 1e-9),
        1.0,
        note=f"counts {share:.1%} of rows; ratio: 1/3 over that",
    )


@dataclass
class BytePairs:
    """A ``TokenCounter`` over a byte-level BPE that records how many texts it counted.

    Every whitespace-separated word has at least one token and every token at least one byte,
    so words and bytes bound the count.
    """

    tokenizer: Any
    unit: str = "bpe_bytes"
    counted: int = field(default=0)

    @classmethod
    def trained(cls, texts: Sequence[str]) -> "BytePairs":
        """A tokenizer of 30,000 merges learned from ``texts``."""
        from tokenizers import ByteLevelBPETokenizer

        tokenizer = ByteLevelBPETokenizer(add_prefix_space=False)
        tokenizer.train_from_iterator(texts, vocab_size=MERGES, show_progress=False)
        return cls(tokenizer)

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text, shape (n,)."""
        self.counted += len(texts)
        encoded = self.tokenizer.encode_batch(list(texts))
        return np.array([len(one.ids) for one in encoded], np.int64)

    def bounds(
        self, words: NDArray[np.int64], utf8_bytes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Words as lower bound, bytes as upper bound."""
        return words, utf8_bytes
