"""The funnel's stages in order and, in each, its steps in order.

Each stage function takes frames, settings and engines and returns a ``StageResult`` whose frames
conform to their tables in ``decomposerl.schemas``. Engines run once per stage and step, on the
rows still alive.

Stages that decide row by row (rules, difficulty, silver questions, training claims) may be given
their rows in batches. The others compare rows and need all of them, but only the columns
``COMPARED``: what a frame lacks, the kept rows lack (``step.with_decided`` brings it back).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import polars as pl

from decomposerl.errors import ConservationError
from decomposerl.funnel.decontamination import (
    exact_match_step,
    lexical_match_step,
    semantic_match_step,
)
from decomposerl.funnel.difficulty import difficulty_step
from decomposerl.funnel.duplicates import (
    PrecomputedEmbedder,
    duplicate_pairs,
    lexical_duplicates_step,
    semantic_duplicates_step,
)
from decomposerl.funnel.evidence import evidence_facts
from decomposerl.funnel.lineage import BEFORE, STAGE_TABLES
from decomposerl.funnel.long_evidence import long_evidence_step
from decomposerl.funnel.rules import (
    entities_step,
    overlap_step,
    passages_step,
    token_budget_step,
)
from decomposerl.funnel.selection import SelectedClaims, select_cells
from decomposerl.funnel.settings import (
    DecontaminationSettings,
    DedupSettings,
    DifficultySettings,
    RuleSettings,
    SelectionSettings,
    SilverSettings,
    TrainingSettings,
)
from decomposerl.funnel.silver import silver_step
from decomposerl.funnel.step import StageResult, Step, run_stage
from decomposerl.ports import (
    Decomposer,
    Embedder,
    EntityRecogniser,
    Tasks,
    TokenCounter,
    Verifier,
)
from decomposerl.schemas import (
    CLAIMS,
    DECONTAMINATED,
    DEDUPLICATED,
    DIFFICULTY_BAND,
    DIVERSITY_SELECTED,
    DROPS,
    RULE_FILTERED,
    SILVER_DECOMPOSED,
    TRAINING_CLAIMS,
)
from decomposerl.table import Table

COMPARED = ("claim_id", "source", "label", "claim")
"""The columns that stages read which compare claims with each other."""
SELECTION = ("claim_id", "selection_rank", "selection_gain")
"""The columns of the selection that the training set needs."""
STAGES: tuple[str, ...] = (
    "rule_filtered",
    "difficulty_band",
    "deduplicated",
    "decontaminated",
    "silver_decomposed",
    "diversity_selected",
    "training_claims",
)


def rule_filter(
    claims: pl.DataFrame, settings: RuleSettings, tokens: TokenCounter, entities: EntityRecogniser
) -> StageResult:
    """``CLAIMS`` to ``RULE_FILTERED``: passages, tokens, overlap, and entities last.

    All text is read once, before the first step (paper, "Rule-Based Filtering" and "NER
    Grounding").
    """
    facts = evidence_facts(claims)
    return _run(
        RULE_FILTERED,
        claims,
        passages_step(settings, facts),
        token_budget_step(settings, tokens, facts),
        overlap_step(settings, facts),
        entities_step(settings, entities),
    )


def difficulty_band(
    frame: pl.DataFrame, settings: DifficultySettings, verifier: Verifier
) -> StageResult:
    """``RULE_FILTERED`` to ``DIFFICULTY_BAND`` (paper, "Difficulty-Based Filtering")."""
    return _run(DIFFICULTY_BAND, frame, difficulty_step(settings, verifier))


def deduplicate(
    frame: pl.DataFrame, settings: DedupSettings, embedder: Embedder, tasks: Tasks | None = None
) -> StageResult:
    """``DIFFICULTY_BAND`` to ``DEDUPLICATED``: lexical duplicates, then paraphrases.

    The first claim in input order stays (paper, "Deduplication and Decontamination"). With
    ``pairs_floor`` set, the result has all near pairs of ``frame`` as well. With ``tasks``,
    searches that exceed ``task_memory_mb`` are split.
    """
    known = embedder
    if settings.pairs_floor is not None:
        known = PrecomputedEmbedder(embedder, frame["claim"].to_list())
    done = _run(
        DEDUPLICATED,
        frame,
        lexical_duplicates_step(settings, tasks),
        semantic_duplicates_step(settings, known, tasks),
    )
    if not isinstance(known, PrecomputedEmbedder):
        return done
    return replace(done, pairs=duplicate_pairs(frame, settings, known))


def decontaminate(
    frame: pl.DataFrame,
    holdouts: pl.DataFrame,
    settings: DecontaminationSettings,
    embedder: Embedder,
    tasks: Tasks | None = None,
) -> StageResult:
    """``DEDUPLICATED`` to ``DECONTAMINATED`` against ``holdouts`` (``BENCHMARK_CLAIMS``).

    ``holdouts`` holds the claims of all benchmarks, labelled or not, ``source`` being the
    benchmark's name; it may be empty (paper, "Deduplication and Decontamination"). With
    ``tasks``, searches that exceed ``task_memory_mb`` are split.
    """
    return _run(
        DECONTAMINATED,
        frame,
        exact_match_step(holdouts),
        lexical_match_step(settings, holdouts, tasks),
        semantic_match_step(settings, holdouts, embedder, tasks),
    )


def silver_decompose(
    frame: pl.DataFrame, settings: SilverSettings, decomposer: Decomposer
) -> StageResult:
    """``DECONTAMINATED`` to ``SILVER_DECOMPOSED`` (paper, "Silver Decomposition")."""
    return _run(SILVER_DECOMPOSED, frame, silver_step(settings, decomposer))


def select_diverse(
    frame: pl.DataFrame,
    settings: SelectionSettings,
    embedder: Embedder,
    tasks: Tasks | None = None,
) -> SelectedClaims:
    """``SILVER_DECOMPOSED`` to ``DIVERSITY_SELECTED``, and one line per cell.

    No row is dropped here; ``assemble_training`` decides about the rest (paper, "Diversity
    Selection"). With ``tasks``, cells are loaded one by one where all vectors exceed
    ``task_memory_mb``.
    """
    selected = select_cells(frame, settings, embedder, tasks)
    return replace(selected, kept=_conform(DIVERSITY_SELECTED, frame, selected.kept))


def assemble_training(
    silver: pl.DataFrame, selected: pl.DataFrame, settings: TrainingSettings, tokens: TokenCounter
) -> StageResult:
    """``SILVER_DECOMPOSED`` and its ``DIVERSITY_SELECTED`` part to ``TRAINING_CLAIMS``.

    ``evidence_tokens`` of every training claim is counted; a bound was enough before (paper,
    "Long-Evidence Augmentation").

    Raises:
        ConservationError: ``selected`` holds a claim that is not in ``silver``.
        EngineError: ``tokens`` counts in another unit than the rules did.
    """
    unknown = selected.join(silver, on="claim_id", how="anti").height
    if unknown:
        raise ConservationError(f"{unknown} selected claims are not silver-decomposed ones")
    result = _run(TRAINING_CLAIMS, silver, long_evidence_step(settings, selected, tokens))
    return replace(result, engines={"long_evidence": tokens.unit})  # it selected nothing


def assemble_batches(
    batches: Iterable[pl.DataFrame],
    selected: pl.DataFrame,
    settings: TrainingSettings,
    tokens: TokenCounter,
) -> Iterator[tuple[pl.DataFrame, StageResult]]:
    """``assemble_training`` of each batch of ``SILVER_DECOMPOSED``, beside the batch.

    ``selected`` needs the columns ``SELECTION``.

    Raises:
        ConservationError, EngineError: as ``assemble_training``, the first after all batches.
    """
    found = 0
    for batch in batches:
        here = selected.join(batch, on="claim_id", how="semi")
        found += here.height
        yield batch, assemble_training(batch, here, settings, tokens)
    if found != selected.height:
        unknown = selected.height - found
        raise ConservationError(f"{unknown} selected claims are not silver-decomposed ones")


def _run(table: Table, frame: pl.DataFrame, *steps: Step) -> StageResult:
    """Run a stage, which is named like the table it fills."""
    result = run_stage(table.name, frame, steps)
    kept = _conform(table, frame, result.kept)
    return replace(result, kept=kept, drops=DROPS.conform(result.drops))


def _conform(table: Table, frame: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """The kept rows as the stage's table, without the columns that ``frame`` lacked."""
    before = STAGE_TABLES.get(BEFORE[table.name], CLAIMS)
    return table.without(before.schema.keys() - set(frame.columns)).conform(kept)
