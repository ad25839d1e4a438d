"""All traces of several sources as an index and blocks; the blocks lie in a temporary file.

Claims are taken in the order in which the sources name them, some at a time, each with all of its
traces from all sources. In memory are the index, the claim ids and one such part.
"""

import gzip
import json
import os
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol, overload

from decomposerl.reports.trace_page.details import json_bytes
from decomposerl.reports.trace_page.items import TraceItem, distinct
from decomposerl.reports.trace_page.pages import Block, PageAbout, TracePages

AT_ONCE = 1_024
"""Traces that are read at a time."""
_FAST = 5  # of gzip: half the time of the default, and a twentieth more bytes


class TraceSource(Protocol):
    """Traces of many claims, of which some are read at a time."""

    def claim_ids(self) -> list[str]:
        """The claim of each trace, in the source's order; called before ``items``."""
        ...

    def items(self, claim_ids: Sequence[str]) -> Iterator[TraceItem]:
        """The traces of these claims."""
        ...


class BlockFile(Sequence[Block]):
    """Blocks as compressed JSON in a file without a name; only their places are in memory."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            self._file = os.dup(file.fileno())
        self.close = weakref.finalize(self, os.close, self._file)
        """Remove the file, which else happens with the object."""
        self._ends = [0]

    def append(self, block: Block) -> None:
        """Write a block at the end."""
        data = gzip.compress(json_bytes(block), compresslevel=_FAST, mtime=0)
        os.pwrite(self._file, data, self._ends[-1])
        self._ends.append(self._ends[-1] + len(data))

    def packed(self, number: int) -> bytes:
        """A block, compressed with gzip.

        Raises:
            IndexError: there is no such block.
        """
        if not 0 <= number < len(self):
            raise IndexError(number)
        start, end = self._ends[number : number + 2]
        return os.pread(self._file, end - start, start)

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self._ends) - 1

    @overload
    def __getitem__(self, number: int) -> Block: ...
    @overload
    def __getitem__(self, number: slice) -> list[Block]: ...
    def __getitem__(self, number: int | slice) -> Block | list[Block]:
        """A block; some of them as a list."""
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        block: Block = json.loads(gzip.decompress(self.packed(number)))
        return block


@dataclass(frozen=True, slots=True)
class CollectedTraces:
    """What the page reads, and the sources by the name of each system."""

    index: dict[str, Any]
    blocks: BlockFile
    sources: Sequence[TraceSource] = field(default_factory=tuple)

    def item(self, block: int, place: int) -> TraceItem | None:
        """The trace at a place of a block, read again; None where there is none any more."""
        index = self.index
        for row, at in enumerate(zip(index["block_of"], index["place_of"], strict=True)):
            if at == (block, place):
                wanted = tuple(index[name][row] for name in ("claim_id", "step", "rollout"))
                system = index["systems"][index["system"][row]]["key"]
                return self._item(wanted, system)
        return None

    def _item(self, wanted: tuple[Any, ...], system: str) -> TraceItem | None:
        items = chain.from_iterable(source.items([wanted[0]]) for source in self.sources)
        for item in distinct(item for item in items if item.claim_id == wanted[0]):
            origin = item.origin
            if (item.claim_id, origin.step, origin.rollout) == wanted and origin.system == system:
                return item
        return None


def collect(
    sources: Sequence[TraceSource],
    about: PageAbout,
    titles: Mapping[str, str] | None = None,
    enriched: Callable[[TraceItem], TraceItem] = lambda item: item,
    progress: Callable[[int, int], None] | None = None,
) -> CollectedTraces:
    """Read every trace of the sources; equal ones of two sources are one (``items.distinct``).

    ``enriched`` may add to each trace. ``progress`` receives the number of traces that are done and
    of all.

    Raises:
        SourceFileError: a file of a source cannot be read.
    """
    ids = [source.claim_ids() for source in sources]
    counts = Counter(chain.from_iterable(ids))
    held = [set(each) for each in ids]
    blocks, done = BlockFile(), 0
    pages = TracePages(blocks.append, titles or {})
    for part in _parts(counts):
        items: dict[str, list[TraceItem]] = {name: [] for name in part}
        for source, known in zip(sources, held, strict=True):
            wanted = [name for name in part if name in known]
            for item in source.items(wanted) if wanted else ():
                items[item.claim_id].append(item)
        for each in items.values():
            pages.add_claim([enriched(item) for item in distinct(each)])
            done += len(each)
        if progress is not None:
            progress(done, counts.total())
    return CollectedTraces(pages.finished(about), blocks, tuple(sources))


def _parts(counts: Mapping[str, int]) -> Iterator[list[str]]:
    """The claims in parts of about ``AT_ONCE`` traces."""
    part: list[str] = []
    traces = 0
    for name, number in counts.items():
        part.append(name)
        traces += number
        if traces >= AT_ONCE:
            yield part
            part, traces = [], 0
    if part:
        yield part
