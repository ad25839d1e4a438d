"""The table of every study for a reader, by its name: ``<study_key>.parquet`` as Markdown."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import polars as pl

from decomposerl.reports.judge_figure import agreement_markdown, rewards_markdown
from decomposerl.reports.selector_report import selectors_markdown
from decomposerl.reports.study_report import study_markdown
from decomposerl.training.studies import STUDIES

HEADS_TABLE = "tiny_judge_agreement"
"""The one that is not below ``study/``."""


def study_key(name: str) -> str:
    """The asset that makes a study's table."""
    return name if name == HEADS_TABLE else f"study/{name}"


STUDY_TABLES: Mapping[str, Callable[[pl.DataFrame], str]] = MappingProxyType(
    {
        **{study.name: partial(study_markdown, study) for study in STUDIES},
        HEADS_TABLE: agreement_markdown,
        "judge_rewards": rewards_markdown,
        "selectors": selectors_markdown,
    }
)
"""How each study's table is shown; the report has the studies in this order."""
PAPER_SECTIONS: Mapping[str, str] = MappingProxyType(
    {study.name: study.section for study in STUDIES if study.section}
    | {"selectors": "G.1", HEADS_TABLE: "G.6", "judge_rewards": "G.6"}
)
"""Where the paper has a study."""


def study_engine(table: pl.DataFrame) -> str:
    """The engines that a study's table names, but for the paper's in its rows."""
    own = table.filter(pl.col("origin") != "paper") if "origin" in table.columns else table
    columns = [name for name in ("engine", "teacher") if name in own.columns]
    named = [one for name in columns for one in own[name].unique(maintain_order=True)]
    return "; ".join(dict.fromkeys(named))
