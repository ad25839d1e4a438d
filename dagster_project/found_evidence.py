"""Evidence that is found for claims: passages of a folder's files, or of pages of the web."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from dagster_project.settings import Settings
from decomposerl.errors import ConfigError, EngineError, EngineMissing
from decomposerl.ports import Embedder
from decomposerl.reports.verified import EvidenceSource, VerifiedClaim
from decomposerl.traces.records import ClaimRecord
from resources.corpora.text_search import Passage, TextSearch, passages_of
from resources.corpora.web_search import WebSearch


@dataclass(frozen=True, slots=True)
class FoundRecord(ClaimRecord):
    """A claim whose evidence was found: ``sources`` are what was read for it."""

    sources: tuple[EvidenceSource, ...] = ()

    def placed(self, result: VerifiedClaim) -> VerifiedClaim:
        """The result with these sources, and the place of each sentence that is cited."""

        def place_of(sentence: str) -> str:
            return next((one.place for one in self.sources if sentence in one.text), "")

        questions = tuple(
            replace(one, places=tuple(map(place_of, one.evidence))) for one in result.questions
        )
        return replace(result, questions=questions, sources=self.sources)


def with_evidence(
    records: Sequence[ClaimRecord],
    where: Path | WebSearch | None = None,
    ranked_by: Settings | None = None,
) -> tuple[list[ClaimRecord], list[str]]:
    """The claims, those without evidence with passages of a folder or the web that bear on them.

    ``where`` is the folder; without one the web is searched, by ddgs unless ``where`` says more.
    ``ranked_by`` has the embedder that ranks them again, None for BM25's own order. A claim that no
    passage bears on stays without evidence, with a note. Also gives what was not read, and why.

    Raises:
        ConfigError: the web is to be searched, and a claim has evidence.
        EngineMissing, EngineError, SourceFileError: as ``TextSearch.search``.
    """
    where = where or WebSearch()
    if isinstance(where, WebSearch) and any(one.evidence for one in records):
        raise ConfigError("--search finds evidence, and some of the claims have their own")
    with ExitStack() as stack:
        embedder = None
        if ranked_by is not None:
            from dagster_project.engine_resources import open_resources

            (resource,) = stack.enter_context(open_resources(ranked_by, "embedder"))
            embedder = resource.open()
        if isinstance(where, WebSearch):
            return [_searched(one, where, embedder) for one in records], where.problems
        search = TextSearch(where, embedder)
        found = [one if one.evidence else _found(one, search, str(where)) for one in records]
        return found, search.problems


def _searched(record: ClaimRecord, web: WebSearch, embedder: Embedder | None) -> ClaimRecord:
    """The claim, which is the query, with what its pages say of it."""
    try:
        pages = list(web.pages(record.claim))
    except EngineMissing:
        raise
    except EngineError as error:
        return replace(record, notes=(f"the search failed: {error}",))
    read = [Passage(part, page.place) for page in pages for part in passages_of(page.text)]
    unused = [replace(page, text="") for page in pages]
    return _found(record, TextSearch(read, embedder), f"{len(pages)} pages of the web", unused)


def _found(
    record: ClaimRecord, search: TextSearch, where: str, read: Sequence[EvidenceSource] = ()
) -> FoundRecord:
    """The claim with the best passages; ``read`` are the sources so far, without a text."""
    sources = {one.place: one for one in read}
    passages = search.search(record.claim)
    for one in passages:
        source = sources.get(one.file) or EvidenceSource(one.file, "")
        sources[one.file] = replace(source, text=f"{source.text}\n{one.text}".strip())
    note = f"nothing relevant was found in {where}"
    if passages:
        files = ", ".join(dict.fromkeys(one.file for one in passages))
        note = f"evidence found in {files}, ranked by {search.ranking}"
    texts = tuple(one.text for one in passages)
    found = ("\n".join(texts), texts, record.claim_id, (note,), tuple(sources.values()))
    return FoundRecord(record.claim, *found)
