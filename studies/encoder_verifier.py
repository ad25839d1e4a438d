"""Can the tiny judge's encoder replace the lexical verifier? One variant a run, hours on one core.

``python -m studies.encoder_verifier --corpora FOLDER --work FOLDER [--report PAGE]``
trains an adapter for each fold of ``studies.verifier_data``, scores the corpora that it never saw,
adds the variant to the results file, and writes all variants between the markers of the page.
A fold that is in the work folder, made with the same options, encoder and rules, is not trained
again.

The trainer, its settings and the choice of the evidence sentences that fit are the tiny judge's.
The lexical verifier is fitted again for each fold, on the same claims. Calibration and the stack of
both are fitted on documents held out of the training corpora.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.judge.call import JudgeCall
from decomposerl.judge.distillation import HeadSettings, head_examples
from perf.pages import write_between_markers
from resources.decomposer.rule_engine import questions_of
from resources.judge.rule_judge import RuleJudge, answering
from resources.judge.tiny_judge import MINILM, RULES, Encoder, length_batches
from resources.store.parquet import write_parquet
from resources.training.judge_heads import HeadsRun, Note, fit_head, head_model
from resources.verifier.evidence_match import feature_matrix
from resources.verifier.lexical import VerifierWeights
from studies.encoder_report import SCORED, results_of, section
from studies.verifier_data import (
    EVALUATED,
    FOLDS,
    HEAD,
    MADE,
    Claims,
    Examples,
    FoldSettings,
    documents_of,
    drawn_claims,
    evaluation_claims,
    fold_claims,
    fold_examples,
    fold_of,
    made_claims,
)
from studies.verifier_model import fit

RESULTS = Path(__file__).resolve().parents[1] / "docs/results/encoder_verifier.json"
_PASS_TOKENS = 8_192
_SCORES, _RECORD = "scores.parquet", "fold.json"
_TRACES = 12
"""Held-back claims of a fold that are judged through a trace."""
_MADE = 700
_TIMED = 200
Pairs = Sequence[tuple[str, str]]
"""Evidence and claim."""
Floats = NDArray[np.float64]


def main() -> None:
    """Train and score the folds that are missing, then write results and page."""
    chosen = options(sys.argv[1:])
    run = _run(chosen)
    claims = {name: evaluation_claims(chosen.corpora, name) for name in EVALUATED}
    for fold in chosen.folds:
        if _record(run.folder / fold).get("settings") != _facts(chosen, run):
            print(f"{fold}: training", flush=True)
            _make(run, fold, claims, chosen)
    frame = pl.concat(pl.read_parquet(run.folder / fold / _SCORES) for fold in chosen.folds)
    results = json.loads(chosen.results.read_text("utf-8")) if chosen.results.is_file() else {}
    facts = {fold: _record(run.folder / fold) for fold in chosen.folds}
    results[chosen.name] = {"folds": facts, **results_of(frame)}
    chosen.results.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    text = section(results)
    print(text)
    if chosen.report:
        write_between_markers(chosen.report, "encoder verifier", text)


def fold_scores(
    run: HeadsRun, fold: str, claims: Mapping[str, Claims], settings: FoldSettings, note: Note
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Train one fold; ``SCORED`` of its corpora and of held-out documents, and facts of the run."""
    examples = fold_examples(fold_claims(claims, fold, settings), settings)
    write_parquet(examples, run.examples)
    chosen = head_examples(examples, HEAD, run.settings.least)
    model = run.shared.model() if settings.all_layers else head_model(run)
    learnt = fit_head(run, model, HEAD, chosen, note)
    if not settings.all_layers:
        model.save_pretrained(run.folder, save_embedding_layers=False)
    own = examples.filter(~pl.col("claim_id").str.contains(f"{MADE} "))
    pair = VerifierPair(run.shared, model, lexical_weights(own.filter(split="train")))
    inside = _as_claims("", own.filter(split="test"))
    facts = {**learnt, "train": chosen.train.height, **pair.speed(inside)}
    mine = {
        name: drawn_claims(claims[name], settings.scored)
        for name in claims
        if fold_of(name) == fold
    }
    frames = [pair.scored(one, name, "left out") for name, one in mine.items()]
    frames.append(pair.scored(inside, fold, "held out"))
    first = next(name for name in FOLDS[fold] if name in mine)
    return pl.concat([*frames, pair.traced(mine[first], first)]), facts


def lexical_weights(train: pl.DataFrame) -> VerifierWeights:
    """The lexical verifier fitted as shipped, on these rows of ``fold_examples``."""
    training = {}
    named = train.with_columns(corpus=pl.col("claim_id").str.replace(r" \d+$", ""))
    for (name,), rows in named.group_by("corpus", maintain_order=True):
        own = _as_claims(str(name), rows)
        parts = (own, made_claims(own, _MADE))
        training[str(name)] = [Examples(one, feature_matrix(one.pairs)) for one in parts]
    return fit(training)


def log_odds(encoder: Encoder, model: Any, pairs: Pairs) -> Floats:  # noqa: ANN401 - peft's
    """Log odds of "supported", shape (n,), in bfloat16 on the processor."""
    import torch

    rows, _ = encoder.encoded([(claim, evidence) for evidence, claim in pairs])
    odds = np.zeros(len(rows))
    model.eval()
    for batch in length_batches(rows, _PASS_TOKENS):
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            logits = model(**encoder.padded([rows[row] for row in batch])).logits.float()
        odds[batch] = (logits[:, 1] - logits[:, 0]).numpy()
    return odds


@dataclass(frozen=True)
class VerifierPair:
    """A trained encoder beside the lexical verifier that was fitted on the same claims."""

    encoder: Encoder
    model: Any
    weights: VerifierWeights

    def scored(self, claims: Claims, corpus: str, part: str) -> pl.DataFrame:
        """``SCORED`` of these claims."""
        features = feature_matrix(claims.pairs)
        columns = {
            "corpus": [corpus] * len(claims.pairs),
            "part": [part] * len(claims.pairs),
            "document": documents_of(claims.pairs),
            "supported": claims.supported == 1.0,
            "encoder": log_odds(self.encoder, self.model, claims.pairs),
            "lexical": _logit(self.weights.probability(features)),
            "overlap": features[:, 0],
            "ruled": [""] * len(claims.pairs),
        }
        return pl.DataFrame(columns, schema=SCORED)

    def traced(self, claims: Claims, corpus: str) -> pl.DataFrame:
        """``SCORED`` of a few claims as a judge of coverage sees them: answers, no document.

        The answers are those of ``studies.judge_report``: quotes that the rules find for the
        questions of the rule decomposer. ``ruled`` is the rule judge's verdict.
        """
        few = drawn_claims(claims, _TRACES)
        answers = [_quotes(*pair) for pair in few.pairs]
        read = [(" ".join(said), pair[1]) for said, pair in zip(answers, few.pairs, strict=True)]
        calls = [
            JudgeCall("coverage", claim=claim, answers=said)
            for said, (_, claim) in zip(answers, read, strict=True)
        ]
        ruled = [ruling.text or "" for ruling in RuleJudge().judge(calls)]
        frame = self.scored(Claims(corpus, read, few.supported), corpus, "traces")
        return frame.with_columns(ruled=pl.Series(ruled, dtype=pl.String()))

    def speed(self, claims: Claims) -> dict[str, float]:
        """Pairs per core-second of both, on claims that neither has seen."""
        pairs = claims.pairs[:_TIMED]
        marks = [time.process_time()]
        log_odds(self.encoder, self.model, pairs)
        marks.append(time.process_time())
        self.weights.probability(feature_matrix(pairs))
        marks.append(time.process_time())
        names = ("encoder_pairs_s", "lexical_pairs_s")
        return {
            name: round(len(pairs) / max(spent, 1e-9), 1)
            for name, spent in zip(names, np.diff(marks).tolist(), strict=True)
        }


def _make(
    run: HeadsRun, fold: str, claims: Mapping[str, Claims], chosen: argparse.Namespace
) -> None:
    started = time.process_time()
    settings = FoldSettings(**{one.name: getattr(chosen, one.name) for one in fields(FoldSettings)})

    def note(text: str) -> None:
        print(f"{fold}: {text}, {time.process_time() - started:,.0f} core-seconds", flush=True)

    folder = run.folder / fold
    folder.mkdir(parents=True, exist_ok=True)
    mine = run.model_copy(update={"folder": folder, "examples": folder / "examples.parquet"})
    frame, facts = fold_scores(mine, fold, claims, settings, note)
    write_parquet(frame, folder / _SCORES)
    spent = round(time.process_time() - started)
    record = {**facts, "core_seconds": spent, "settings": _facts(chosen, run)}
    (folder / _RECORD).write_text(json.dumps(record), "utf-8")


def _record(folder: Path) -> dict[str, Any]:
    """What a finished fold says of itself; empty where it is not finished."""
    path = folder / _RECORD
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def _as_claims(name: str, rows: pl.DataFrame) -> Claims:
    pairs = [(context, text) for text, context in rows.select("text", "context").rows()]
    return Claims(name, pairs, (rows["label"] == "1").cast(pl.Float64).to_numpy())


def _quotes(evidence: str, claim: str) -> tuple[str, ...]:
    quoted = (answering(evidence, question) for question in questions_of(claim))
    return tuple(" ".join(one) for one in quoted if one)


def _logit(chances: Floats) -> Floats:
    inside = np.clip(chances, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _run(chosen: argparse.Namespace) -> HeadsRun:
    settings = HeadSettings(
        rank=chosen.rank,
        alpha=2 * chosen.rank,
        learning_rate=chosen.learning_rate,
        epochs=chosen.epochs,
        most_tokens=chosen.tokens,
        batch=chosen.batch,
    )
    folder = chosen.work / chosen.name
    return HeadsRun(
        examples=folder / "examples.parquet",
        folder=folder,
        encoder=chosen.encoder,
        settings=settings,
        dtype="bfloat16",
    )


def _facts(chosen: argparse.Namespace, run: HeadsRun) -> dict[str, object]:
    paths = ("corpora", "work", "results", "report", "name", "folds")
    own = {name: value for name, value in vars(chosen).items() if name not in paths}
    return own | {"identity": run.shared.identity, "rules": RULES}


def options(words: Sequence[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path, required=True, help="folder of real corpora")
    parser.add_argument("--work", type=Path, required=True, help="folder of adapters and scores")
    parser.add_argument("--name", default="adapter", help="of the variant in results and table")
    parser.add_argument("--encoder", default=MINILM, help="minilm, a hub model or a folder")
    parser.add_argument("--rank", type=int, default=4, help="of the adapters")
    parser.add_argument("--all-layers", action="store_true", help="train the encoder itself")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of AdamW")
    parser.add_argument("--epochs", type=int, default=3, help="most epochs")
    parser.add_argument("--tokens", type=int, default=64, help="read of a pair")
    parser.add_argument("--batch", type=int, default=16, help="pairs a step")
    parser.add_argument("--per-corpus", type=int, default=1_600, help="claims of one at most")
    parser.add_argument("--made", type=int, default=0, help="made claims of each corpus")
    parser.add_argument("--scored", type=int, default=5_000, help="claims of a left-out corpus")
    parser.add_argument("--held-out", type=float, default=0.15, help="share of documents")
    parser.add_argument("--dev", type=float, default=0.05, help="the same for early stopping")
    parser.add_argument("--folds", nargs="+", default=list(FOLDS), choices=list(FOLDS))
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON of all variants")
    parser.add_argument("--report", type=Path, help="Markdown file with the two markers")
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
