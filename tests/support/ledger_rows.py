"""The ledger's fast rows: at most 90 seconds together on two quiet cores."""

from ledger import Row

FAST: tuple[Row, ...] = ()
