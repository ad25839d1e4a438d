"""Verify claims and score traces from Python, as ``decomposerl verify`` and ``score`` do.

::

    from decomposerl.api import verify

    result = verify("Ada Brown was born in Odense.", "Ada Brown, a swimmer, was born in Odense.")
    result.verdict  # "Supported"
    result.questions[0].evidence  # the sentences that the first answer rests on

Profile and data folder are those of the settings. Importing this module imports no Dagster, nor
does verifying with a system of rules, which is the default of the embedded profile.
"""

from collections.abc import Iterable, Mapping, Sequence

from decomposerl.reports.shown_confidence import VerdictConfidence
from decomposerl.reports.verified import VerifiedClaim, VerifiedQuestion
from decomposerl.rewards.settings import RewardSettings

__all__ = [
    "RewardSettings",
    "VerdictConfidence",
    "VerifiedClaim",
    "VerifiedQuestion",
    "score_traces",
    "verify",
    "verify_claims",
]

Evidence = str | Sequence[str]
"""One text, whose lines are its passages, or the passages."""


def verify(claim: str, evidence: Evidence, *, system: str = "") -> VerifiedClaim:
    """The verdict on a claim by its evidence, with confidence and trace.

    ``system`` is a system's key, such as ``self_ask-qwen2.5-7b-faithful``; the default is that of
    the profile. The result is stored in the data folder, so the same call is answered at once.
    Raises what ``verify_claims`` raises.
    """
    return verify_claims([(claim, evidence)], system=system)[0]


def verify_claims(
    claims: Iterable[tuple[str, Evidence] | Mapping[str, object]], *, system: str = ""
) -> list[VerifiedClaim]:
    """``verify`` for many claims, which are answered together, in order.

    Each is a pair of claim and evidence, or has the fields of a line that ``decomposerl verify``
    reads: ``claim``, ``evidence`` and optionally ``claim_id``. Values of numpy and pandas are read.

    Raises:
        ConfigError: there is no such system, the profile has no engine for it, its policy was not
            trained, or a setting is wrong.
        SourceFileError: claim or evidence is blank or too long; has the claim's number.
        EngineError: no call can be answered.
    """
    # Imported upwards, as only the wiring knows the engines of a profile.
    from dagster_project.environment import read_settings
    from dagster_project.row_forms import plain_rows
    from dagster_project.verify import checked_record, claim_verifier

    rows = enumerate(plain_rows(claims), start=1)
    records = [checked_record(claim, f"claim {number}") for number, claim in rows]
    with claim_verifier(read_settings(), system) as verifier:
        return list(verifier.verify(records))


def score_traces(
    traces: Iterable[Mapping[str, object]],
    settings: RewardSettings | None = None,
    *,
    three_way: bool = False,
) -> list[dict[str, object]]:
    """The rewards of traces by the profile's judge, in order.

    A trace has the fields of a line that ``decomposerl score`` reads: ``claim``, ``evidence`` and
    ``trace``; optionally ``label``, ``n_star`` or ``questions``, ``group``, ``rollout`` and
    ``truncated``. A trace may be a list of messages, ``traces`` a table of pandas or polars. The
    result has ``group``, ``rollout``, ``total`` and ``rewards``; each of those has ``value`` (None
    unless ``state`` is scored), ``state``, ``weight``, ``counted`` and, where it has values by
    question, ``questions``. ``three_way``: Not Enough Information is a verdict and a label, too.

    Raises:
        SourceFileError: a trace lacks a field, or has a wrong one; nothing is scored.
        ConfigError: a weight names no reward, the environment is wrong, or ``settings.silence``
            refutes under ``three_way``.
        EngineError: an engine failed as a whole.
    """
    from dagster_project.score import offered_labels, scored_rows

    settings = settings or RewardSettings()
    return scored_rows(traces, settings, offered_labels(settings, three_way=three_way))
