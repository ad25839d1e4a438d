"""The ledger's rows of numbers: searches and selections, metrics, memory of a training run."""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.evaluation.calibration import fit_calibration, reliability
from decomposerl.evaluation.comparison import holm
from decomposerl.evaluation.paired_seeds import mean_over_seeds
from decomposerl.kernels.cosine_filter import best_cross_cosine, cosine_pairs, keep_first_cosine
from decomposerl.kernels.cosine_parts import VectorBlocks, keep_first_in_blocks
from decomposerl.kernels.evidence_scan import scan
from decomposerl.kernels.facility_location import coverage_gains, facility_location
from decomposerl.kernels.matches import Matches, Pairs
from decomposerl.kernels.selectors import METHODS, select_each
from decomposerl.kernels.set_join import cross_matches, jaccard_pairs, keep_first_duplicates
from decomposerl.kernels.set_parts import keep_first_in_parts
from decomposerl.kernels.stochastic_greedy import stochastic_greedy
from decomposerl.kernels.text_scan import best_overlap, content_words, normalise_claim, words
from decomposerl.ports import Tasks
from decomposerl.text.sentences import split_sentences
from decomposerl.training.estimate import (
    PAPER_CLAIMS,
    batch_problems,
    disk_bytes,
    estimate_run,
)
from decomposerl.training.experiment import Experiment, Grpo, steps_of
from decomposerl.training.experiments import EXPERIMENTS, PAPER_7B
from decomposerl.training.memory import estimate_memory, shape_of
from decomposerl.training.studies import STUDIES, Study
from fakes import MemoryArrays
from ledger import digest
from ledger_inputs import INPUTS, call
from metrics_parts import write
from perf.grpo_case import QWEN_7B
from resources.mapper.pools import InProcessMapper
from studies.reference.layouts import LAYOUTS, layout_table


def texts_of(rows: int, seed: int) -> list[str]:
    """Made-up claims; every third one is an earlier one with a few words changed."""
    rng, made, known = random.Random(seed), list[str](), INPUTS["numbers"]["words"].split()
    for row in range(rows):
        if row % 3 == 2:
            parts = rng.choice(made).split()
            for _ in range(rng.randrange(3)):
                parts[rng.randrange(len(parts))] = rng.choice(known)
        else:
            parts = [rng.choice(known) for _ in range(rng.randrange(3, 14))]
        made.append(" ".join(parts))
    return made


def vectors_of(rows: int, seed: int, dimensions: int = 32) -> NDArray[np.float32]:
    """Unit rows, many of them near an earlier one.

    Each has 16 numbers, 1/4 or -1/4, so products and their sums are exact on every processor, and
    many are equal.
    """
    rng, made = random.Random(seed), np.zeros((rows, dimensions), np.float32)
    for row in range(rows):
        if row % 3 == 2:
            made[row] = made[rng.randrange(row)]
            flipped = rng.sample(range(dimensions), rng.randrange(4))
            made[row, flipped] *= -1
        else:
            made[row, rng.sample(range(dimensions), 16)] = rng.choices((-0.25, 0.25), k=16)
    return made


def kernel_entries(_: Path) -> Mapping[str, Any]:
    """What the searches, selections and text scans give on made-up inputs of fixed seeds."""
    return {
        "lexical": dict(_lexical()),
        "cosine": dict(_cosine()),
        "selection": dict(_selection()),
        "text": _text(),
    }


def _lexical() -> Iterator[tuple[str, Any]]:
    """Near duplicates by words and by characters: each engine, within a list and across two."""
    texts, others = texts_of(300, 1), texts_of(200, 2)
    for engine, shingle in product(("exact", "minhash_verified", "minhash"), ("word", "char_5")):
        for threshold in (0.5, 0.7, 0.9):
            found = keep_first_duplicates(texts, threshold, engine=engine, shingle=shingle)
            yield f"keep first {engine} {shingle} {threshold}", _matches(found)
        across = cross_matches(texts, others, 0.6, engine=engine, shingle=shingle)
        yield f"across {engine} {shingle}", _matches(across)
    yield "over budget", _matches(keep_first_duplicates(texts, 0.7, candidate_budget=10))
    yield "pairs", _pairs(jaccard_pairs(texts, 0.4))
    parts = [lambda start=start: texts[start : start + 100] for start in range(0, 300, 100)]
    tasks = Tasks(InProcessMapper(), MemoryArrays())
    yield "in parts", _matches(keep_first_in_parts(parts, 0.6, tasks))


def _cosine() -> Iterator[tuple[str, Any]]:
    """The same by vectors, whole and in blocks."""
    vectors, others = vectors_of(500, 3), vectors_of(300, 4)
    for threshold in (0.6, 0.8, 0.95):
        yield f"keep first {threshold}", _matches(keep_first_cosine(vectors, threshold))
        yield f"across {threshold}", _matches(best_cross_cosine(vectors, others, threshold))
    yield "pairs", _pairs(cosine_pairs(vectors, 0.7))
    blocks, tasks = _in_parts(vectors)
    yield "in blocks", _matches(keep_first_in_blocks(blocks, 0.8, tasks))


def _selection() -> Iterator[tuple[str, Any]]:
    """The picks of each method, and on random samples."""
    vectors = vectors_of(300, 5)
    cells = [(np.arange(0, 180), 25), (np.arange(180, 300), 200)]
    for method in sorted({*METHODS} - {"apricot"}):  # which compiles for ten seconds
        for number, chosen in enumerate(select_each(vectors, cells, method, 7)):
            found = _picks(chosen.picks, chosen.gains)
            exact = method != "k_means"  # its centres are rounded
            yield f"{method} {number}", found if exact else {"picks": len(chosen.picks)}
    listed = facility_location(vectors, 40, matrix_bytes=50_000)
    yield "in lists", _picks(listed.picks, listed.gains)
    sampled = stochastic_greedy(vectors, 30, seed=3)
    yield "sampled", _picks(sampled.picks, sampled.gains)
    yield "gains of picks", {"gains": coverage_gains(vectors, [5, 17, 200])[0].tolist()}


def _in_parts(vectors: NDArray[np.float32]) -> tuple[VectorBlocks, Tasks]:
    """The vectors in three parts, and what searches them."""
    arrays = MemoryArrays()
    blocks = VectorBlocks.write(arrays, "vectors", np.array_split(vectors, 3))
    return blocks, Tasks(InProcessMapper(), arrays)


def _matches(found: Matches) -> dict[str, Any]:
    """How many rows have a match, a digest of which, and the mean of how near they are."""
    return {
        "matched": int(found.is_matched.sum()),
        "rows": digest(found.matched.tolist()),
        "similarity": float(found.similarity.mean()),
        # How cosines are filtered depends on what is fast on this machine.
        "engine": found.engine.partition("_")[0],
    }


def _pairs(found: Pairs) -> dict[str, Any]:
    """The same of all pairs."""
    return {
        "pairs": len(found.earlier),
        "rows": digest([found.earlier.tolist(), found.later.tolist()]),
        "similarity": float(found.similarity.mean()),
        "engine": found.engine,
    }


def _picks(picks: NDArray[np.int64], gains: NDArray[np.float64]) -> dict[str, Any]:
    """The picks in order, and what they gain together."""
    return {"picks": digest(picks.tolist()), "first": picks[:5].tolist(), "sum": float(gains.sum())}


def _text() -> dict[str, Any]:
    """Sentences, words and overlap of an awkward text and of made-up evidence."""
    claims, others = texts_of(200, 6), texts_of(200, 7)
    awkward = INPUTS["numbers"]["awkward"]
    evidence = [f"{one[: 5 * place % 60]}.\n{two}. {awkward[: place % 300]}"
                for place, (one, two) in enumerate(zip(claims, others, strict=True))]  # fmt: skip
    tables = pl.Series([place % 4 == 0 for place in range(200)])
    scanned = scan(pl.Series(claims), pl.Series(evidence), tables)
    return {
        "sentences": split_sentences(awkward),
        "words": " ".join(words(awkward)),
        "content": digest(sorted(content_words(awkward))),
        "normalised": normalise_claim(awkward),
        "scan": [digest(scanned.sentences.tolist()), digest(scanned.words.tolist())],
        "overlap": float(scanned.overlap.mean()),
        "overlap of rows": digest([round(best_overlap(one, two, table=bool(table)), 9) for one, two,
                                   table in zip(claims, evidence, tables, strict=True)]),
    }  # fmt: skip


def metric_entries(folder: Path) -> Mapping[str, Any]:
    """What ``decomposerl metrics`` gives of made-up predictions, and tests and curves of others."""
    _write_results(folder)
    return {
        "command": {
            name: _measured(words) for name, words in INPUTS["numbers"]["measured"].items()
        },
        "tests": _tests(),
        "calibration": _calibrations(),
    }


def _write_results(folder: Path) -> None:
    """Labels, predictions and further predictions for a threshold: 300 made-up claims."""
    rng = random.Random(11)
    labels, said, dev = list[Any](), list[Any](), list[Any]()
    for row in range(300):
        label = rng.choice(("Supported", "Refuted", "Refuted"))
        chance = min(0.99, max(0.01, rng.randrange(100) / 100 * 0.7 + 0.3 * (label == "Supported")))
        verdict = rng.choice([label, label, label, "Supported", "Refuted", None])
        known = {"id": f"c{row}", "label": label}
        labels.append(known | {"kind": rng.choice("abc"), "document": f"d{row // 4}"})
        said.append({"id": f"c{row}", "said": verdict, "value": chance})
        dev.append({"id": f"c{row}", "value": rng.randrange(100) / 100})
    several = [row | {"value": value} for row in said for value in (0.4, row["value"])]
    for name, rows in (
        ("labels", labels),
        ("said", said),
        ("dev", dev),
        ("several", several),
        ("fewer", said[:280]),
    ):
        write(folder / f"{name}.jsonl", rows)


def _measured(words: str) -> Any:  # noqa: ANN401 - JSON
    """The page of the command as JSON; of each metric one list of its numbers."""
    done = call(f"metrics {words} --json")
    page, rows = json.loads(done.stdout), {}
    for row in page.pop("metrics"):
        texts = [value for value in row.values() if isinstance(value, str)]
        rows[" ".join(texts)] = [value for value in row.values() if not isinstance(value, str)]
    return page | {"metrics": rows, "notes": digest(done.stderr)}


def _tests() -> dict[str, Any]:
    """Corrections and intervals over seeds."""
    mean, bounds = mean_over_seeds(np.array([0.71, 0.74, 0.69, 0.75]))
    return {
        "holm": holm([0.01, 0.04, 0.03, 0.2, 0.001]),
        "over seeds": [mean, *bounds],
    }


def _calibrations() -> dict[str, Any]:
    """A fit, and the reliability of confidences that claim too much."""
    rng = np.random.default_rng(13)
    confidences = rng.integers(50, 100, 800) / 100
    right = rng.integers(0, 100, 800) < 100 * confidences**2
    evidence = np.arange(800) // 4
    named = {"model": "m", "prompt_hash": "p", "fitted_on": "made up"}
    fit, _ = fit_calibration(confidences, right, evidence, **named)
    bins = reliability(confidences, right, 10).to_dicts()
    return {"temperature": fit.model_dump(), "reliability": bins}


def memory_entries(_: Path) -> Mapping[str, Any]:
    """Memory, costs and layouts of the paper's runs, and every recipe and study by digest."""
    shapes = {"7b": shape_of(QWEN_7B), "3b": shape_of(QWEN_7B | INPUTS["numbers"]["3b"])}
    run = estimate_run(PAPER_7B, PAPER_CLAIMS, None, 12.5)
    return {
        "memory": {
            f"{name}, {processes} processes, on GPU={kept}": asdict(estimate)
            | {"total": estimate.total, "updating": estimate.updating}
            for name, shape in shapes.items()
            for processes, kept in ((1, True), (1, False), (4, True))
            for estimate in [estimate_memory(shape, PAPER_7B, processes, on_gpu=kept)]
        },
        "run": asdict(run),
        "disk": dict(disk_bytes(run, shapes["7b"].adapter(PAPER_7B.lora), 400, 3)),
        "batch problems": batch_problems(Grpo(per_device_batch=3, global_batch=16), 2),
        "layouts": {one.name: layout_table(one) for one in LAYOUTS},
        "recipes": {one.name: [steps_of(one, PAPER_CLAIMS.claims), _fields(one)]
                    for one in EXPERIMENTS},
        "studies": {one.name: _fields(one) for one in STUDIES},
    }  # fmt: skip


def _fields(recipe: Experiment | Study) -> str:
    """A digest of all its fields."""
    return digest(json.loads(json.dumps(asdict(recipe), default=str)))
