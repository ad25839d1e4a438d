"""HiSS: hierarchical step-by-step, sub-claims first, questions under each (Zhang and Gao 2023).

The claim is split into sub-claims, or stays whole. Each sub-claim is then worked through in the
running transcript: question, whether the model is sure of the answer by itself, answer, next
question. Last, the transcript is classified.

Calls per claim: 2 + S, for S sub-claims worked through: the split, one for each, the
classification. Where the split cannot be read it is 1, and the claim is unparsed. The publication
stops at each question that the model is not sure of, to search the web; here the evidence is given,
so every answer comes from it, and how often the model said that it was sure is a note.

Replies: of the split, a numbered list, or NONE for a claim that stays whole. Of a sub-claim, lines
``Q1: …``, ``Sure: yes`` or ``Sure: no``, ``A1: …``; what else it says is not kept. Of the
classification, Supported or Refuted.

Left out deliberately: search, the six grades of the publication, sub-claims beyond ``MOST``
(counted in a note), and repeated ones.
"""

import re
from dataclasses import dataclass, field

from decomposerl.baselines.method import (
    ClaimInput,
    Method,
    ModelCall,
    ModelReply,
    Steps,
    Verification,
    ask,
    status_of,
)
from decomposerl.baselines.pairs import Pair, cycles_of, numbered, one_line, qa_lines, thought
from decomposerl.baselines.replies import (
    bare,
    lines_of,
    read_list,
    read_pairs,
    read_verdict,
    whole_text,
)
from decomposerl.baselines.single_call import written_out

MOST = 10
OPENING = "The claim is split into sub-claims, and questions are put about each."
NEXT = "Sub-claim"
_SURE = re.compile(r"sure\s?: ?(yes|no)")


@dataclass(slots=True)
class _Transcript:
    """What has been worked through so far."""

    question: ClaimInput
    text: str
    pairs: list[Pair] = field(default_factory=list)
    sure: int = 0
    unread: int = 0

    def work_through(self, number: int, part: str) -> ModelCall:
        self.text += f"\n{NEXT} {number}: {part}\n"
        variables = {"claim": part, "evidence": self.question.evidence}
        return ModelCall("procedure", "work_through", variables, self.text, (f"\n{NEXT}",))

    def add(self, reply: ModelReply) -> None:
        pairs = read_pairs(whole_text(reply))
        says = [_SURE.fullmatch(bare(line)) for line in lines_of(whole_text(reply))]
        self.sure += sum(said is not None and said[1] == "yes" for said in says)
        self.unread += not pairs
        self.text += f"{qa_lines(pairs)}\n"
        self.pairs.extend(pairs)

    def classify(self) -> ModelCall:
        self.text += "\nVerdict:"
        variables = {"claim": self.question.claim, "evidence": self.question.evidence}
        return ModelCall("verify", "verdict", variables, self.text, max_tokens=16)


def hiss(question: ClaimInput) -> Steps:
    """The split, each sub-claim, the classification.

    Raises:
        CallFailedError: a call got no answer.
    """
    (split,) = yield from ask(
        ModelCall("decompose", "split", {"claim": question.claim}, max_tokens=512)
    )
    found = read_list(whole_text(split))
    if found is None:
        notes = {"sub_claims": 0, "split": False}
        return Verification(None, status_of(None, split), split.text, notes=notes)
    parts = tuple(dict.fromkeys(map(one_line, found))) or (one_line(question.claim),)
    transcript = _Transcript(question, f"Sub-claims:\n{numbered(parts[:MOST])}\n")
    for number, part in enumerate(parts[:MOST], start=1):
        (reply,) = yield from ask(transcript.work_through(number, part))
        transcript.add(reply)
    (answer,) = yield from ask(transcript.classify())
    return _verification(transcript, answer, parts)


def _verification(
    transcript: _Transcript, answer: ModelReply, parts: tuple[str, ...]
) -> Verification:
    verdict = read_verdict(answer)
    return Verification(
        verdict,
        status_of(verdict, answer),
        f"{transcript.text} {answer.text.strip()}",
        cycles_of(transcript.pairs),
        thought(f"{OPENING} The sub-claims: {'; '.join(parts[:MOST])}"),
        spoken=answer,
        notes={
            "sub_claims": len(parts[:MOST]),
            "split": True,
            "beyond": len(parts[MOST:]),
            "sure": transcript.sure,
            "without_questions": transcript.unread,
        },
    )


def expected_calls(ended: Verification) -> int:
    """2 + S, or 1 where the split was not read."""
    return 2 + int(ended.notes["sub_claims"]) if ended.notes["split"] else 1


METHOD = Method(
    name="hiss",
    title="HiSS",
    publication="Zhang and Gao 2023",
    calls="2 + S: S sub-claims (at most 10)",
    procedures={"faithful": hiss, "single_call": written_out(OPENING)},
    expected_calls=expected_calls,
    prompt="hiss",
)
