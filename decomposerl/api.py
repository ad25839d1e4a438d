"""Verify claims from Python, as ``decomposerl verify`` does in a terminal.

::

    from decomposerl.api import verify

    result = verify("Ada Brown was born in Odense.", "Ada Brown, a swimmer, was born in Odense.")
    result.verdict  # "Supported"
    result.questions[0].evidence  # the sentences that the first answer rests on

Profile and data folder are those of the environment (``DECOMPOSERL_PROFILE``,
``DECOMPOSERL_DATA``). Importing this module imports no Dagster, nor does verifying with a system of
rules, which is the default of the embedded profile.
"""

from collections.abc import Iterable, Sequence

from decomposerl.reports.verified import VerdictConfidence, VerifiedClaim, VerifiedQuestion

__all__ = ["VerdictConfidence", "VerifiedClaim", "VerifiedQuestion", "verify", "verify_claims"]

Evidence = str | Sequence[str]
"""One text, whose lines are its passages, or the passages."""


def verify(claim: str, evidence: Evidence, *, system: str = "") -> VerifiedClaim:
    """The verdict on a claim by its evidence, with confidence and trace.

    ``system`` is a system's key, such as ``self_ask-qwen2.5-7b-faithful``; the default is that of
    the profile. The result is stored in the data folder, so the same call is answered at once.

    Raises:
        ConfigError: there is no such system, the profile has no engine for it, its policy was not
            trained, or the environment is wrong.
        SourceFileError: claim or evidence is blank or too long.
        EngineError: no call can be answered.
    """
    return verify_claims([(claim, evidence)], system=system)[0]


def verify_claims(
    claims: Iterable[tuple[str, Evidence]], *, system: str = ""
) -> list[VerifiedClaim]:
    """``verify`` for many pairs of claim and evidence, which are answered together, in order.

    Raises:
        ConfigError, SourceFileError, EngineError: as ``verify``.
    """
    # The one import upwards: only the wiring knows the engines of a profile.
    from dagster_project.profiles import profile_from_environment
    from dagster_project.verify import claim_verifier
    from decomposerl.traces.claim_records import checked_record

    records = [
        checked_record({"claim": claim, "evidence": _plain(evidence)}, f"claim {number}")
        for number, (claim, evidence) in enumerate(claims, start=1)
    ]
    results: list[VerifiedClaim] = []
    with claim_verifier(profile_from_environment(), system) as verifier:
        verifier.verify(records, results.append)
    return results


def _plain(evidence: Evidence) -> str | list[str]:
    return evidence if isinstance(evidence, str) else list(evidence)
