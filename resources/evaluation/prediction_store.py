"""Claims that are done, on disk: append-only, whole or not there, one shelf a system.

Takes what came of a claim, gives it back by claim. A shelf belongs to the engine, the system
and the prompt hash together, so that none of them is ever taken for another; within it a
claim's key is over its id, its text with the evidence in its units, the system and the prompt hash.

Left out deliberately: failed claims. They are not stored, so that the next run asks again;
and the frames of results (``resources.evaluation.generation``).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from decomposerl.baselines.method import Call, Verification
from decomposerl.evaluation.confidence import Confidence, read_confidence
from decomposerl.traces.trace import Cycle
from resources.evaluation.caller import Reply
from resources.store.result_store import ResultStore, key_of, slug


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


def record_of(call: Call, reply: Reply) -> CallRecord:
    """What is kept of a call."""
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
    """What came of a claim. ``confidence`` is None where there is none to be had."""

    claim_id: str
    verification: Verification
    confidence: Confidence | None
    calls: tuple[CallRecord, ...]

    @property
    def failed(self) -> bool:
        """Whether a call got no answer."""
        return self.verification.status == "failed"


def finish(claim_id: str, found: Verification, calls: Sequence[CallRecord]) -> Prediction:
    """Read the confidence where the tokens spell the very verdict that was read."""
    spoken = found.spoken
    confidence = read_confidence(spoken.tokens) if spoken is not None and spoken.tokens else None
    if confidence is not None and confidence.verdict != found.verdict:
        confidence = None
    return Prediction(claim_id, found, confidence, tuple(calls))


class PredictionStore:
    """The shelf of one engine, system and prompt."""

    def __init__(
        self,
        folder: Path,
        engine: str,
        system: str,
        prompt_hash: str,
        asked: Mapping[str, str] | None = None,
    ) -> None:
        """Shelves of other engines, systems and prompts may lie in the same folder.

        ``asked``: the digest of what is asked about a claim, by its id.
        """
        name = f"{engine} {system} {prompt_hash}"
        self._shelf = ResultStore(folder / slug(name), name)
        self._system, self._prompt_hash, self._asked = system, prompt_hash, asked or {}

    def read(self, claim_ids: Sequence[str]) -> dict[str, Prediction]:
        """Those of the claims that are done, by claim."""
        keys = {self._key(claim_id): at for at, claim_id in enumerate(claim_ids)}
        found: dict[str, Prediction] = {}
        for positions, values in self._shelf.read(keys):
            for position, value in zip(positions, values.to_pylist(), strict=True):
                found[claim_ids[position]] = _from_plain(json.loads(value))
        return found

    def add(self, done: Sequence[Prediction]) -> None:
        """Store claims as one shard; failed ones are left out."""
        import pyarrow as pa

        kept = [one for one in done if not one.failed]
        texts = [json.dumps(_plain(one), ensure_ascii=True) for one in kept]
        keys = [self._key(one.claim_id) for one in kept]
        self._shelf.write(keys, pa.array(texts, pa.large_string()))

    def compact(self) -> None:
        """Merge small shards where there are many."""
        self._shelf.compact()

    def _key(self, claim_id: str) -> str:
        asked = self._asked.get(claim_id, "")
        return key_of(claim_id, asked, self._system, self._prompt_hash)


def _plain(done: Prediction) -> dict[str, Any]:
    found = done.verification
    return {
        "claim_id": done.claim_id,
        "verdict": found.verdict,
        "status": found.status,
        "reply": found.reply,
        "opening": found.opening,
        "cycles": [asdict(cycle) for cycle in found.cycles],
        "notes": dict(found.notes),
        "confidence": None if done.confidence is None else asdict(done.confidence),
        "calls": [asdict(call) for call in done.calls],
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
