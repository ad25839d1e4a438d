"""The layout of LLM-AggreFact's public leaderboard."""

import polars as pl

from decomposerl.evaluation.aggrefact import BENCHMARK, PARTS, aggrefact_rows
from decomposerl.evaluation.entries import SystemEntry
from decomposerl.evaluation.systems import CHAT_MODELS, Model, System
from leaderboard_parts import score, scores

QWEN = System("simple", "Simple", CHAT_MODELS[2], "faithful")
RULES = System("simple", "Simple", CHAT_MODELS[0], "faithful")
PUBLISHED = (
    *("model", "Size", "Average", "CNN", "XSum", "MediaS", "MeetB", "WiCE", "REVEAL"),
    *("ClaimVerify", "FactCheck", "ExpertQA", "LFQA", "RAGTruth"),
)
"""The columns of https://llm-aggrefact.github.io, in its order."""
PARTS_OF_ROW = (61.84, 73.6, 71.3, 79.7, 76.3, 85.8, 69.8, 76.0, 58.3, 80.3, 81.6)
"""A row that the page shows with an average of 74.0."""


def parts(system: System, values: tuple[float | None, ...] = PARTS_OF_ROW) -> pl.DataFrame:
    """Scores of the eleven parts, and the pooled one."""
    named = zip(PARTS, values, strict=True)
    rows = [score(system.key, BENCHMARK, v) | {"slice": "subset", "value": n} for n, v in named]
    return scores([score(system.key, BENCHMARK, 12.0), *rows])


def test_the_columns_are_those_of_the_page():
    """In its order and with its names, whatever order the scores have."""
    table = aggrefact_rows(parts(QWEN).reverse(), [QWEN])
    assert list(PUBLISHED) == table.columns
    assert ("Simple @ Qwen2.5-7B-Instruct", "7B", 74.0, 61.8) == table.row(0)[:4]
    assert PARTS_OF_ROW[1:] == table.row(0)[4:]


def test_the_average_is_that_of_the_rounded_parts():
    """As the page computes it, so that a row that is pasted in shows the same figure."""
    values = (50.04,) * 11
    assert 50.0 == aggrefact_rows(parts(QWEN, values), [QWEN])["Average"][0]
    values = (50.06, *(50.0,) * 10)
    assert (50.0, 50.1) == aggrefact_rows(parts(QWEN, values), [QWEN]).row(0)[2:4]


def test_a_part_without_a_score_leaves_the_average_empty():
    """A mean of ten parts is no figure of the page; such a row comes last."""
    found = aggrefact_rows(
        pl.concat([parts(QWEN, (None, *PARTS_OF_ROW[1:])), parts(RULES)]), [QWEN, RULES]
    )
    assert ["Simple @ rules", QWEN.reader_title] == found["model"].to_list()
    assert [74.0, None] == found["Average"].to_list()
    assert [61.8, None] == found["CNN"].to_list()


def test_the_size_is_read_off_the_models_name():
    """Of the user's own entries too; a dash, as on the page, where the name has none."""
    names = {"org/mini-0.5b-it": "0.5B", "Llama-3.1-405B": "405B", "gpt-4o": "-", "bge-3batch": "-"}
    for name, size in names.items():
        entry = SystemEntry(name="mine", method="simple", model=name)
        system = System("simple", "Simple", Model("mine", name, "entry", name), "faithful", entry)
        assert size == aggrefact_rows(parts(system), [system])["Size"][0], name
