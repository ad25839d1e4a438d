"""How many questions the rule decomposer, and entities the rule recogniser, find per claim.

``python -m studies.count_questions --corpora /path/to/corpora [--report PAGE]``
prints one row per corpus and writes it between the markers of the report file.
"""

import argparse
from pathlib import Path

import numpy as np

from perf.pages import write_between_markers
from resources.decomposer.rule_engine import questions_of
from resources.entities.rule_engine import RuleEntities
from studies.verifier_data import EVALUATED, evaluation_claims

HEAD = "| corpus | mean questions | one question | two or more entities |"


def main() -> None:
    """Count, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path, required=True, help="folder of real corpora")
    parser.add_argument("--report", type=Path, help="Markdown file with the two markers")
    options = parser.parse_args()
    lines = [HEAD, "| --- | ---: | ---: | ---: |"]
    recogniser = RuleEntities()
    for name in EVALUATED:
        claims = [claim for _, claim in evaluation_claims(options.corpora, name).pairs]
        counts = np.array([len(questions_of(claim)) for claim in claims])
        cells = f"{counts.mean():.2f} | {np.mean(counts == 1):.2f}"
        named = np.mean([len(found) > 1 for found in recogniser.entities(claims)])
        lines.append(f"| {name} | {cells} | {named:.2f} |")
    print("\n".join(lines))
    if options.report:
        write_between_markers(options.report, "decomposer", "\n".join(lines))


if __name__ == "__main__":
    main()
