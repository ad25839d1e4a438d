"""Invented claims with three labels: a corpus on which the tiny policy can learn the third verdict.

``python -m studies.three_way_corpus FOLDER`` writes ``FOLDER/invented_three_way`` with a
``source.toml``, training claims and test claims. A claim of the middle class stands over the pages
of another claim, which say nothing about it. (In the bundled sample a middle label is only a label:
the evidence supports those claims, so nothing can be learned from them.)
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from decomposerl.schemas import VERDICTS
from sample.planting import Planter, SampleClaim
from sample.world import World

NAME = "invented_three_way"
_STYLE = "hover"  # the corpus of the sample whose pages these look like
_SOURCE = f"""\
[source]
name = "{NAME}"
title = "Invented claims with three labels"

[files]
train = ["{NAME}/train.jsonl"]
test = ["{NAME}/test.jsonl"]

[columns]
claim = "claim"
evidence = "evidence"
label = "label"
id = "id"

[labels]
supported = ["Supported"]
refuted = ["Refuted"]
middle = ["NotEnoughInfo"]
"""


def write_corpus(folder: Path, train: int, test: int, seed: int) -> Path:
    """Write the corpus below ``folder``; labels take turns. The same arguments: the same bytes."""
    own = folder / NAME
    own.mkdir(parents=True, exist_ok=True)
    claims = _claims(Planter(World(random.Random(seed))), train + test)  # noqa: S311 - no secrets
    for name, count in (("train", train), ("test", test)):
        lines = (json.dumps(next(claims), ensure_ascii=False) for _ in range(count))
        (own / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    (own / "source.toml").write_text(_SOURCE, "utf-8")
    return own


def _claims(planter: Planter, count: int) -> Iterator[dict[str, object]]:
    for index in range(count):
        label = VERDICTS[index % len(VERDICTS)]
        made = planter.ordinary(_STYLE, "Refuted" if label == "Refuted" else "Supported")
        shown = planter.ordinary(_STYLE, "Supported") if label == "NotEnoughInfo" else made
        yield {"id": made.uid, "claim": made.claim, "evidence": _texts(shown), "label": label}


def _texts(case: SampleClaim) -> list[str]:
    return [" ".join(page.sentences) for page in case.pages]


def main(words: Sequence[str] | None = None) -> None:
    """Write the corpus and print where it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="corpora folder")
    parser.add_argument("--train", type=int, default=900, help="training claims")
    parser.add_argument("--test", type=int, default=240, help="test claims")
    parser.add_argument("--seed", type=int, default=31)
    given = parser.parse_args(words)
    print(write_corpus(given.folder, given.train, given.test, given.seed))


if __name__ == "__main__":
    main()
