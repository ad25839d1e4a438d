"""Methods, callers and claims for tests of the evaluation's runner."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    ModelReply,
    Procedure,
    Steps,
    Verification,
    ask,
)
from resources.evaluation.runner import (
    MethodPrompts,
    Prediction,
    PredictionStore,
    Reply,
    run_claims,
)

PROMPT_HASH = "a" * 64
FILE = """<!-- section: first -->
Say something about {claim}.
<!-- section: second -->
Say more about {claim}, after {statement}.
"""


def two_steps(question: ClaimInput) -> Steps:
    """Two calls, the second about the first's answer; a reply without "yes" is Refuted."""
    (first,) = yield from ask(ModelCall("answer", "first", {"claim": question.claim}))
    variables = {"claim": question.claim, "statement": first.text}
    (second,) = yield from ask(ModelCall("verify", "second", variables))
    verdict = "Supported" if "yes" in second.text else "Refuted"
    return Verification(verdict, "parsed", second.text, spoken=second)


def cases(count: int) -> dict[str, ClaimInput]:
    """Claims that differ in a number."""
    return {f"{n:016x}": ClaimInput(f"claim {n}", "evidence") for n in range(count)}


def shelf(folder: Path, prompt_hash: str = PROMPT_HASH) -> PredictionStore:
    """The shelf of a system that tests made up."""
    return PredictionStore(folder, "scripted", "two-steps", prompt_hash)


def prompts_in(folder: Path) -> MethodPrompts:
    """Prompts of which ``simple`` has the sections of ``two_steps``, as files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "simple.md").write_text(FILE, "utf-8")
    return MethodPrompts(str(folder))


def run_all(
    procedure: Procedure,
    prompt: str,
    claims: Mapping[str, ClaimInput],
    *rest: Any,  # noqa: ANN401 - of run_claims
    **how: Any,  # noqa: ANN401 - of run_claims
) -> list[Prediction]:
    """The results in the order of the claims."""
    made = {one.claim_id: one for one in run_claims(procedure, prompt, claims, *rest, **how)}
    return [made[claim_id] for claim_id in claims]


@dataclass
class ScriptedCaller:
    """Answers with ``say`` and remembers what it was asked, batch by batch."""

    say: Callable[[ModelCall], ModelReply] = lambda call: ModelReply(
        f"yes {call.variables['claim']}"
    )
    concurrent: bool = False
    claims_at_once: int = 4
    engine: str = "scripted"
    batches: list[list[ModelCall]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def asked(self) -> list[ModelCall]:
        """All calls, in the order of their batches."""
        return [call for batch in self.batches for call in batch]

    def details(self) -> dict[str, int]:
        """None."""
        return {}

    def prompt_hash(self, prompt: str) -> str:
        """The same for every prompt."""
        assert prompt
        return PROMPT_HASH

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """What ``say`` says of each call."""
        assert prompt
        with self._lock:
            self.batches.append(list(calls))
        return [Reply(self.say(call), 3, 2) for call in calls]
