"""``docs/reference/files.md``: the files of the data folder, declared here once.

In a path ``<name>`` is any part of a file's name; a path that ends in ``/`` is a folder with
whatever is in it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from studies.reference.markdown import MADE, code, paragraphs, table


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file or folder below the data folder; ``table`` is the table that it holds, if any."""

    path: str
    what: str
    table: str = ""

    def holds(self, path: PurePosixPath) -> bool:
        """Whether it is, or has in it, the file at this relative path."""
        parts = re.split(r"(<[^>]+>)", self.path.rstrip("/"))
        pattern = "".join("[^/]+" if part[:1] == "<" else re.escape(part) for part in parts)
        return bool(re.fullmatch(pattern + ("/.+" if self.path.endswith("/") else ""), str(path)))


_RUN = "policy/<run>/"
_STEP = "<step>.<attempt>.parquet"
FILES: dict[str, tuple[DataFile, ...]] = {
    "Funnel": (
        DataFile("claims/<corpus>.parquet", "claims of a training corpus", "claims"),
        DataFile("benchmark/<test set>.parquet", "claims of a test set", "benchmark_claims"),
        DataFile("rejects/<corpus>.parquet", "what could not be read of a corpus", "rejects"),
        DataFile("rejects/benchmark/<test set>.parquet", "the same of a test set", "rejects"),
        DataFile("doubtful/<test set>.parquet", "its list of doubtful labels", "doubtful"),
        DataFile("rule_filtered.parquet", "claims after the rules", "rule_filtered"),
        DataFile("difficulty_band.parquet", "claims after the verifier", "difficulty_band"),
        DataFile("deduplicated.parquet", "claims without duplicates", "deduplicated"),
        DataFile("decontaminated.parquet", "claims not in a test set", "decontaminated"),
        DataFile("silver_decomposed.parquet", "claims with questions", "silver_decomposed"),
        DataFile("diversity_selected.parquet", "claims selected", "diversity_selected"),
        DataFile("training_claims.parquet", "claims to train on", "training_claims"),
        DataFile("training_claims_random.parquet", "as many, drawn at random", "training_claims"),
        DataFile("drops/<stage>.parquet", "claims that a stage dropped", "drops"),
        DataFile("drops/claims/<corpus>.parquet", "claims dropped while reading", "drops"),
        DataFile("drops/benchmark/<test set>.parquet", "the same of a test set", "drops"),
        DataFile("pairs/<stage>.parquet", "pairs of like claims, where a run keeps them", "pairs"),
        DataFile("selection_cells/<stage>.parquet", "cells of the selection", "selection_cells"),
    ),
    "Training": (
        DataFile("base_policy/", "the tiny base policy: weights, tokenizer, its prompt"),
        DataFile("base_policy_clean/", "the same without planted flaws"),
        DataFile("base_policy_small/", "a smaller one"),
        DataFile(f"{_RUN}adapter/", "the trained adapter with its tokenizer"),
        DataFile(f"{_RUN}adapter_step_<step>/", "the adapter of step 0, and of measured steps"),
        DataFile(f"{_RUN}checkpoints/", "complete checkpoints, from which a run resumes"),
        DataFile(f"{_RUN}sha256.json", "the SHA-256 of the run's files"),
        DataFile(f"{_RUN}curves.parquet", "the learning curves of the whole run", "curves"),
        DataFile(f"{_RUN}curves/{_STEP}", "the same of one step", "curves"),
        DataFile(f"{_RUN}rollouts/{_STEP}", "the traces sampled at a step", "rollouts"),
        DataFile(f"{_RUN}rewards/{_STEP}", "their rewards", "rewards"),
        DataFile(f"{_RUN}judge_calls/{_STEP}", "the judge's rulings on them", "judge_calls"),
        DataFile(f"{_RUN}held_out_greedy/", "the same four folders of held-out claims, greedy"),
        DataFile(f"{_RUN}held_out_sampled/", "the same four of held-out claims, sampled"),
        DataFile(f"{_RUN}inputs/", "copies of the claims and the base that a run learns from"),
        DataFile(f"{_RUN}config.json", "recipe, trainer's arguments, library versions, engines"),
        DataFile(f"{_RUN}run.json", "the run's key, and the step that each start resumed from"),
        DataFile(f"{_RUN}outcome.json", "how the run ended, written last"),
        DataFile(f"{_RUN}superseded/", "all of these of an earlier run with other inputs"),
        DataFile("policy_runs/<run>/", "what the trainer was given, and its log"),
    ),
    "Evaluation": (
        DataFile("predictions/<test set>/<system>.parquet", "a system's verdicts", "predictions"),
        DataFile("calls/<test set>/<system>.parquet", "its calls to models", "calls"),
        DataFile("scores/<test set>/<system>.parquet", "its scores with intervals", "scores"),
        DataFile("calibrations/<system>.json", "a system's calibration, fitted on dev claims"),
        DataFile("calibrations/<system>.parquet", "its reliability diagram", "calibrations"),
        DataFile("leaderboard.parquet", "every system next to the paper", "leaderboard"),
        DataFile("comparison.parquet", "systems in pairs on the same claims", "comparison"),
        DataFile("systems.toml", "your own systems; `decomposerl init systems` writes it"),
        DataFile("marks.jsonl", "reviewers' marks of the trace page"),
    ),
    "Studies": (
        DataFile(
            "judge_distillation.parquet",
            "a large judge's rulings as examples for the tiny one",
            "judge_distillation",
        ),
        DataFile("tiny_judge/<head>/", "an adapter of the tiny judge, and `head.json`: how it did"),
        DataFile("tiny_judge/judge.json", "the tiny judge's encoder and teacher"),
        DataFile("tiny_judge_runs/", "what the training of the heads was given, and its log"),
        DataFile(
            "tiny_judge_agreement.parquet",
            "the tiny judge beside its teacher",
            "tiny_judge_agreement",
        ),
        DataFile("study/judge_rewards.parquet", "rewards by both judges", "judge_study"),
        DataFile("study/selectors.parquet", "the selectors on the pool", "selector_study"),
        DataFile(
            "study/<name>.parquet", "the measures of a study of trained runs", "training_study"
        ),
        DataFile("studies/<name>.png", "a study's figure, which the report shows"),
        DataFile("studies/<name>.svg", "the same as SVG"),
        DataFile("studies/<name>.txt", "its sentence"),
    ),
    "Overview": (
        DataFile("attrition.parquet", "claims kept and dropped by stage", "attrition"),
        DataFile("chat_replies.parquet", "the stored replies of chat models", "chat_replies"),
        DataFile("decomposerl.duckdb", "views over all of the above, to query with SQL"),
        DataFile("report/", "`report.html`, `report.md`, `traces.html`, `figures/`"),
        DataFile("rehearsal/", "the data folder of `decomposerl rehearse`, made anew each time"),
    ),
    "Kept for the next run": (
        DataFile("stage_runs/<asset>.json", "the run record of an asset, with its files' SHA-256"),
        DataFile("engine_results/", "what engines answered: delete it, and they are asked again"),
        DataFile("prediction_shards/", "replies and verdicts of unfinished evaluations"),
        DataFile("models.lock.toml", "the commit of each model from the hub"),
        DataFile("gpu.json", "what `python -m perf.gpu --out` measured; `doctor` uses its rates"),
        DataFile("demo.json", "which parts of `make demo` are finished"),
        DataFile("sample/", "the native files of the bundled sample"),
        DataFile("logs/<run>.log", "Dagster's lines of a run that a command started"),
        DataFile(".locks/", "locks of assets being written: do not remove them during a run"),
        DataFile("policy/.<run>.lock", "the same of a training run"),
    ),
}
"""Files by section of the page."""
_INTRODUCTION = """\
Everything that a run writes is in one folder: `data/`, or the folder that `DECOMPOSERL_DATA` or
`--data` names. A file is renamed into place when it is complete, so a stopped run leaves no
half-written file. The folder is on a local disk: [sharing it](../how-to/object-storage.md).
Before you delete the folder, keep what no run makes again: `systems.toml`, `marks.jsonl`, and
`engine_results/` with the replies that you paid for.
"""


def page() -> str:
    """The page as Markdown."""
    return paragraphs("# Files of the data folder", _INTRODUCTION, MADE, *_sections())


def paths_of(name: str) -> list[str]:
    """The paths of the files that hold the table with this name."""
    return [file.path for files in FILES.values() for file in files if file.table == name]


def _sections() -> Iterator[str]:
    for title, files in FILES.items():
        yield f"## {title}"
        if not any(file.table for file in files):
            yield table(("Path", "What"), [(code(file.path), file.what) for file in files])
            continue
        rows = [(code(file.path), file.what, _link(file.table)) for file in files]
        yield table(("Path", "What", "Columns"), rows)


def _link(name: str) -> str:
    return f"[{name}](tables.md#{name})" if name else ""


def unlisted(folder: Path) -> list[str]:
    """The files of a data folder that are not on the page."""
    every = [file for files in FILES.values() for file in files]
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in paths if not any(one.holds(PurePosixPath(path)) for one in every)]
