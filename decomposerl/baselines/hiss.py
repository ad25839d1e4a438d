"""HiSS: hierarchical step-by-step, sub-claims first, questions under each (Zhang and Gao 2023).

The claim is split into sub-claims, or stays whole. Each sub-claim is then worked through in the
running transcript: question, whether the model is sure of the answer by itself, answer, next
question. Last, the transcript is classified.

Calls per claim: 2 + S, for S sub-claims worked through: the split, one for each, the
classification; and the repeated calls. Where the split cannot be read, also when repeated, it is 1,
and the claim is unparsed. The publication stops at each question that the model is not sure of, to
search the web; here every answer comes from the given evidence, and how often the model was sure is
a note.

Replies: of the split, a list, or NONE for a claim that stays whole. Of a sub-claim, lines
``Q1: …``, ``Sure: yes`` or ``Sure: no``, ``A1: …`` (``replies.lists``). Of the classification, the
verdict. Repeated sub-claims and those beyond ``MOST`` (counted in a note) are dropped, and the
publication's six grades are not used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    ModelReply,
    Steps,
    Verification,
    ask_read,
    ask_verdict,
)
from decomposerl.baselines.pairs import Pair, Transcript, cycles_of, numbered, qa_lines, thought
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.lines import one_line
from decomposerl.replies.lists import count_sure, read_pairs, read_sub_claims

MOST = 10
OPENING = "The claim is split into sub-claims, and questions are put about each."
NEXT = "Sub-claim"


@dataclass(slots=True)
class _SubClaimTranscript(Transcript):
    """The sub-claims worked through so far."""

    sure: int = 0
    unread: int = 0

    def work_through(self, number: int, part: str) -> ModelCall:
        self.text += f"\n{NEXT} {number}: {part}\n"
        variables = {"claim": part, "evidence": self.given.evidence}
        return ModelCall("procedure", "work_through", variables, self.text, (f"\n{NEXT}",))

    def add(self, reply: ModelReply, pairs: Sequence[Pair]) -> None:
        self.sure += count_sure(reply.whole)
        self.unread += not pairs
        self.text += f"{qa_lines(pairs)}\n"
        self.pairs.extend(pairs)

    def classify(self) -> ModelCall:
        self.text += "\nVerdict:"
        return ModelCall("verify", "verdict", self.given.variables, self.text, max_tokens=64)


def hiss(given: ClaimInput) -> Steps:
    """The split, each sub-claim, the classification."""
    claim = {"claim": given.claim}
    read = partial(read_sub_claims, claim=given.claim)
    asking = ask_read(read, "split", ModelCall("decompose", "split", claim, max_tokens=512))
    ((split, items),) = yield from asking
    if items is None:
        return Verification.unread(split, notes={"sub_claims": 0, "split": False})
    parts = tuple(dict.fromkeys(map(one_line, items))) or (one_line(given.claim),)
    kept = parts[:MOST]
    transcript = _SubClaimTranscript(given, f"Sub-claims:\n{numbered(kept)}\n")
    for number, part in enumerate(kept, start=1):
        worked = ask_read(
            lambda text: read_pairs(text) or None, "pairs", transcript.work_through(number, part)
        )
        ((reply, pairs),) = yield from worked
        transcript.add(reply, pairs or ())
    reply, verdict = yield from ask_verdict(transcript.classify())
    return Verification.of_reply(
        verdict,
        reply,
        cycles_of(transcript.pairs),
        thought(f"{OPENING} The sub-claims: {'; '.join(kept)}"),
        text=f"{transcript.text} {reply.text.strip()}",
        notes={
            "sub_claims": len(kept),
            "split": True,
            "beyond": len(parts) - len(kept),
            "sure": transcript.sure,
            "without_questions": transcript.unread,
        },
    )


METHOD = decomposing(
    hiss,
    OPENING,
    name="hiss",
    title="HiSS",
    publication="Zhang and Gao 2023",
    calls="2 + S: S sub-claims (at most 10); 1 if none was read",
    formula=lambda ended: 2 + int(ended.notes["sub_claims"]) if ended.notes["split"] else 1,
    revision=2,
    three_way=True,
)
