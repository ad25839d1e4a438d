"""What the encoder verifier's scores show: results by corpus, and the page's section.

Takes ``SCORED`` rows, gives ROC AUC beside the lexical verifier and plain overlap with intervals
over documents, calibration errors with temperatures fitted on held-out documents of the training
corpora, a logistic stack of both verifiers, and the agreement of judges built on them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.evaluation.calibration import fit_calibration
from decomposerl.evaluation.metrics import Estimate, auroc, calibration_error, shared_evidence
from decomposerl.reports.tables import markdown_table
from studies.verifier_data import FOLDS, TRAINED, fold_of

SCORED = {
    "corpus": pl.String,
    "part": pl.String,
    "document": pl.Int64,
    "supported": pl.Boolean,
    "encoder": pl.Float64,
    "lexical": pl.Float64,
    "overlap": pl.Float64,
    "ruled": pl.String,
}
"""``part`` is ``left out`` (a corpus that the adapter never saw), ``held out`` (documents of its
training corpora; ``corpus`` is then the fold) or ``traces``. ``encoder`` and ``lexical`` are log
odds of "supported"; ``ruled`` is the rule judge's verdict on a trace."""
VERIFIERS = ("encoder", "stack", "lexical", "overlap")
_STACKED = ("encoder", "lexical")
_AGAIN = "wice (middle_is_refuted)"  # the claims of another row under the other label rule
_NORMAL = 1.96  # a corpus has hundreds of documents
_LEADS = {"interval": ("encoder", ""), "lead": ("encoder", "lexical")}
_LEADS |= {"stack_lead": ("stack", "lexical")}
"""An AUC, or one verifier's less another's."""
_MODEL, _PROMPT = "encoder", "pair"
Floats = NDArray[np.float64]


def results_of(frame: pl.DataFrame) -> dict[str, Any]:
    """All that the page says of one variant, plain numbers by name."""
    rows = _with_stack(frame)
    left_out = rows.filter(part="left out")
    corpora = {
        str(name): _corpus(part)
        for (name,), part in left_out.group_by("corpus", maintain_order=True)
    }
    leads = {name: one.pop("leads") for name, one in corpora.items()}
    once = [name for name in corpora if name != _AGAIN]
    trained = [name for name in corpora if name in TRAINED]
    return {
        "corpora": corpora,
        "means": {
            "all corpora, WiCE once": _mean(corpora, leads, once),
            "corpora with a licence to train": _mean(corpora, leads, trained),
        },
        "held_out": {
            str(fold): _aucs(part)
            for (fold,), part in rows.filter(part="held out").group_by("corpus")
        },
        "traces": _traces(rows.filter(part="traces")),
    }


def section(results: Mapping[str, Any]) -> str:
    """The tables of all variants, the best by mean AUC first."""
    order = sorted(results, key=lambda name: -_main(results[name])["encoder"])
    named = [(name, results[name]) for name in order]
    title = f"By corpus, `{order[0]}`:"
    return "\n\n".join(
        [_aucs_table(named), _uses_table(named), title, _by_corpus(results[order[0]])]
    )


def _with_stack(frame: pl.DataFrame) -> pl.DataFrame:
    """With ``stack``, ``chance_raw`` and ``chance_temperature``, fitted fold by fold."""
    held_out = frame.filter(part="held out")
    folds = [fold for fold in FOLDS if fold in held_out["corpus"]]
    return pl.concat(_with_fold_fits(frame, fold) for fold in folds)


def _with_fold_fits(frame: pl.DataFrame, fold: str) -> pl.DataFrame:
    from sklearn.linear_model import LogisticRegression

    inside = frame.filter(corpus=fold, part="held out")
    others = frame.filter(pl.col("part") != "held out")
    mine = others.filter(pl.Series([fold_of(name) == fold for name in others["corpus"]]))
    rows = pl.concat([inside, mine])
    both = LogisticRegression()
    both.fit(inside.select(_STACKED).to_numpy(), inside["supported"].to_numpy())
    stacked = both.decision_function(rows.select(_STACKED).to_numpy())
    raw = _chance(rows["encoder"].to_numpy())
    fitted, _ = fit_calibration(
        _chance(inside["encoder"].to_numpy()),
        inside["supported"].to_numpy(),
        inside["document"].to_numpy(),
        model=_MODEL,
        prompt_hash=_PROMPT,
        fitted_on="held-out documents",
    )
    return rows.with_columns(
        stack=pl.Series(stacked),
        chance_raw=pl.Series(raw),
        chance_temperature=pl.Series(fitted.apply(raw)),
    )


def _corpus(rows: pl.DataFrame) -> dict[str, Any]:
    """One corpus: AUC of each verifier, the encoder's and its lead's interval, ECE."""
    truth = rows["supported"].to_numpy()
    evidence = shared_evidence(rows["document"].to_list())
    known = {one: auroc(rows[one].to_numpy(), truth, evidence) for one in VERIFIERS}
    known[""] = Estimate(0.0, spread=np.zeros(1))
    leads = {}
    for what, (one, other) in _LEADS.items():
        spread = known[one].spread - known[other].spread
        leads[what] = known[one].value - known[other].value, float(spread @ spread)
    errors = {
        one.removeprefix("chance_"): round(calibration_error(rows[one].to_numpy(), truth), 4)
        for one in rows.columns
        if one.startswith("chance_")
    }
    lexical = _chance(rows["lexical"].to_numpy())
    return {
        "claims": rows.height,
        **_aucs(rows),
        **_intervals(leads),
        "ece": {**errors, "lexical": round(calibration_error(lexical, truth), 4)},
        "leads": leads,
    }


def _aucs(rows: pl.DataFrame) -> dict[str, float]:
    truth = rows["supported"].to_numpy()
    alone = np.arange(rows.height)
    return {one: round(auroc(rows[one].to_numpy(), truth, alone).value, 4) for one in VERIFIERS}


def _intervals(leads: Mapping[str, tuple[float, float]]) -> dict[str, list[float]]:
    """Intervals of values with their variances."""
    return {
        what: [round(value + side * _NORMAL * variance**0.5, 4) for side in (-1, 1)]
        for what, (value, variance) in leads.items()
    }


def _mean(
    corpora: Mapping[str, Any], leads: Mapping[str, Any], names: Sequence[str]
) -> dict[str, Any]:
    together = {}
    for what in _LEADS:
        values, variances = zip(*(leads[name][what] for name in names), strict=True)
        together[what] = float(np.mean(values)), sum(variances) / len(names) ** 2
    means = {
        one: round(float(np.mean([corpora[name][one] for name in names])), 4) for one in VERIFIERS
    }
    kinds = corpora[names[0]]["ece"]
    ece = {
        kind: round(float(np.mean([corpora[name]["ece"][kind] for name in names])), 4)
        for kind in kinds
    }
    return {**means, **_intervals(together), "ece": ece, "corpora": len(names)}


def _traces(rows: pl.DataFrame) -> dict[str, float]:
    """Share of held-back claims whose verdict on a trace is the gold label."""
    gold = rows["supported"].to_numpy()
    words = np.where(gold, "Supported", "Refuted")
    shares = {
        "encoder": (rows["chance_temperature"].to_numpy() > 0.5) == gold,  # noqa: PLR2004 - even odds
        "lexical": (rows["lexical"].to_numpy() > 0) == gold,
        "rules": rows["ruled"].to_numpy() == words,
        "always Supported": gold,
    }
    return {"claims": rows.height} | {
        name: round(float(np.mean(right)), 4) for name, right in shares.items()
    }


def _main(result: Mapping[str, Any]) -> Mapping[str, Any]:
    means: Mapping[str, Any] = next(iter(result["means"].values()))
    return means


def _aucs_table(named: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    head = (
        "variant",
        "trained on",
        "AUC",
        "95 %",
        "lead",
        "stack",
        "lexical",
        "overlap",
        "held out",
    )
    rows = []
    for name, one in named:
        mean = _main(one)
        row = (
            name,
            f"{_over_folds(one['folds'], 'train'):,.0f}",
            f"{mean['encoder']:.3f}",
            _between(mean["interval"]),
            _between(mean["lead"], signed=True),
            *(f"{mean[verifier]:.3f}" for verifier in ("stack", "lexical", "overlap")),
            f"{_over_folds(one['held_out'], 'encoder'):.3f}",
        )
        rows.append(row)
    return markdown_table(head, rows)


def _uses_table(named: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    errors = ("raw", "temperature", "lexical")
    judges = ("encoder", "lexical", "rules", "always Supported")
    speeds = ("encoder_pairs_s", "lexical_pairs_s")
    head = ("variant", *(f"ECE {one}" for one in errors), "pairs/s", "lexical pairs/s")
    rows = [
        (
            name,
            *(_number(_main(one)["ece"].get(kind)) for kind in errors),
            *(f"{_over_folds(one['folds'], kind):,.0f}" for kind in speeds),
            *(f"{one['traces'][judge]:.2f}" for judge in judges),
        )
        for name, one in named
    ]
    return markdown_table((*head, *(f"traces: {one}" for one in judges)), rows)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _over_folds(folds: Mapping[str, Mapping[str, Any]], what: str) -> float:
    return float(np.mean([one[what] for one in folds.values()]))


def _by_corpus(result: Mapping[str, Any]) -> str:
    head = (
        "corpus",
        "claims",
        "AUC",
        "95 %",
        "lead",
        "stack",
        "lexical",
        "overlap",
        "ECE",
    )
    rows = [
        (
            name,
            f"{one['claims']:,}" if "claims" in one else "",
            f"{one['encoder']:.3f}",
            _between(one["interval"]),
            _between(one["lead"], signed=True),
            *(f"{one[verifier]:.3f}" for verifier in ("stack", "lexical", "overlap")),
            f"{one['ece']['temperature']:.3f}",
        )
        for name, one in (*result["corpora"].items(), *result["means"].items())
    ]
    return markdown_table(head, rows)


def _between(bounds: Sequence[float], *, signed: bool = False) -> str:
    low, high = (f"{one:+.3f}" if signed else f"{one:.3f}" for one in bounds)
    return f"{low} to {high}"


def _chance(log_odds: Floats) -> Floats:
    return np.asarray((1.0 + np.tanh(log_odds / 2)) / 2)
