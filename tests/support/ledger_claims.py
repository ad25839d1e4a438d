"""The ledger's row of claims: what the corpus readers and each step of the funnel give.

The funnel runs with the embedded engines on made-up claims; vectors are a bag of words, as those of
a model depend on the processor.
"""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

import polars as pl

from decomposerl.claims.claim import LabelRule
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_benchmark, load_source
from decomposerl.claims.source import Benchmark, NativeFile, Source
from decomposerl.errors import DecomposeRLError
from decomposerl.funnel import catalogue as funnel
from decomposerl.funnel import settings as given
from decomposerl.funnel.step import StageResult
from decomposerl.reports.attrition import StageFrames, attrition
from decomposerl.schemas import BENCHMARK_CLAIMS, CLAIMS, REJECTS
from fakes import BagOfWordsEmbedder, MemoryCorpora, MemoryPages
from ledger import digest, table
from ledger_inputs import INPUTS
from native_rows import MEMBERS, SOUND, Member, Row
from plain_rows import table_of
from resources.decomposer.rule_engine import RuleDecomposer
from resources.entities.rule_engine import RuleEntities
from resources.tokens.word_tokens import WordTokens
from resources.verifier.lexical import LexicalVerifier

GIVEN = INPUTS["claims"]
PLACES = ("Torbeck", "Odense", "Vienna", "Marrek", "Holm")
PEOPLE = ("Ada Holm", "Ilva Marrek", "Bram Oy", "Orla Venn")
WORKS = ("mill", "bridge", "harbour", "town hall")


def claim_entries(_: Path) -> Mapping[str, Any]:
    """Claims, drops and rejects of each corpus; what each step of the funnel keeps and drops."""
    return {"corpora": dict(_corpora()), "funnel": dict(_funnel()), "bounds": dict(_bounds())}


def _corpora() -> Iterator[tuple[str, Any]]:
    """Each corpus on sound rows and on rows with a damaged field, under each rule of labels."""
    for rule, member in product(get_args(LabelRule), MEMBERS):
        settings = LoadSettings(label_rule=rule, max_reject_share=1, allow_training_off=True)
        folder = "claims" if isinstance(member, Source) else "benchmark"
        try:
            yield f"{folder}/{member.name} {rule}", _shown(_loaded(member, settings))
        except DecomposeRLError as error:
            yield f"{folder}/{member.name} {rule}", f"{type(error).__name__}: {error}"


def _loaded(member: Member, settings: LoadSettings) -> LoadedClaims:
    """A corpus read from made-up files that hold its rows."""
    rows = {file.path: _rows(member, file) for file in member.native_files}
    rows["scifact/corpus.jsonl"] = [GIVEN["abstract"]]
    files = MemoryCorpora(rows, dict.fromkeys(member.beside, MemoryPages(GIVEN["pages"])))
    if isinstance(member, Source):
        return load_source(member, None, files, settings)
    return load_benchmark(member, None, files, settings)


def _rows(member: Member, file: NativeFile) -> Sequence[Row]:
    """Sound rows with every label of the corpus, then one with each field absent or wrong."""
    native = (isinstance(member, Benchmark) and member.source) or member.name
    sound = GIVEN["rows"].get(member.name) or SOUND[native][1]
    if "symmetric" in file.path:
        sound = GIVEN["rows"]["fever_symmetric"]
    known = {*member.labels.supported, *member.labels.refuted, *member.labels.middle}
    rows = [sound, *(_relabelled(sound, known, label) for label in (*sorted(known), "?"))]
    rows += [sound | {name: wrong} for name in sound for wrong in (None, "", 1.5)]
    rows += [{key: value for key, value in sound.items() if key != name} for name in sound]
    return [_numbered(row, number) for number, row in enumerate(rows)]


def _relabelled(value: Any, known: Collection[str], label: str) -> Any:  # noqa: ANN401 - JSON
    """A row with another label of the corpus, wherever its reader looks for it."""
    if isinstance(value, dict):
        return {key: _relabelled(inner, known, label) for key, inner in value.items()}
    if isinstance(value, list):
        return [_relabelled(inner, known, label) for inner in value]
    return label if isinstance(value, str) and value.casefold() in known else value


_IDS = ("id", "uid", "_id", "claim_id", "example_id", "_key", "contamination_identifier")


def _numbered(value: Any, number: int, key: str = "") -> Any:  # noqa: ANN401 - JSON
    """A row with an id of its own, unless its id is damaged."""
    if isinstance(value, dict):
        return {name: _numbered(inner, number, name) for name, inner in value.items()}
    if key not in _IDS or value in {None, "", 1.5}:
        return value
    return f"{value}{number}" if isinstance(value, str) else number + 100


def _shown(loaded: LoadedClaims) -> dict[str, Any]:
    """Sizes, digests, and the reasons of drops and rejects with their numbers."""
    return {
        "read": [loaded.rows_read, loaded.claims.height, loaded.drops.height, loaded.status],
        "claims": digest(loaded.claims.write_ndjson()),
        "drops": _counted(loaded.drops, "step"),
        "rejects": _counted(loaded.rejects, "field"),
    }


def _counted(rows: pl.DataFrame, place: str) -> list[str]:
    """The number of rows by place and reason, and a digest of all."""
    counts = rows.group_by(place, "reason").len().sort(place, "reason").iter_rows()
    return [*(" ".join(map(str, count)) for count in counts), digest(rows.write_ndjson())]


def made_claims(rows: int = 64) -> pl.DataFrame:
    """Claims as the readers give them: some short, copied, paraphrased, tables, near duplicates."""
    rng, made = random.Random(21), list[dict[str, Any]]()
    for row in range(rows):
        person, place, work = rng.choice(PEOPLE), rng.choice(PLACES), rng.choice(WORKS)
        year = rng.randrange(1800, 1900)
        claim = f"{person} built the {work} of {place} in {year}."
        if row % 8 == 3 and made:
            claim = made[-2]["claim"].replace(" built", " at last built")
        if row % 9 == 5:
            claim = f"the {work} is old and has {row} windows"
        passages = [_passage(rng, person, place, work) for _ in range(1 + row % 5)]
        if row % 7 == 6:
            passages.append(claim)
        varied = {
            "claim_id": f"{row:016x}",
            "source": ("hover", "scitab", "wice")[row % 3],
            "native_id": str(row),
            "claim": claim,
            "evidence": "\n".join(passages),
            "passages": passages,
            "evidence_kind": "table" if row % 3 == 1 else "text",
            "label": ("Supported", "Refuted")[row % 2],
            "document_id": f"d{row // 2}",
        }
        made.append({"split": "train", "native_label": "S", "label_rule": "drop_middle"} | varied)
    return table_of(CLAIMS, made)


def _passage(rng: random.Random, person: str, place: str, work: str) -> str:
    """One to eight sentences, so that some evidence is too short and some is long."""
    told = [
        f"{person} came to {place} in {rng.randrange(1800, 1900)}.",
        f"The {work} of {place} is {rng.randrange(5, 60)} m high and was not rebuilt.",
        f"{rng.choice(PEOPLE)} paid {rng.randrange(100, 9000)} kr. for the {rng.choice(WORKS)}.",
    ]
    return " ".join(rng.choices(told, k=rng.randrange(1, 9)))


def _funnel() -> Iterator[tuple[str, Any]]:
    """Every stage in order, each on what the one before it kept."""
    tokens, embedder = WordTokens(), BagOfWordsEmbedder()
    claims = made_claims()
    rules = given.RuleSettings(min_tokens=25, max_tokens=400)
    results = [funnel.rule_filter(claims, rules, tokens, RuleEntities())]
    band = given.DifficultySettings(low=0.2, high=0.9)
    results.append(funnel.difficulty_band(results[-1].kept, band, LexicalVerifier()))
    dedup = given.DedupSettings(cosine=0.95, pairs_floor=0.6)
    results.append(funnel.deduplicate(results[-1].kept, dedup, embedder))
    leaks = given.DecontaminationSettings(jaccard=0.6)
    results.append(funnel.decontaminate(results[-1].kept, _holdouts(claims), leaks, embedder))
    silver = funnel.silver_decompose(results[-1].kept, given.SilverSettings(), RuleDecomposer())
    results.append(silver)
    selection = given.SelectionSettings(budget_per_label=5)
    chosen = funnel.select_diverse(silver.kept, selection, embedder)
    training = given.TrainingSettings(long_evidence_tokens=150)
    results.append(funnel.assemble_training(silver.kept, chosen.kept, training, tokens))
    frames = [StageFrames("claims", 0, claims, results[0].drops.clear(), REJECTS.empty())]
    stages = zip((*funnel.STAGES[:5], funnel.STAGES[6]), results, strict=True)
    for order, (stage, result) in enumerate(stages, start=1):
        yield stage, _stage(result)
        frames.append(StageFrames(stage, order, result.kept, result.drops))
    yield "diversity_selected", {"kept": table(chosen.kept), "cells": table(chosen.cells)}
    yield "attrition", table(attrition(frames))


def _bounds() -> Iterator[tuple[str, Any]]:
    """What is kept where a bound is a value that some claims have: each bound by itself."""
    claims, tokens, entities = made_claims(), WordTokens(), RuleEntities()
    wide = {"min_sentences": 0, "min_tokens": 0, "max_overlap": 1.0, "min_entities": 0}
    every = funnel.rule_filter(claims, given.RuleSettings(**wide), tokens, entities).kept
    middle = {
        name: sorted(every[name])[every.height // 2] for name in ("overlap", "evidence_tokens")
    }
    for name, bound in (
        ("min_sentences", 4),
        ("min_tokens", middle["evidence_tokens"]),
        ("max_tokens", middle["evidence_tokens"]),
        ("max_overlap", middle["overlap"]),
        ("min_entities", 3),
    ):
        rules = given.RuleSettings(**(wide | {name: bound}))
        yield name, _kept(funnel.rule_filter(claims, rules, tokens, entities))
    difficulty, verifier = given.DifficultySettings(low=0, high=1), LexicalVerifier()
    sure = sorted(funnel.difficulty_band(every, difficulty, verifier).kept["label_confidence"])
    for name in ("low", "high"):
        band = given.DifficultySettings(**({"low": 0, "high": 1} | {name: sure[len(sure) // 2]}))
        yield name, _kept(funnel.difficulty_band(every, band, verifier))
    silver = funnel.silver_decompose(every, given.SilverSettings(min_questions=1), RuleDecomposer())
    for least in (2, 3):
        settings = given.SilverSettings(min_questions=least, max_questions=3)
        decomposed = funnel.silver_decompose(every, settings, RuleDecomposer())
        yield f"questions {least}", _kept(decomposed)
    few = given.SelectionSettings(budget_per_label=2)
    chosen = funnel.select_diverse(silver.kept, few, BagOfWordsEmbedder()).kept
    training = given.TrainingSettings(long_evidence_tokens=middle["evidence_tokens"])
    yield "long", _kept(funnel.assemble_training(silver.kept, chosen, training, tokens))


def _kept(result: StageResult) -> list[Any]:
    """The number of the kept rows, and a digest of their ids."""
    return [result.kept.height, digest(result.kept["claim_id"].to_list())]


def _holdouts(claims: pl.DataFrame) -> pl.DataFrame:
    """Test claims: one the same as a claim, one near, one alike in meaning, the others not."""
    rows = claims.gather_every(9).with_columns(
        source=pl.lit("fever"),
        claim_id=pl.lit("f") + pl.col("claim_id").str.slice(1),
        claim=pl.when(pl.int_range(pl.len()) % 2 == 0)
        .then(pl.col("claim"))
        .otherwise(pl.col("claim").str.replace(" in ", " about ")),
    )
    return BENCHMARK_CLAIMS.conform(rows.select(list(BENCHMARK_CLAIMS.schema)))


def _stage(result: StageResult) -> dict[str, Any]:
    """The kept rows by column, every drop in words, and the programs that decided."""
    shown = {
        "kept": table(result.kept),
        "drops": [_drop(row) for row in result.drops.iter_rows(named=True)],
        "engines": dict(result.engines),
        "close": dict(result.close),
    }
    return shown if result.pairs is None else shown | {"pairs": table(result.pairs)}


def _drop(row: Mapping[str, Any]) -> str:
    """Claim, reason, numbers and matched claim of a drop, without the zeros of ids."""
    numbers = [f"{row[name]:.6g}" for name in ("value", "threshold") if row[name] is not None]
    matched = [row["matched_claim_id"].lstrip("0")] if row["matched_claim_id"] else []
    return " ".join([row["claim_id"].lstrip("0") or "0", row["reason"], *numbers, *matched])
