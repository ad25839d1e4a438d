"""Systems opened over a data folder, as a run of the evaluation does, and what they predict."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from decomposerl.evaluation.systems import System
from decomposerl.schemas import BENCHMARK_CLAIMS
from evaluation_graph import SYSTEMS, claim_row
from fault_server import Answer
from resources.evaluation.generation import OpenedSystem
from resources.evaluation.model import EvaluationModelResource
from resources.store.parquet import DataFolder
from resources.verifier.resource import VerifierResource

BY_KEY = {one.key: one for one in SYSTEMS}


class Predicted(NamedTuple):
    """What was predicted, how many claims were asked, and how many were stored before."""

    predictions: pl.DataFrame
    calls: pl.DataFrame
    asked: int
    stored: int


def predicted_by(system: OpenedSystem, name: str, claims: pl.DataFrame, failed: float) -> Predicted:
    """The predictions of a fresh system."""
    predictions, calls = system.predict(name, claims, failed, str)
    return Predicted(predictions, calls, system.calls, system.hits)


def frame_of_claims(*rows: dict[str, object]) -> pl.DataFrame:
    """A test set of these claims."""
    return BENCHMARK_CLAIMS.conform(pl.DataFrame(rows, schema=BENCHMARK_CLAIMS.schema))


def spelled(**chances: float) -> Answer:
    """A reply of one token, the first, with log probabilities."""
    likely = [{"token": word, "logprob": chance} for word, chance in chances.items()]
    message = {"content": likely[0]["token"]}
    listed = {"content": [{**likely[0], "top_logprobs": likely}]}
    choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": listed}
    return Answer(change={"choices": [choice]})


@contextmanager
def opened(
    folder: Path,
    system: System | str,
    **fields: Any,  # noqa: ANN401 - of the resource
) -> Iterator[OpenedSystem]:
    """A system, by itself or its key, with the engines of a data folder; ``fields`` are theirs."""
    one = BY_KEY[system] if isinstance(system, str) else system
    by = EvaluationModelResource(**{"results_dir": str(folder / "results"), **fields})
    verifier = VerifierResource(results_dir=by.results_dir)
    try:
        yield by.opened(one, DataFolder(base_dir=str(folder)), verifier)
    finally:
        by.close()


def predicted(
    folder: Path,
    system: System | str,
    claims: pl.DataFrame | int = 2,
    **fields: Any,  # noqa: ANN401 - of the resource
) -> Predicted:
    """Its predictions of some claims, or of the first ones; none may fail."""
    if isinstance(claims, int):
        claims = frame_of_claims(*map(claim_row, range(claims)))
    with opened(folder, system, **fields) as one:
        return predicted_by(one, "fever", claims, 0.0)
