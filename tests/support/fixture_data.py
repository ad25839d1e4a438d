"""A tiny complete data folder of invented claims, every table conforming to its schema.

Each claim has a fate: the stage and step that dropped it, or its way into the training
set. Nothing here runs the funnel; the tables are what a run would have left.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from decomposerl import schemas
from decomposerl.claims.claim import claim_id
from decomposerl.funnel.settings import DedupSettings
from decomposerl.reports.attrition import STAGES, StageFrames, attrition
from evaluation_files import write_evaluation
from plain_rows import plain, table_of
from training_files import write_policy

HOSTILE = "a|b **bold** <img src=x onerror=alert(1)> [x](javascript:1)\n# head \x1b[31m\u202e"
TABLES = {
    "rule_filtered": schemas.RULE_FILTERED,
    "difficulty_band": schemas.DIFFICULTY_BAND,
    "deduplicated": schemas.DEDUPLICATED,
    "decontaminated": schemas.DECONTAMINATED,
    "silver_decomposed": schemas.SILVER_DECOMPOSED,
    "diversity_selected": schemas.DIVERSITY_SELECTED,
    "training_claims": schemas.TRAINING_CLAIMS,
}


@dataclass(frozen=True)
class Fate:
    """How one claim leaves: stage, step, reason, number and bound; matched by kind."""

    stage: str
    step: str = ""
    reason: str = ""
    value: float | None = None
    threshold: float | None = None
    matched: str = ""
    engine: str | None = None


SELECTED = Fate("selected")
LONG = Fate("long_evidence")
FATES = (
    SELECTED,
    SELECTED,
    Fate("rule_filtered", "token_budget", "too_few_tokens", 120.0, 200.0, engine="words_x1.3"),
    Fate("rule_filtered", "passages", "too_few_passages", 1.0, 3.0),
    Fate("rule_filtered", "overlap", "paraphrased_evidence", 0.95, 0.9),
    SELECTED,
    Fate("rule_filtered", "entities", "too_few_entities", 1.0, 2.0, engine="rules"),
    Fate("difficulty_band", "difficulty", "too_easy", 0.91, 0.8, engine="lexical"),
    Fate("difficulty_band", "difficulty", "likely_mislabelled", 0.12, 0.3, engine="lexical"),
    Fate("deduplicated", "lexical_duplicates", "lexical_duplicate", 0.84, 0.7, "claim", "join"),
    LONG,
    Fate("decontaminated", "semantic_match", "semantic_match", 0.95, 0.9, "benchmark", "cosine"),
    Fate("silver_decomposed", "silver", "too_few_questions", 1.0, 2.0),
    Fate("training_claims", "diversity_selection", "not_selected", 812.0, 3000.0),
)
SIZES = {"hover": 28, "scitab": 17, "wice": 14}
FLOOR = 0.6
_STEP_ENGINES = {"deduplicated": json.dumps({"lexical_duplicates": "exact join (word)"})}
_CONFIGS = {"deduplicated": DedupSettings(pairs_floor=FLOOR).model_dump_json()}
BENCHMARK = "fever"
SPLIT = "wice"  # a source and a benchmark, which share one file by document


@dataclass(frozen=True)
class World:
    """The frames that were written: ``claims`` with each row's fate, and the benchmarks.

    ``benchmark`` holds the claims of ``BENCHMARK`` and then the one held out of ``SPLIT``.
    """

    data: Path
    claims: pl.DataFrame
    fates: dict[str, Fate]
    benchmark: pl.DataFrame
    attrition: pl.DataFrame

    def dropped(self, reason: str) -> str:
        """The id of the first claim that left for ``reason``."""
        return next(i for i, fate in self.fates.items() if fate.reason == reason)

    def with_fate(self, fate: Fate) -> str:
        """The id of the first claim with this fate."""
        return next(i for i, f in self.fates.items() if f == fate)


def _fate(index: int) -> Fate:
    return FATES[index % len(FATES)]


def _claim(source: str, index: int) -> dict[str, object]:
    claim = f"Ilva Marrek no. {index} was born in Torbeck before {source} bridge {index} opened"
    passages = [f"Passage {n} of {source} {index}: {HOSTILE}" for n in range(3 + index % 4)]
    evidence, label = "\n".join(passages), ("Supported", "Refuted", "Supported")[index % 3]
    picked, long = (_fate(index) == fate for fate in (SELECTED, LONG))
    return (
        plain("training_claims")
        | {"claim_id": claim_id(source, str(index), claim, evidence), "source": source}
        | {"native_id": str(index), "split": "dev", "claim": claim, "evidence": evidence}
        | {"passages": passages, "evidence_kind": "table" if source == "scitab" else "text"}
        | {"label": label, "native_label": "S", "document_id": f"doc-{index}", "num_hops": 2}
        | {"evidence_tokens": 3200 if long else 200 + index * 50, "evidence_words": 400}
        | {"token_unit": "words_x1.3", "overlap": 0.4, "support_probability": 0.55}
        | {"label_confidence": 0.55 if label == "Supported" else 0.45, "n_star": 2}
        | {"questions": ["Where was Ilva Marrek born?", "When did the bridge open?"]}
        | {"bucket": f"{label}|{source}", "origin": "selected" if picked else "long_evidence"}
    )


def _ranked(rows: list[dict[str, object]]) -> pl.DataFrame:
    """All columns of the claims, with ranks and gains of the selected ones."""
    rank = pl.int_range(pl.len()).over("bucket").cast(pl.Int64())
    picked = pl.when(pl.col("origin") == "selected")
    frame = pl.DataFrame(rows, schema=schemas.TRAINING_CLAIMS.schema)
    return frame.with_columns(
        selection_rank=picked.then(rank), selection_gain=picked.then(3.0 / (1 + rank))
    )


def _drops(stage: str, rows: pl.DataFrame, world: "World") -> pl.DataFrame:
    found = []
    for row in rows.iter_rows(named=True):
        fate = world.fates[row["claim_id"]]
        other = {"claim": world.claims, "benchmark": world.benchmark}.get(fate.matched)
        found.append(
            {
                "claim_id": row["claim_id"],
                "source": row["source"],
                "label": row["label"],
                "stage": stage,
                "step": fate.step,
                "reason": fate.reason,
                "value": fate.value,
                "threshold": fate.threshold,
                "matched_claim_id": None if other is None else other["claim_id"][0],
                "matched_source": None if other is None else _where(fate) + str(other["source"][0]),
                "engine": fate.engine,
            }
        )
    return table_of(schemas.DROPS, found)


def _pairs(drops: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """The pairs behind the drops, and one of claims alike but not enough to drop either."""
    duplicates = drops.select(
        kind=pl.lit("lexical"),
        earlier_id="matched_claim_id",
        later_id="claim_id",
        similarity="value",
        floor=pl.lit(FLOOR),
        engine="engine",
    )
    first, second = kept["claim_id"].head(2)
    alike = pl.DataFrame(
        [("semantic", first, second, 0.65, FLOOR, "cosine")], duplicates.schema, orient="row"
    )
    return schemas.PAIRS.conform(pl.concat([duplicates, alike]))


def _where(fate: Fate) -> str:
    return "benchmark/" if fate.matched == "benchmark" else ""


def _write(frame: pl.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(path)


def _loading_drops(source: str) -> pl.DataFrame:
    about = {"claim_id": claim_id(source, "middle", "x", "y"), "stage": f"claims/{source}"}
    said = {"source": source, "step": "label_rule", "reason": "middle_class"}
    return table_of(schemas.DROPS, [about | said])


def _rejects(source: str) -> pl.DataFrame:
    about = {"source": source, "file": f"{source}/dev.json", "row": 7, "field": "label"}
    return table_of(schemas.REJECTS, [about | {"reason": "unknown_label", "detail": "'perhaps'"}])


def _cells(pool: pl.DataFrame, selected: pl.DataFrame) -> pl.DataFrame:
    """One line a selection cell; the shares are made up, the counts are not."""
    picks = selected.group_by("bucket").agg(
        selected=pl.len().cast(pl.Int64()), objective=pl.col("selection_gain").sum()
    )
    cells = (
        pool.group_by("bucket", "label", "source", maintain_order=True)
        .agg(available=pl.len().cast(pl.Int64()))
        .join(picks, on="bucket")
        .with_columns(budget="selected", evaluations=pl.col("available") + 3)
        .with_columns(mean_cover=pl.col("objective") / pl.col("available"))
        .with_columns(within_0_5=pl.lit(0.9), within_0_7=pl.lit(0.6), within_0_9=pl.lit(0.2))
    )
    return schemas.SELECTION_CELLS.conform(cells)


def _stage_run(data: Path, stage: str, rows_in: int, kept: int, dropped: int) -> None:
    run = (
        plain("stage_runs")
        | {"stage": stage, "rows_in": rows_in, "rows_kept": kept, "rows_dropped": dropped}
        | {"rows_rejected": 1 if "/" in stage else 0}
        | {"engine": "verifier=lexical" if stage == "difficulty_band" else None}
        | {"config": _CONFIGS.get(stage, "{}")}
        | {"step_engines": _STEP_ENGINES.get(stage, "{}")}
    )
    path = data / "stage_runs" / (stage.replace("/", "__") + ".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(run), "utf-8")


def build(data: Path) -> World:
    """Write the whole folder beneath ``data`` and return what was written."""
    rows = [_claim(source, i) for source, size in SIZES.items() for i in range(size)]
    claims = pl.DataFrame(rows, schema=schemas.CLAIMS.schema)
    fates = {row["claim_id"]: _fate(int(str(row["native_id"]))) for row in rows}
    tests = [*(_claim(BENCHMARK, i) for i in range(5)), _claim(SPLIT, SIZES[SPLIT])]
    benchmark = pl.DataFrame(tests, schema=schemas.BENCHMARK_CLAIMS.schema)
    world = World(data, claims, fates, benchmark, pl.DataFrame())
    _write_benchmarks(world)
    frames = [_write_sources(world), *_write_stages(world, _ranked(rows))]
    counted = attrition(frames)
    _write(counted, data / "attrition.parquet")
    write_policy(data)
    write_evaluation(data, BENCHMARK, benchmark.filter(pl.col("source") == BENCHMARK))
    return World(data, claims, fates, benchmark, counted)


def _write_benchmarks(world: World) -> None:
    data, trained = world.data, world.claims.filter(pl.col("source") == SPLIT)
    left = _holdout_drops(f"benchmark/{SPLIT}", "training_document", trained)
    for name, drops in ((BENCHMARK, schemas.DROPS.empty()), (SPLIT, left)):
        tests = world.benchmark.filter(pl.col("source") == name)
        _write(schemas.BENCHMARK_CLAIMS.conform(tests), data / f"benchmark/{name}.parquet")
        _write(drops, data / f"drops/benchmark/{name}.parquet")
        _stage_run(data, f"benchmark/{name}", tests.height + drops.height, tests.height, len(drops))
    _write(_rejects(BENCHMARK), data / f"rejects/benchmark/{BENCHMARK}.parquet")


def _holdout_drops(stage: str, reason: str, rows: pl.DataFrame) -> pl.DataFrame:
    """What one side of a hold-out split leaves to the other, under the very same ids."""
    said = {"stage": stage, "step": "holdout", "reason": reason}
    found = [row | said for row in rows.select("claim_id", "source", "label").to_dicts()]
    return table_of(schemas.DROPS, found)


def _write_sources(world: World) -> StageFrames:
    data, drops, rejects = world.data, [], []
    for source, size in SIZES.items():
        kept = schemas.CLAIMS.conform(world.claims.filter(pl.col("source") == source))
        held = world.benchmark.filter(pl.col("source") == source)
        held_out = _holdout_drops(f"claims/{source}", "held_out_document", held)
        drops.append(pl.concat([_loading_drops(source), held_out]))
        rejects.append(_rejects(source))
        _write(kept, data / f"claims/{source}.parquet")
        _write(drops[-1], data / f"drops/claims/{source}.parquet")
        _write(rejects[-1], data / f"rejects/{source}.parquet")
        _stage_run(data, f"claims/{source}", size + drops[-1].height + 1, size, drops[-1].height)
    _write(schemas.CLAIMS.empty(), data / "claims/ex_fever.parquet")
    return StageFrames("claims", 0, world.claims, pl.concat(drops), pl.concat(rejects))


def _write_stages(world: World, alive: pl.DataFrame) -> list[StageFrames]:
    found = []
    for order, stage in enumerate(STAGES[1:], start=1):
        selecting = stage == "diversity_selected"
        drops, kept = _split(stage, alive, world)
        stored = TABLES[stage].conform(kept.select(list(TABLES[stage].schema)))
        _write(stored, world.data / f"{stage}.parquet")
        if not selecting:  # the selection leaves the decision on the rest to the next stage
            _write(drops, world.data / f"drops/{stage}.parquet")
        if stage == "deduplicated":
            _write(_pairs(drops, kept), world.data / f"pairs/{stage}.parquet")
        if selecting:
            _write(_cells(alive, kept), world.data / f"selection_cells/{stage}.parquet")
        _stage_run(world.data, stage, alive.height, kept.height, drops.height)
        found.append(StageFrames(stage, order, stored, drops))
        alive = alive if selecting else kept
    return found


def _split(stage: str, alive: pl.DataFrame, world: World) -> tuple[pl.DataFrame, pl.DataFrame]:
    fates = [world.fates[i] for i in alive["claim_id"]]
    if stage == "diversity_selected":
        return schemas.DROPS.empty(), alive.filter(pl.Series([f == SELECTED for f in fates]))
    leaves = pl.Series([fate.stage == stage for fate in fates])
    return _drops(stage, alive.filter(leaves), world), alive.filter(~leaves)
