"""The ledger's slow rows: whole runs of the graph, of the real corpora and of the trainer."""

from ledger import Row

SLOW: tuple[Row, ...] = ()
