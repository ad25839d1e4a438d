"""Two systems' predictions, calls and scores of a test set, as a run would have left them."""

from pathlib import Path

import polars as pl

from decomposerl import schemas
from decomposerl.evaluation.comparison import compare_systems
from decomposerl.evaluation.leaderboard import leaderboard
from decomposerl.evaluation.scores import score_predictions
from decomposerl.evaluation.systems import CHAT_MODELS, Model, System
from plain_rows import plain, table_of
from resources.store.parquet import write_parquet

SYSTEMS = (
    System("simple", "Simple", CHAT_MODELS[0], "faithful"),
    System("decomposerl", "DecomposeRL", Model("tiny", "tiny", "policy"), "trace"),
)
_OTHER = {"Supported": "Refuted", "Refuted": "Supported"}


def predictions(system: System, benchmark: str, claims: pl.DataFrame) -> pl.DataFrame:
    """A baseline that is always right, and a policy that is surely wrong on every second claim."""
    policy = system.model.port == "policy"
    sure = {"confidence_raw": 0.95, "confidence_normalised": 0.97, "confidence_bound": False}
    own = {"engine": "transformers:tiny", "questions": 1, **sure} if policy else {}
    about = {"benchmark": benchmark, "system": system.key, "method": system.method}
    about |= {"model": system.model.key, "protocol": system.protocol}
    rows = [
        (
            plain("predictions")
            | about
            | own
            | {"claim_id": row["claim_id"]}
            | {"verdict": _OTHER[row["label"]] if policy and index % 2 else row["label"]}
            | {"trace": _trace(row["label"]) if policy else None}
        )
        for index, row in enumerate(claims.iter_rows(named=True))
    ]
    return table_of(schemas.PREDICTIONS, rows)


def _trace(label: str) -> dict[str, object]:
    cycle = {"question": "Is it so?", "answer": "It is.", "thought": "So it is."}
    return {"opening": "I look.", "cycles": [cycle], "verdict": label}


def calls(claim_ids: pl.Series) -> pl.DataFrame:
    """One call a claim."""
    rows = [(one, 0, "verify", "verdict", 90, 3, 0.25, False, None, None) for one in claim_ids]
    frame = pl.DataFrame(rows, schema=schemas.CALLS.schema, orient="row")
    return schemas.CALLS.conform(frame)


def write_evaluation(data: Path, benchmark: str, claims: pl.DataFrame) -> None:
    """Everything that two systems leave for one test set, and the tables over it."""
    made = {one: predictions(one, benchmark, claims) for one in SYSTEMS}
    scores = [score_predictions(frame, claims) for frame in made.values()]
    for (system, frame), scored in zip(made.items(), scores, strict=True):
        name = f"{benchmark}/{system.key}.parquet"
        write_parquet(frame, data / "predictions" / name)
        write_parquet(scored, data / "scores" / name)
        write_parquet(calls(frame["claim_id"]), data / "calls" / name)
    board = leaderboard(pl.concat(scores), SYSTEMS, [benchmark], {})
    write_parquet(board, data / "leaderboard.parquet")
    by_system = {system.key: frame for system, frame in made.items()}
    pairs = compare_systems({benchmark: claims}, {benchmark: by_system})
    write_parquet(pairs, data / "comparison.parquet")
