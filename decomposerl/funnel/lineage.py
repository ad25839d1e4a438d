"""The tables of the funnel's stages, and which one each stage reads.

A stage keeps rows of the table before it as they are and adds columns.
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
