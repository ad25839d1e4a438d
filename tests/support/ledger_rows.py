"""The ledger's fast rows: at most 90 seconds together on two quiet cores."""

from ledger import Row
from ledger_claims import claim_entries
from ledger_commands import command_entries
from ledger_graph import graph_entries
from ledger_numbers import kernel_entries, memory_entries, metric_entries
from ledger_pages import page_entries
from ledger_prompts import prompt_entries
from ledger_traces import reading_entries, reply_entries, reward_entries, trace_entries

TABLES = {"*.values.*": 1e-6, "*.mean": 1e-6}
"""Of sums and products whose last bits depend on the processor."""
FAST: tuple[Row, ...] = (
    Row("commands", command_entries),
    Row("graph", graph_entries),
    Row("prompts", prompt_entries),
    Row("traces", trace_entries),
    Row("rewards", reward_entries, tolerances={"*.mean": 1e-4, "*.values.*": 1e-3}),
    Row("readings", reading_entries),
    Row("replies", reply_entries, better={"as expected.*": 1, "silently wrong.*": -1}),
    Row("claims", claim_entries, tolerances=TABLES),
    Row("kernels", kernel_entries),
    Row("metrics", metric_entries),
    Row("memory", memory_entries),
    Row("pages", page_entries, tolerances=TABLES),
)
