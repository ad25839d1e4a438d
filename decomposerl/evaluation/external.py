"""Scores of given predictions: this project's metrics over the claims of any project's files.

Takes the rows of two files and which of their columns mean what, gives one claim per label, and
then every metric. No row is dropped silently: one that does not fit is an error, named by file, row
and column, and what the options leave out is counted. Which word means Supported is asked where
nothing says so.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import polars as pl

from decomposerl.claims.claim import Record
from decomposerl.claims.column_guess import says_polarity
from decomposerl.claims.records import excerpt
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.cells import (
    CellError,
    Spellings,
    cell_of,
    finite_number,
    format_errors,
    identifier_of,
    normal,
)
from decomposerl.evaluation.metrics import (
    Unread,
    auroc,
    mean_of,
    shared_evidence,
    verdict_estimates,
)
from decomposerl.evaluation.threshold import Several, Threshold, choose_threshold, combined

MOST_CLASSES = 10
TWO_WAY: tuple[str, ...] = ("supported", "refuted")
_SHOWN = 10
_PLACES = {"Supported": 0, "Refuted": 1}
_SCORE = re.compile(r"(1-)?(.*?)(?::(max|mean|min))?")
_DECIMAL = re.compile(r"-?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?")
_CONDITION = re.compile(r"\s*([^=]*[^=!\s])\s*(!?)=(.*)", re.DOTALL)
Id = tuple[str, ...]
Rows = Sequence[Record]
_TEXT, _NUMBER, _COUNT = pl.String(), pl.Float64(), pl.Int64()
CLAIMS = pl.Schema(
    {"label": _COUNT, "verdict": _COUNT, "score": _NUMBER, "group": _TEXT, "document": _TEXT}
)
"""A row per claim. Labels and verdicts are numbers of classes, no verdict is one more; a score is
NaN where there is none, and a claim without a document shares its evidence with none."""
COLUMNS = pl.Schema(
    {"kind": _TEXT, "group": _TEXT, "metric": _TEXT}
    | {"score": _NUMBER, "low": _NUMBER, "high": _NUMBER}
    | {"claims": _COUNT, "supported": _COUNT, "without_verdict": _COUNT}
)
"""Scores are percent, null where the metric is undefined. ``kind`` distinguishes the total, groups
and the mean over groups, whatever a group is called; ``supported`` is null for other classes."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The options of ``metrics``: which column means what; a dotted name leads into objects.

    ``ids`` are pairs of a column of the predictions and one of the labels; without any, row n
    belongs to row n. ``several`` combines a claim's scores; without it a second one is an error.
    ``complement``: the score is that of Refuted. Of ``where`` (``COLUMN=VALUE``, ``COLUMN!=VALUE``)
    several values of a column are alternatives, conditions on several columns must all hold.
    ``missing`` is what becomes of rows without a partner; ``wrong`` is of labels, predictions
    without a label are left out then. ``given`` are the user's spellings.
    """

    ids: tuple[tuple[str, str], ...]
    score: str
    several: Several | None
    complement: bool
    group: tuple[str, ...]
    label: str
    verdict: str
    document: str
    where: tuple[str, ...]
    missing: Literal["error", "wrong", "skip"]
    unread: Unread
    given: Spellings | None

    @classmethod
    def of(cls, ids: str, score: str, group: str, **columns: Any) -> Self:  # noqa: ANN401 - of this type
        """With the short forms of ids, score and groups: ``A=B,C``, ``1-NAME:max``, ``A,B``.

        Raises:
            EvaluationError: a list of columns has none, or options contradict each other.
        """
        pairs = [name.partition("=") for name in _names(ids)] if ids.strip() != "-" else []
        parts: Any = _SCORE.fullmatch(score)
        declared = cls(
            ids=tuple((own.strip(), (other or own).strip()) for own, _, other in pairs),
            score=parts[2],
            several=parts[3],
            complement=bool(parts[1]),
            group=_names(group) if group else (),
            **columns,
        )
        if not declared.verdict and not declared.score:
            raise EvaluationError("name the column of the prediction: --verdict or --score")
        if declared.unread == "leave-out" and declared.missing == "wrong":
            raise EvaluationError(
                "--missing wrong counts the claims that --unread leave-out skips: use --missing "
                "skip"
            )
        name, directed = declared.score, declared.given or declared.complement
        if name and not directed and not says_polarity(name, ()):
            raise EvaluationError(
                f"{name} names something bad, and scores must be higher for supported; choose one "
                f"of\n--score 1-{name}\n--score {name} --supported supported --refuted refuted"
            )
        return declared


def _names(words: str) -> tuple[str, ...]:
    """Comma-separated names of columns, each once."""
    names = dict.fromkeys(name.strip() for name in words.split(",") if name.strip())
    if not names:
        raise EvaluationError(f"'{words}' names no column; --id - matches rows without ids")
    return tuple(names)


def measure(
    files: tuple[Rows, Rows],
    columns: Declared,
    wanted: Threshold | None = None,
    dev: Sequence[Rows] = (),
) -> tuple[pl.DataFrame, dict[str, Any], list[str]]:
    """Every metric of predictions against labels; ``dev`` are those that choose a threshold.

    Gives ``COLUMNS``, what they rest on (the threshold, claims of each label where there are more
    than Supported and Refuted, what was left out or not read), and what a reader has to know of it.

    Raises:
        EvaluationError: options contradict each other, rows do not match, or a word's or score's
            meaning is not said.
    """
    if columns.verdict and wanted:
        raise EvaluationError("a threshold needs --score; --verdict already has verdicts")
    if bool(dev) != bool(wanted and wanted.by):
        raise EvaluationError("--dev chooses --threshold f1 or balanced_accuracy: give both")
    words, left_out = match_predictions(*files, columns)
    names, claims = meanings(words, columns, files[1][0].file)
    threshold, chosen = None, ""
    if dev and wanted:
        # Conditions on the label are of the dev files, too; others tell the claims to score.
        of_label = re.compile(rf"{re.escape(columns.label)}\s*!?=")
        where = tuple(filter(of_label.match, columns.where))
        others, dev_left_out = match_predictions(dev[0], dev[1], replace(columns, where=where))
        rows = meanings(others, columns, dev[1][0].file)[1]
        scores, labels = rows["score"].to_numpy(), rows["label"].to_numpy()
        threshold, value = choose_threshold(scores, labels, wanted)
        measured = f"{wanted.by.replace('_', ' ').replace('f1', 'F1')} is {value:.2%}"
        chosen = f", chosen on {others.height:,} others where {measured}"
        left_out |= {f"{what} (dev files)": count for what, count in dev_left_out.items()}
    elif not columns.verdict:
        threshold = wanted or Threshold.usual(claims["score"].to_numpy(), columns.score)
    notes = [f"{count:,} {what}" for what, count in left_out.items()]
    if threshold is not None:
        claims = claims.with_columns(verdict=threshold.verdicts(claims["score"].to_numpy()))
        sign = ">=" if threshold.inclusive else ">"
        notes.insert(0, f"supported is a score {sign} {threshold.value!r}{chosen}")
    unread = words["verdict"].filter(claims["verdict"] == len(names)) if columns.verdict else ()
    odd = Counter(word or "nothing" for word in unread)
    if odd:
        shown = [f"'{word}' ({count:,})" for word, count in odd.items()]
        shown[_SHOWN // 2 :] = ["…"] * (len(shown) > _SHOWN // 2)
        notes.append(f"predictions that were not read: {', '.join(shown)}")
    rests_on = {
        "threshold": None if threshold is None else threshold.value,
        "inclusive": threshold is not None and threshold.inclusive,
        "left_out": left_out,
        "unread": columns.unread,
        "unread_predictions": odd,
        "classes": {} if names == TWO_WAY else dict(Counter(words["label"])),
    }
    return score_claims(claims, names, columns.unread), rests_on, notes


def score_claims(
    claims: pl.DataFrame, names: tuple[str, ...] = TWO_WAY, unread: Unread = "opposite"
) -> pl.DataFrame:
    """Every metric of ``CLAIMS`` as ``COLUMNS``: all claims, each group, the mean of groups.

    ``unread`` is what a claim without a verdict counts as; the column ``without_verdict`` counts
    them, and ``claims`` excludes them only if they are left out. For AUROC a claim without a score
    ranks last of its label if it counts as the opposite, else it is left out. Of more than two
    classes there are accuracy, macro-F1 and recalls.
    """
    two_way, called = names == TWO_WAY, [name.replace(" ", "_") for name in names]
    parts = claims.partition_by("group", maintain_order=True)
    groups = [("group", part["group"][0], part) for part in parts] if len(parts) > 1 else []
    scored = []
    for kind, group, every in [("total", "all", claims), *groups]:
        read = every["verdict"] != len(names)
        own = every.filter(read) if unread == "leave-out" else every
        labels, verdicts, scores = (own[name].to_numpy() for name in ("label", "verdict", "score"))
        evidence = shared_evidence(own["document"].to_list())
        counts_as = unread if two_way else "class"
        metrics = verdict_estimates(labels, verdicts, evidence, called, counts_as)
        if not two_way:
            shown = ("accuracy", "macro_f1", *(f"recall_{name}" for name in called))
            metrics = {metric: metrics[metric] for metric in shown}
        if unread == "opposite" and not np.isnan(scores).all():
            scores = np.where(np.isnan(scores), np.where(labels == 0, -np.inf, np.inf), scores)
        known = ~np.isnan(scores)
        if two_way and known.any():
            metrics["auroc"] = auroc(scores[known], labels[known] == 0, evidence[known])
        supported = int((labels == 0).sum()) if two_way else None
        scored.append((kind, group, metrics, (len(labels), supported, int((~read).sum()))))
    if groups:
        _, _, metrics, sizes = scored[0]
        of_groups = [estimates for _, _, estimates, _ in scored[1:]]
        shared = [name for name in metrics if all(name in estimates for estimates in of_groups)]
        means = {name: mean_of([estimates[name] for estimates in of_groups]) for name in shared}
        scored.append(("mean", "mean of groups", means, sizes))
    rows = [
        (kind, group, metric, *estimate[:3], *sizes)
        for kind, group, estimates, sizes in scored
        for metric, estimate in estimates.items()
    ]
    percent = pl.col("score", "low", "high").fill_nan(None) * 100
    return pl.DataFrame(rows, COLUMNS, orient="row").with_columns(percent)


def match_predictions(
    predictions: Rows, labels: Rows, columns: Declared
) -> tuple[pl.DataFrame, Counter[str]]:
    """The claims in the order of the labels, and how many rows of each kind were left out.

    The claims are as ``CLAIMS``, but labels and verdicts are words as ``cells.normal`` spells them,
    no verdict is "".

    Raises:
        EvaluationError: a row does not fit, a condition is none, or no label is left.
    """
    if not columns.ids and len(predictions) != len(labels):
        raise EvaluationError(
            f"rows cannot be matched by position: {predictions[0].file} has {len(predictions):,}, "
            f"{labels[0].file} has {len(labels):,}"
        )
    own, others = [tuple(pair[side] for pair in columns.ids) for side in (0, 1)]
    counts = rows_that_count(labels, columns.where)
    every = counts if predictions is labels else [True] * len(predictions)
    several, strict = columns.several is not None, columns.missing == "error"
    errors = list[CellError]()
    chunks = several and not columns.verdict
    said = _by_id(predictions, every, own, partial(_prediction, columns), errors, repeats=chunks)
    gold = _by_id(labels, counts, others, partial(_label, columns), errors, repeats=several)
    left_out = Counter({"labels that --where leaves out": counts.count(False)})
    claims: list[tuple[object, ...]] = []
    for name, rows in ((name, rows) for name, rows in gold.items() if rows):
        row, (label, group, document) = rows[0]
        torn = f"the same id stands in row {row.row} already, with another label"
        errors += [CellError(other, others, torn) for other, (word, *_) in rows if word != label]
        if name not in said:
            wrong = ", counted as wrong" if columns.missing == "wrong" else ""
            left_out[f"labels without a prediction{wrong}"] += 1
            errors += (
                [CellError(row, others, f"{_shown(name)} has no prediction")] if strict else []
            )
        if name in said or columns.missing == "wrong":
            own_rows = [read for _, read in said.get(name, ())]
            scores = [score for _, some in own_rows for score in some]
            score = combined(scores, columns.several or "max") if scores else math.nan
            claims.append((label, own_rows[0][0] if own_rows else "", score, group, document))
    # A prediction of a label that does not count is left out with it.
    extra = {name: rows[0][0] for name, rows in said.items() if rows and name not in gold}
    left_out["predictions without a label"] = len(extra)
    if strict:
        errors += [
            CellError(row, own, f"{_shown(name)} has no label") for name, row in extra.items()
        ]
    if errors:
        raise EvaluationError("\n".join(format_errors(errors)))
    if not claims:
        raise EvaluationError(f"{labels[0].file}: no label is left to score predictions against")
    words_too = CLAIMS | {"label": _TEXT, "verdict": _TEXT}
    return pl.DataFrame(claims, words_too, orient="row"), +left_out


def meanings(
    words: pl.DataFrame, columns: Declared, file: str
) -> tuple[tuple[str, ...], pl.DataFrame]:
    """The classes, and the claims of ``match_predictions``, whose labels are in ``file``.

    The classes are ``TWO_WAY``, or the labels' words where these are more than two and not all
    known. A verdict of no class has the number of classes.

    Raises:
        EvaluationError: a label has no known meaning, nothing says which word means Supported, or
            no prediction can be read.
    """
    labels, said = Counter(words["label"]), Counter(words["verdict"])
    spellings = columns.given or Spellings.of()
    sides = {word: spellings.read(word) for word in (*labels, *said)}
    odd = [word for word in labels if sides[word] is None]
    names, place = TWO_WAY, {word: _PLACES[side] for word, side in sides.items() if side}
    if odd and not columns.given and columns.verdict and len(TWO_WAY) < len(labels) <= MOST_CLASSES:
        names = tuple(labels)
        place = {word: number for number, word in enumerate(names)}
    elif odd and (columns.given or len(labels) != len(TWO_WAY)):
        raise EvaluationError(
            f"{file}, field {columns.label}: {_counted(labels, odd)} means neither supported nor "
            f"refuted; say which with --supported, --refuted, or --where '{columns.label}!=…'"
        )
    elif not columns.given:
        known = [word for word in said if sides[word]]
        clear = says_polarity(columns.label, labels) and not odd
        unclear = {} if clear else dict(labels)
        # Words that a clear column of labels explains mean the same in that of predictions.
        unexplained = [word for word in known if not (clear and word in labels)]
        if columns.verdict and not says_polarity(columns.verdict, unexplained):
            unclear = {word: said[word] for word in known if word not in unclear} | unclear
        if unclear:
            fields = " and ".join(filter(None, dict.fromkeys((columns.label, columns.verdict))))
            raise EvaluationError(
                f"{fields}: nothing says which of {_counted(unclear, unclear)} means supported; "
                "say so with --supported WORD and --refuted WORD, one for each word of both"
            )
    both, none = pl.col("label", "verdict"), len(names)
    claims = words.with_columns(both.replace_strict(place, default=none, return_dtype=_COUNT))
    unread = claims["verdict"] == none if columns.verdict else claims["score"].is_nan()
    if unread.all():
        name = columns.verdict or columns.score
        raise EvaluationError(f"no prediction has a value in {name} that could be read")
    return names, claims


def _counted(words: Mapping[str, int], shown: Iterable[str]) -> str:
    """Words with the number of their rows."""
    return ", ".join(f"'{excerpt(word)}' (rows: {words[word]:,})" for word in shown)


def rows_that_count(records: Rows, where: Iterable[str]) -> list[bool]:
    """Of each row whether ``Declared.where`` holds.

    Raises:
        EvaluationError: a condition has another form, no row has its column, or no row is left.
    """
    wanted: dict[tuple[str, bool], set[str]] = {}
    for condition in where:
        match = _CONDITION.fullmatch(condition)
        if match is None:
            raise EvaluationError(
                f"--where is '{condition}'; it must be COLUMN=VALUE or COLUMN!=VALUE"
            )
        wanted.setdefault((match[1], bool(match[2])), set()).add(_plain(match[3]))
    counts, shown = [True] * len(records), list[str]()
    for (column, unequal), values in wanted.items():
        cells, absent = list[object](), list[CellError]()
        for row in records:  # a column may be absent from some rows, but not from all
            try:
                cells.append(cell_of(row, column))
            except CellError as error:
                cells.append(None)
                absent.append(error)
        if absent and len(absent) == len(records):
            raise EvaluationError(str(absent[0]))
        words = [*map(_plain, cells)]
        counts = [one and (word in values) != unequal
                  for one, word in zip(counts, words, strict=True)]  # fmt: skip
        kinds = [*dict.fromkeys(words)][:_SHOWN]
        shown.append(f"{column} holds {', '.join(map(excerpt, kinds))}")
    if records and not any(counts):
        raise EvaluationError(f"{records[0].file}: --where leaves no row; {'; '.join(shown)}")
    return counts


def _plain(value: object) -> str:
    """A cell, or the value of a condition: 1.0 is 1, 0.50 is 0.5, TRUE is true, nothing is null."""
    text = "" if value is None else str(value).strip()
    if _DECIMAL.fullmatch(text):
        text = repr(float(text)).removesuffix(".0")
    return text.lower() if text.lower() in {"true", "false"} else text or "null"


def _by_id(
    rows: Rows,
    counts: Iterable[bool],
    ids: Id,
    read: Callable[[Record], Any],
    errors: list[CellError],
    *,
    repeats: bool,
) -> dict[Id, list[tuple[Record, Any]]]:
    """The rows of each id that count, with what they hold; one that cannot be read is an error."""
    by_id: dict[Id, list[tuple[Record, Any]]] = {}
    for number, (row, counting) in enumerate(zip(rows, counts, strict=True), start=1):
        try:
            name = tuple(identifier_of(row, column) for column in ids) or (str(number),)
            held = by_id.setdefault(name, [])
            if counting and held and not repeats:
                again = f"the same id stands in row {held[0][0].row} already"
                errors.append(CellError(row, ids, again))
            elif counting:
                held.append((row, read(row)))
        except CellError as error:
            errors += [error] if counting else []
    return by_id


def _label(columns: Declared, row: Record) -> tuple[str, str, str | None]:
    """A row's label, group and document."""
    label = normal(cell_of(row, columns.label))
    if not label:
        raise CellError(row, columns.label, "holds no label")
    words = []
    for column in columns.group:
        cell = cell_of(row, column)
        words.append(str(cell).lower() if isinstance(cell, bool) else identifier_of(row, column))
    if len(words) > 1:  # a slash within a value is no border between two
        words = [word.replace("\\", "\\\\").replace("/", "\\/") for word in words]
    document = cell_of(row, columns.document) if columns.document else None
    # Without one its evidence is shared with no other claim.
    known = document is not None and str(document).strip()
    return label, " / ".join(words), identifier_of(row, columns.document) if known else None


def _prediction(columns: Declared, row: Record) -> tuple[str, list[float]]:
    """A row's verdict, and its scores, higher for Supported."""
    word = normal(cell_of(row, columns.verdict)) if columns.verdict else ""
    cell = cell_of(row, columns.score) if columns.score else []
    cells = cell if isinstance(cell, list) else [cell]
    if len(cells) > 1 and columns.several is None:
        reason = f"holds {len(cells)} scores; say --score {columns.score}:max, :mean or :min"
        raise CellError(row, columns.score, reason)
    scores = []
    for value in cells:
        score = finite_number(value)
        if score is None and value not in (None, ""):
            raise CellError(row, columns.score, f"{excerpt(repr(value))} is no number")
        scores += [] if score is None else [1 - score if columns.complement else score]
    return word, scores


def _shown(name: Id) -> str:
    return f"'{excerpt(' / '.join(name))}'"
