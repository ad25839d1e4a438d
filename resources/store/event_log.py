"""Dagster's SQLite event log with its files kept open, for a process that runs many short steps.

Dagster opens, flushes and closes a file for each event: 3 ms of processor time and up to 40 ms on
a busy disk, and the demo writes some 4,000. With a file kept open an event costs a tenth of a
millisecond. The files and their contents are the same, so that the UI reads them as ever. Only
after a power cut may the log of the run in progress end early.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import StaticPool

_EVERY_RUN = "index"
_DURABLE = ("PRAGMA synchronous=NORMAL",)
# The UI watches a run's file, which changes when the write-ahead log is copied into it.
_WATCHED = ("PRAGMA synchronous=OFF", "PRAGMA wal_autocheckpoint=1")


class OpenEventLog(SqliteEventLogStorage):
    """One open connection to the index of all runs and one to the current run's events."""

    _engines: dict[str, Engine]

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - the base's own
        """Open nothing yet; arguments as ``SqliteEventLogStorage``."""
        self._engines = {}
        super().__init__(*args, **options)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> "OpenEventLog":  # noqa: ANN401 - the base's own
        """As Dagster makes it from ``dagster.yaml``."""
        return cls(inst_data=inst_data, **config_value)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock, self._engine(shard).begin() as connection:
            yield connection

    def wipe(self) -> None:
        """Remove all events, with the files."""
        self._close()
        super().wipe()

    def dispose(self) -> None:
        """Close the files."""
        self._close()
        super().dispose()

    def _engine(self, shard: str) -> Engine:
        if shard not in self._engines:
            for other in set(self._engines) - {_EVERY_RUN, shard}:
                self._engines.pop(other).dispose()
            self._engines[shard] = self._opened(shard)
        return self._engines[shard]

    def _opened(self, shard: str) -> Engine:
        engine = create_engine(
            self.conn_string_for_shard(shard),
            poolclass=StaticPool,  # ``_db_lock`` lets one thread in at a time
            connect_args={"timeout": 30, "check_same_thread": False},
        )
        if shard not in self._initialized_dbs:
            self._initdb(engine)
            self._initialized_dbs.add(shard)
            engine.dispose()
        pragmas = _DURABLE if shard == _EVERY_RUN else _WATCHED

        @event.listens_for(engine, "connect")
        def settle(connection: Any, _: object) -> None:  # noqa: ANN401 - of the driver
            for pragma in pragmas:
                connection.execute(pragma)

        return engine

    def _close(self) -> None:
        with self._db_lock:
            while self._engines:
                self._engines.popitem()[1].dispose()


def kept_open(instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """The same instance on an ``OpenEventLog``, if its event log is Dagster's on SQLite."""
    ref = instance.get_ref()
    known = ref.event_storage_data
    if known is not None and type(instance.event_log_storage) is SqliteEventLogStorage:
        data = ConfigurableClassData(__name__, OpenEventLog.__name__, known.config_yaml)
        ref = ref._replace(storage_data=None, event_storage_data=data)
    return dg.DagsterInstance.from_ref(ref)
