"""An entity recogniser that remembers the texts it has read."""

from collections.abc import Sequence

from decomposerl.ports import EntityRecogniser, Mapper
from resources.store.result_store import ResultStores
from resources.store.stored_engine import (
    Answers,
    StoredEngine,
    every_row,
    list_filler,
    string_lists,
)


class StoredEntities(StoredEngine[str]):
    """An ``EntityRecogniser`` whose surface forms are stored (lists of strings)."""

    _port = "entities"

    def __init__(
        self,
        engine: EntityRecogniser,
        stores: ResultStores,
        batch_size: int = 1024,
        mapper: Mapper | None = None,
    ) -> None:
        """Wrap ``engine``."""
        super().__init__(engine, stores, batch_size, mapper)

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """As the engine's."""
        out: list[list[str]] = [[] for _ in texts]
        positions = self._pass(texts, lambda text: (text,), list_filler(out), _answer)
        return [list(out[position]) for position in positions]


def _answer(engine: EntityRecogniser, batch: list[str]) -> Answers:
    return Answers(every_row(len(batch)), string_lists(engine.entities(batch)))
