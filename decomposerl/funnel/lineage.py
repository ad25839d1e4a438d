"""From which columns of its inputs each column of a funnel stage comes.

A stage keeps rows of the table before it as they are and adds columns. So a column of both tables
is the same column, and ``_COMPUTED`` names what the others are computed from. Why rows leave is no
column's origin: it is in ``drops``.
"""

from collections.abc import Mapping

from decomposerl import schemas
from decomposerl.table import Table

CLAIMS = "claims"
"""Stands for the claims of every source, the input of the first stage."""
BEFORE: Mapping[str, str] = {
    "rule_filtered": CLAIMS,
    "difficulty_band": "rule_filtered",
    "deduplicated": "difficulty_band",
    "decontaminated": "deduplicated",
    "silver_decomposed": "decontaminated",
    "diversity_selected": "silver_decomposed",
    "training_claims": "silver_decomposed",
    "training_claims_random": "silver_decomposed",
}
"""The table whose rows each stage keeps or drops."""
Origin = tuple[str, str]

STAGE_TABLES: Mapping[str, Table] = {
    "rule_filtered": schemas.RULE_FILTERED,
    "difficulty_band": schemas.DIFFICULTY_BAND,
    "deduplicated": schemas.DEDUPLICATED,
    "decontaminated": schemas.DECONTAMINATED,
    "silver_decomposed": schemas.SILVER_DECOMPOSED,
    "diversity_selected": schemas.DIVERSITY_SELECTED,
    "training_claims": schemas.TRAINING_CLAIMS,
    "training_claims_random": schemas.TRAINING_CLAIMS,
}
"""The table of each stage."""
_CELL = ("claim", "label", "source")  # a rank and a gain compare the claims of a cell
# Columns of the table before; another table's have its name before a dot.
_COMPUTED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "rule_filtered": {
        "evidence_words": ("evidence",),
        "evidence_tokens": ("evidence",),
        "token_unit": (),
        "overlap": ("claim", "evidence", "evidence_kind"),
        "entities": ("claim",),
    },
    "difficulty_band": {
        "support_probability": ("claim", "evidence"),
        "label_confidence": ("claim", "evidence", "label"),
    },
    "silver_decomposed": {
        "questions": ("claim", "evidence"),
        "n_star": ("claim", "evidence"),
    },
    "diversity_selected": {
        "bucket": ("label", "source"),
        "selection_rank": _CELL,
        "selection_gain": _CELL,
    },
    "training_claims": {
        "evidence_tokens": ("evidence", "evidence_tokens"),
        "bucket": ("label", "source"),
        "selection_rank": ("diversity_selected.selection_rank",),
        "selection_gain": ("diversity_selected.selection_gain",),
        "origin": ("claim_id", "diversity_selected.claim_id"),
    },
    "training_claims_random": {
        "bucket": ("label", "source"),
        "selection_rank": (),
        "selection_gain": (),
        "origin": (),
    },
}


def column_origins(stage: str) -> dict[str, tuple[Origin, ...]]:
    """Each column of a stage's table, with the ``(table, column)`` pairs that it comes from.

    A column that comes from settings or engines alone, such as ``token_unit``, has none.

    Raises:
        KeyError: the stage is none of ``BEFORE``.
    """
    before, computed = BEFORE[stage], _COMPUTED.get(stage, {})
    names = (column.name for column in STAGE_TABLES[stage].columns)
    return {
        name: tuple(_origin(one, before) for one in computed.get(name, (name,))) for name in names
    }


def _origin(written: str, before: str) -> Origin:
    table, dot, column = written.partition(".")
    return (table, column) if dot else (before, written)
