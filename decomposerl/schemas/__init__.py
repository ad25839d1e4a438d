"""Columns, types and meaning of every frame that crosses a border of the system.

The IO manager checks each frame against its table when it writes and reads Parquet.
"""

from decomposerl.schemas.evaluation import (
    CALIBRATIONS,
    CALLS,
    COMPARISON,
    LEADERBOARD,
    PREDICTIONS,
    SCORES,
    TRACE,
)
from decomposerl.schemas.funnel import (
    ATTRITION,
    BENCHMARK_CLAIMS,
    CHAT_REPLIES,
    CLAIM_COLUMNS,
    CLAIMS,
    DECONTAMINATED,
    DEDUPLICATED,
    DIFFICULTY_BAND,
    DIVERSITY_SELECTED,
    DOUBTFUL,
    DROPS,
    LABELS,
    PAIRS,
    REJECTS,
    RULE_FILTERED,
    SELECTION_CELLS,
    SILVER_DECOMPOSED,
    STAGE_RUNS,
    TRAINING_CLAIMS,
)
from decomposerl.schemas.judging import JUDGE_AGREEMENT, JUDGE_EXAMPLES, JUDGE_STUDY
from decomposerl.schemas.studies import SELECTOR_STUDY, TRAINING_STUDY
from decomposerl.schemas.training import (
    CURVES,
    JUDGE_CALLS,
    REWARDS,
    ROLLOUTS,
)
from decomposerl.schemas.tricks import (
    TRICK_SIGNS,
    TRICK_STUDY,
    TRICKS_FOUND,
)

__all__ = [
    "ATTRITION",
    "BENCHMARK_CLAIMS",
    "CALIBRATIONS",
    "CALLS",
    "CHAT_REPLIES",
    "CLAIMS",
    "CLAIM_COLUMNS",
    "COMPARISON",
    "CURVES",
    "DECONTAMINATED",
    "DEDUPLICATED",
    "DIFFICULTY_BAND",
    "DIVERSITY_SELECTED",
    "DOUBTFUL",
    "DROPS",
    "JUDGE_AGREEMENT",
    "JUDGE_CALLS",
    "JUDGE_EXAMPLES",
    "JUDGE_STUDY",
    "LABELS",
    "LEADERBOARD",
    "PAIRS",
    "PREDICTIONS",
    "REJECTS",
    "REWARDS",
    "ROLLOUTS",
    "RULE_FILTERED",
    "SCORES",
    "SELECTION_CELLS",
    "SELECTOR_STUDY",
    "SILVER_DECOMPOSED",
    "STAGE_RUNS",
    "TRACE",
    "TRAINING_CLAIMS",
    "TRAINING_STUDY",
    "TRICKS_FOUND",
    "TRICK_SIGNS",
    "TRICK_STUDY",
]
