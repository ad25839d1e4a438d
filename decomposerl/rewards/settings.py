"""Settings of the ensemble: weights, and each choice where the paper can be read in two ways."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args, get_origin, get_type_hints

from decomposerl.errors import ConfigError

FailurePolicy = Literal["drop_group", "raise"]


@dataclass(frozen=True, slots=True)
class RewardSettings:
    """How rewards are read and summed.

    ``weights`` overrides a reward's weight by name (1 for the paper's seven, 0 for further
    members); 0 switches a reward off. ``own`` is the import path of your own reward
    (``rewards.own``), whose weight is 1 unless ``weights`` has one. ``failures``: a reward that
    lacks a ruling is left out of its group's sums, or ends the run. ``votes`` says whose verdicts
    make the pseudo-label of an unlabelled claim; ``necessity`` aggregates over questions.

    Where the printed form, ``literal``, is read otherwise: ``abstention`` honest pays one for a
    question that the document cannot answer, part only if that asks about a part of the claim;
    ``atomicity`` fraction is k/5, strict all five; ``format`` eight pays the eight conditions that
    we take for well-formed, not the three that are named; ``diversity`` two gives a trace of one
    question -1, as two are asked for, not the formula's 0; ``correctness`` pair judges an answer
    with its question, not as a sentence alone.

    Three readings beyond the paper. ``grounding`` required: coverage and necessity pay only for
    answers that the document bears out. ``silence`` refutes: "not enough information" beside an
    honest abstention about a part of the claim is Refuted. ``restating`` marked: a question that
    restates the whole claim earns nothing. Whether a trace may end with a third verdict is said
    where it is read (``traces.grammar``).

    Raises:
        ConfigError: a reading is none of those listed here.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    necessity: Literal["min", "mean"] = "min"
    abstention: Literal["honest", "literal", "part"] = "honest"
    atomicity: Literal["fraction", "strict"] = "fraction"
    votes: Literal["judge", "policy"] = "judge"
    failures: FailurePolicy = "drop_group"
    grounding: Literal["literal", "required"] = "literal"
    silence: Literal["literal", "refutes"] = "literal"
    restating: Literal["literal", "marked"] = "literal"
    format: Literal["eight", "literal"] = "eight"
    diversity: Literal["two", "literal"] = "two"
    correctness: Literal["pair", "literal"] = "pair"
    own: str = ""

    def __post_init__(self) -> None:
        """Refuse an unknown reading, which would otherwise count as the other one."""
        for name, kind in get_type_hints(type(self)).items():
            allowed, value = get_args(kind), getattr(self, name)
            if get_origin(kind) is Literal and value not in allowed:
                listed = f"it must be one of {', '.join(allowed)}"
                raise ConfigError(f"reward setting '{name}' is {value!r}; {listed}")


STRICT = RewardSettings(
    abstention="part", grounding="required", silence="refutes", restating="marked"
)
"""Every reading in which honesty pays more than the tricks of ``docs/explanation/rewards.md``."""
PRINTED = RewardSettings(
    abstention="literal", format="literal", diversity="literal", correctness="literal"
)
"""Every formula and judge prompt as the paper prints it."""
UNGUARDED = RewardSettings(abstention="literal", necessity="mean")
"""Every guard off that is a setting: dodging pays, and a good question hides a harmful one."""


def is_labelled(claim: str, share: float) -> bool:
    """Whether a claim keeps its label in a semi-supervised run at rate ``share``, 0..1.

    By a hash of its text, in every order, epoch and run; white space does not count. What is
    labelled at 0.1 is labelled at every larger rate (paper, section 3.3).

    Raises:
        ValueError: the share is not between 0 and 1.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"the supervision rate is {share}; it must lie between 0 and 1")
    text = "supervision:" + " ".join(claim.split())
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return int(digest, 16) < share * 16.0**16
