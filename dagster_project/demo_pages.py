"""What the demo shows of its results: tables, one verified claim, and what was made."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from dagster_project.profiles import Profile, titles_for
from decomposerl.baselines.method import Verification
from decomposerl.claims.catalogue import SOURCES
from decomposerl.evaluation.published import MEANS
from decomposerl.reports.attrition import attrition_text, attrition_wide
from decomposerl.reports.leaderboard_report import leaderboard_text
from decomposerl.reports.training_report import changes_text
from decomposerl.reports.verified import VerifiedClaim, Verifying
from decomposerl.traces.trace import Cycle
from decomposerl.training.curves import changes
from resources.evaluation.results_folder import with_sample_note
from resources.store.parquet import DataFolder
from resources.training.run_inputs import policy_folder
from resources.training.run_store import RunFolder, read_outcome

_HELD_OUT = ("format", "verification", "question_count", "necessity", "joint", "total")
_MOST_QUESTIONS = 6


def attrition_page(folder: DataFolder) -> str:
    """The paper's table of the funnel."""
    raw = {source.name: source.paper_raw for source in SOURCES if source.paper_raw is not None}
    titles = {source.name: source.title for source in SOURCES}
    return attrition_text(attrition_wide(folder.read("attrition"), raw, titles))


def training_page(folder: DataFolder, recipe: str) -> str:
    """What training changed on held-out claims."""
    outcome = read_outcome(RunFolder(policy_folder(folder, recipe)))
    wanted = {f"held_out_sampled/{name}" for name in _HELD_OUT} | {
        "held_out_greedy/balanced_accuracy"
    }
    before, after = (
        {key: value for key, value in measures.items() if key in wanted}
        for measures in (outcome.before, outcome.after)
    )
    engine = outcome.judge.get("engine", "")
    return f"{changes_text(changes(before, after))}\n{outcome.steps} steps; judge {engine}"


def board_page(folder: DataFolder, profile: Profile) -> str:
    """The leaderboard's means, one row a system."""
    board = folder.read("leaderboard")
    titles = titles_for(profile)
    return with_sample_note(leaderboard_text(board, titles, only=MEANS), folder, board, titles)


def made_page(folder: DataFolder, recipe: str) -> str:
    """What the demo made, and where it is."""
    claims, board = folder.read("training_claims").height, folder.read("leaderboard")
    systems = board.filter(pl.col("engine").is_not_null())["system"].n_unique()
    rows = (
        ("training claims", f"{claims:,}", "training_claims.parquet"),
        ("adapter", recipe, str(RunFolder(policy_folder(folder, recipe)).adapter)),
        ("systems with scores", f"{systems:,}", "scores/"),
        ("all tables, in DuckDB", "", "decomposerl.duckdb"),
    )
    return "\n".join(
        f"  {what:<24}{count:>6}  {folder.path / place}" for what, count, place in rows
    )


def shown_claim(folder: DataFolder, system: str) -> VerifiedClaim | None:
    """A claim that the system got right: the one with most answers that rest on the evidence."""
    return max(map(_verified, _right(folder, system)), key=_rank, default=None)


def dropped_claim(folder: DataFolder) -> str | None:
    """The id of a claim that was dropped because another one is similar."""
    drops = folder.read("drops/deduplicated").filter(pl.col("matched_claim_id").is_not_null())
    return min(drops["claim_id"].to_list(), default=None)


def _rank(one: VerifiedClaim) -> tuple[int, int]:
    return sum(bool(each.evidence) for each in one.questions), -len(one.questions)


def _right(folder: DataFolder, system: str) -> Iterator[dict[str, Any]]:
    """The predictions that match the label, with the claim's texts."""
    pattern = f"predictions/*/{system}.parquet"
    for path in sorted(folder.pulled(pattern).glob(pattern)):
        key = f"benchmark/{path.parent.name}"
        if not folder.exists(key):  # a test set that is derived from another one
            continue
        texts = folder.read(key).select("claim_id", "claim", "evidence", "label")
        rows = pl.read_parquet(path).filter(pl.col("questions").is_between(1, _MOST_QUESTIONS))
        joined = rows.join(texts, on="claim_id").filter(pl.col("verdict") == pl.col("label"))
        yield from joined.sort("claim_id").iter_rows(named=True)


def _verified(row: dict[str, Any]) -> VerifiedClaim:
    cycles = tuple(
        Cycle(one["question"], one["answer"], one["thought"]) for one in row["trace"]["cycles"]
    )
    ended = Verification(row["verdict"], row["parse_status"], row["reply"], cycles)
    about = Verifying(row["system"], row["engine"], row["prompt_hash"])
    return about.verified(row["claim"], row["evidence"], ended, None, row["claim_id"])
