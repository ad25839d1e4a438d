"""Stored predictions, by claim, and the calibrations of systems.

A store belongs to one engine, system and prompt hash. A claim's key covers its id, a digest of
what the system reads, the system and the prompt hash. Claims that failed or were too long for the
model are not stored, so the next run asks again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from decomposerl.baselines.method import ModelCall, Verification
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.calibration import Calibration
from decomposerl.evaluation.confidence import Confidence, read_confidence
from decomposerl.evaluation.scored_claims import BEYOND_CONTEXT
from decomposerl.schemas import CALIBRATIONS
from decomposerl.traces.trace import Cycle
from resources.evaluation.caller import Reply
from resources.store.result_store import ResultStore, key_of, slug
from resources.store.temporary import replace_file


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call of a claim: the columns of ``CALLS`` but for the claim and the number."""

    operation: str
    template: str
    prompt_tokens: int
    completion_tokens: int
    latency_s: float
    cached: bool
    dollars: float | None
    failure: str | None


def record_of(call: ModelCall, reply: Reply) -> CallRecord:
    """The record of a call and its reply."""
    return CallRecord(
        call.operation,
        call.template,
        reply.prompt_tokens,
        reply.completion_tokens,
        reply.latency_s,
        reply.cached,
        reply.dollars,
        reply.answer.failure or None,
    )


@dataclass(frozen=True, slots=True)
class Prediction:
    """The result for one claim. ``confidence`` is None where it cannot be read."""

    claim_id: str
    verification: Verification
    confidence: Confidence | None
    calls: tuple[CallRecord, ...]

    @property
    def failed(self) -> bool:
        """Whether a call got no answer."""
        return self.verification.status == "failed"

    @property
    def kept(self) -> bool:
        """Whether it is stored: not where a call failed, or was too long for the model."""
        return not self.failed and BEYOND_CONTEXT not in self.verification.notes


def finish(claim_id: str, verification: Verification, calls: Sequence[CallRecord]) -> Prediction:
    """A prediction, with confidence where the tokens spell the verdict that was read."""
    spoken = verification.spoken
    confidence = read_confidence(spoken.tokens) if spoken is not None and spoken.tokens else None
    if confidence is not None and confidence.verdict != verification.verdict:
        confidence = None
    return Prediction(claim_id, verification, confidence, tuple(calls))


class PredictionStore:
    """The predictions of one engine, system and prompt."""

    def __init__(
        self,
        folder: Path,
        engine: str,
        system: str,
        prompt_hash: str,
        digests: Mapping[str, str] | None = None,
    ) -> None:
        """Stores of other engines, systems and prompts may share the folder.

        ``digests``: what the system reads about a claim, by claim id.
        """
        name = f"{engine} {system} {prompt_hash}"
        self._store = ResultStore(folder / slug(name), name)
        self._system, self._prompt_hash, self._digests = system, prompt_hash, digests or {}

    def read(self, claim_ids: Sequence[str]) -> dict[str, Prediction]:
        """The stored predictions of these claims, by claim id."""
        keys = {self._key(claim_id): row for row, claim_id in enumerate(claim_ids)}
        predictions: dict[str, Prediction] = {}
        for positions, values in self._store.read(keys):
            for position, value in zip(positions, values.to_pylist(), strict=True):
                predictions[claim_ids[position]] = _from_plain(json.loads(value))
        return predictions

    def add(self, predictions: Sequence[Prediction]) -> None:
        """Store predictions as one shard; those that are not ``kept`` are left out."""
        import pyarrow as pa

        kept = [one for one in predictions if one.kept]
        texts = [json.dumps(_plain(one), ensure_ascii=True) for one in kept]
        keys = [self._key(one.claim_id) for one in kept]
        self._store.write(keys, pa.array(texts, pa.large_string()))

    def compact(self) -> None:
        """Merge small shards where there are many."""
        self._store.compact()

    def _key(self, claim_id: str) -> str:
        digest = self._digests.get(claim_id, "")
        return key_of(claim_id, digest, self._system, self._prompt_hash)


def _plain(prediction: Prediction) -> dict[str, Any]:
    verification = prediction.verification
    return {
        "claim_id": prediction.claim_id,
        "verdict": verification.verdict,
        "status": verification.status,
        "reply": verification.reply,
        "opening": verification.opening,
        "cycles": [asdict(cycle) for cycle in verification.cycles],
        "notes": dict(verification.notes),
        "confidence": None if prediction.confidence is None else asdict(prediction.confidence),
        "calls": [asdict(call) for call in prediction.calls],
    }


def _from_plain(plain: Mapping[str, Any]) -> Prediction:
    confidence = plain["confidence"]
    return Prediction(
        plain["claim_id"],
        Verification(
            verdict=plain["verdict"],
            status=plain["status"],
            reply=plain["reply"],
            opening=plain["opening"],
            cycles=tuple(Cycle(**cycle) for cycle in plain["cycles"]),
            notes=plain["notes"],
        ),
        None if confidence is None else Confidence(**confidence),
        tuple(CallRecord(**call) for call in plain["calls"]),
    )


def calibration_path(data: Path, system: str) -> Path:
    """The file of a system's calibration, next to its table."""
    return data / CALIBRATIONS.name / f"{system}.json"


def write_calibration(data: Path, system: str, calibration: Calibration) -> Path:
    """Write it for the system's next predictions; returns its path."""
    path, text = calibration_path(data, system), calibration.model_dump_json(indent=2)
    replace_file(path, lambda aside: aside.write_text(text, "utf-8"))
    return path


def usable_calibration(
    data: Path, system: str, *, model: str, prompt_hash: str
) -> Calibration | None:
    """The system's calibration, None where there is none.

    Raises:
        EvaluationError: it is damaged, or was fitted to another model or prompt; says what to do.
    """
    path = calibration_path(data, system)
    if not path.is_file():
        return None
    remedy = (
        "dagster asset materialize -m dagster_project.definitions --select "
        f"'key:\"{CALIBRATIONS.name}\"' --partition {system}, "
        f"or remove {path.name} to predict without one"
    )
    try:
        calibration = Calibration.model_validate_json(path.read_text("utf-8"))
        calibration.refuse_others(model=model, prompt_hash=prompt_hash)
    except (ValidationError, UnicodeDecodeError) as error:
        raise EvaluationError(f"{path} is not a calibration; {remedy}") from error
    except EvaluationError as error:
        raise EvaluationError(f"{path}: {error}; {remedy}") from error
    return calibration
