"""HiSS: hierarchical step-by-step, sub-claims first, questions under each (Zhang and Gao 2023).

The claim is split into sub-claims, or stays whole. Each sub-claim is then worked through in the
running transcript: question, whether the model is sure of the answer by itself, answer, next
question. Last, the transcript is classified.

Calls per claim: 2 + S, for S sub-claims worked through: the split, one for each, the
classification; and the repeated calls. Where the split cannot be read, also when repeated, it is 1,
and the claim is unparsed. The publication stops at each question that the model is not sure of, to
search the web; here every answer comes from the given evidence, and how often the model was sure is
a note.

Replies: of the split, a list, numbered, in JSON or one sentence a line; NONE on any line, or one
sentence alone, is a claim that stays whole. Of a sub-claim, lines ``Q1: …``, ``Sure: yes`` or
``Sure: no``, ``A1: …`` and the other forms of ``replies.pairs``; anything else is dropped. Of the
classification, Supported or Refuted. Repeated sub-claims and those beyond ``MOST`` (counted in a
note) are dropped, and the publication's six grades are not used.
"""

import re
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
from decomposerl.replies.lines import bare, lines_of, one_line
from decomposerl.replies.lists import read_list, says_none
from decomposerl.replies.pairs import read_pairs

MOST = 10
OPENING = "The claim is split into sub-claims, and questions are put about each."
NEXT = "Sub-claim"
_SURE = re.compile(r"[-*•\s]*sure\s?[:?]\s?(yes|no)\b.*")
_WHOLE = re.compile(
    r"\b(?:one|a\ssingle)\s(?:thing|fact|statement|point|(?:atomic\s)?(?:sub-?)?claim)\b"
    r"|\b(?:cannot|need\snot|not|n't)\sbe\s(?:\w+\s)?split|\bno\s(?:need\sto\s)?split"
    r"|\bstays\swhole\b|\b(?:is|already)\satomic\b",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"\A\W*(?:i(?:'m|\sam)?\s(?:sorry|afraid|unable|cannot|can't|can\snot|won't|need|do\snot|don't)"
    r"|sorry\b|(?:my\s)?apologies|unfortunately\b|as\san\sai\b|please\b)",
    re.IGNORECASE,
)
_LEAST_SHARE = 0.7
_ABOUT_CLAIM = re.compile(r"\b(?:claims?|sub-?claims?|split)\b|[:?]\Z", re.IGNORECASE)

_NUMBER = re.compile(r"\A(\d{1,2})[.)]\s")
_NEXT_NUMBER = re.compile(r"(?<=[.!?])[^\S\n]+(?=[2-9][.)]\s+[A-Z\"“])")


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
        text = reply.whole
        sure = (_SURE.fullmatch(bare(line)) for line in lines_of(text))
        self.sure += sum(line is not None and line[1] == "yes" for line in sure)
        self.unread += not pairs
        self.text += f"{qa_lines(pairs)}\n"
        self.pairs.extend(pairs)

    def classify(self) -> ModelCall:
        self.text += "\nVerdict:"
        return ModelCall("verify", "verdict", self.given.variables, self.text, max_tokens=64)


def hiss(given: ClaimInput) -> Steps:
    """The split, each sub-claim, the classification.

    Raises:
        CallFailedError: a call got no reply.
    """
    claim = {"claim": given.claim}
    read = partial(_read_split, claim=given.claim)
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


def _read_split(text: str, claim: str) -> tuple[str, ...] | None:
    """The sub-claims; none of them where the claim stays whole, which the reply says or shows."""
    if [number for line in lines_of(text) for number in _NUMBER.findall(line)] == ["1"]:
        text = _NEXT_NUMBER.sub("\n", text)
    items = read_list(text)
    if says_none(text) and len(items or ()) <= 1:
        return ()
    if items is not None:
        return items
    lines = [line for line in lines_of(text) if not line.endswith(":")]
    if any(map(_REFUSES.search, lines)):
        return None
    if any(map(_WHOLE.search, lines)) or (len(lines) == 1 and _repeats(lines[0], claim)):
        return ()
    sentences = [line for line in lines if line.endswith(".") and not _ABOUT_CLAIM.search(line)]
    return tuple(sentences) if len(lines) > 1 and len(sentences) == len(lines) else None


def _repeats(line: str, claim: str) -> bool:
    """Whether a line is the claim, give or take a few of its words."""
    said, words = (set(re.findall(r"\w+", text.casefold())) for text in (line, claim))
    return len(said & words) >= _LEAST_SHARE * len(said | words)


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
