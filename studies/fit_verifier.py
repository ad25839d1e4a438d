"""Fit the embedded verifier on real corpora and report how well it does.

``python -m studies.fit_verifier --corpora /path/to/corpora [--report PAGE]``
writes ``resources/verifier/lexical_verifier.json`` and, between the markers of the report
file, the tables of its quality. The same corpora give the same weights.

Fitted on the training side of ``FITTED_ON`` alone (the share that the hold-out split keeps
for benchmarks is not seen), with labelled claims and claims made from their evidence.
Every corpus in the report is scored by weights refitted without it.

The features, the ridge, the weight of made claims and the two gates were chosen while looking
at this report, so its mean is somewhat optimistic; the weights are not.
"""

import argparse
from pathlib import Path

from perf.pages import write_between_markers
from resources.verifier.evidence_match import feature_matrix
from resources.verifier.lexical import WEIGHTS_FILE, VerifierWeights
from studies.verifier_data import EVALUATED, Claims, Examples, evaluation_claims, training_claims
from studies.verifier_model import fit
from studies.verifier_report import Scores, report_tables

FITTED_ON = ("hover", "foolmetwice", "feverous", "scifact")
"""Two sets on Wikipedia introductions, one on retrieved sentences, one on abstracts."""


def main() -> None:
    """Fit, save, score each corpus by weights that never saw it, and write the report."""
    options = _options()
    training = {
        name: [_examples(part) for part in training_claims(options.corpora, name)]
        for name in FITTED_ON
    }
    weights = fit(training)
    weights.save(options.weights)
    print(f"{options.weights}: {weights.fingerprint}")
    cache: dict[str | None, VerifierWeights] = {None: weights}
    scores: list[Scores] = []
    for name, kin in EVALUATED.items():
        left_out = kin if kin in FITTED_ON else None
        if left_out not in cache:
            cache[left_out] = fit({k: v for k, v in training.items() if k != left_out})
        scored = _examples(evaluation_claims(options.corpora, name))
        scores.append(Scores(name, scored, cache[left_out].probability(scored.features)))
    made = [part for parts in training.values() for part in parts if part.claims.made]
    tables = report_tables(scores, made, weights)
    print(tables)
    if options.report:
        write_between_markers(options.report, "verifier", tables)


def _examples(claims: Claims) -> Examples:
    return Examples(claims, feature_matrix(claims.pairs))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path, required=True, help="folder of real corpora")
    parser.add_argument("--weights", type=Path, default=WEIGHTS_FILE, help="JSON to write")
    parser.add_argument("--report", type=Path, help="Markdown file with the two markers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
