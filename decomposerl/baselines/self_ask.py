"""Self-Ask: the model asks itself follow-up questions in a running transcript (Press et al. 2023).

The transcript is the model's own turn. It says whether follow-up questions are needed; each
``Follow up:`` it writes is cut at the slot ``Intermediate answer:``, which a separate call fills
from the evidence alone; ``So the final answer is:`` ends it. The pairs are also part of the user's
message, for engines that read a call's variables alone.

Calls per claim: 2k + 1 + c, for k questions answered. Each costs the call that continues the
transcript and the call that answers it; one more call ends the transcript with its final line. c
is 1 where the model stopped asking without that line (it wrote NONE or No, or repeated a
question), which then takes a call, and else 0. At the cap of k = 5 the final line is requested
directly.

Replies: of a call that continues, ``Follow up: …?`` or the final line, alone or after Yes. or No.;
the question alone, or NONE, reads as well. Of an answer, plain text, or unknown. Of a final line,
Supported or Refuted.
"""

import re
from dataclasses import dataclass
from typing import Literal

from decomposerl.baselines.method import ClaimInput, ModelCall, ModelReply, Steps, Verification, ask
from decomposerl.baselines.pairs import Pair, Transcript, cycles_of, repeats
from decomposerl.baselines.replies import read_question, read_verdict, whole_text
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.lines import bare, lines_of, one_line

MOST_QUESTIONS = 5
NEEDED = "Are follow-up questions needed here:"
FOLLOW_UP, SLOT, FINAL = "Follow up:", "Intermediate answer:", "So the final answer is:"
OPENING = "Follow-up questions are put to the evidence until the claim can be settled."
_FINAL = re.compile(r".*\bfinal answer is\s*:?\s*(\S.*)?", re.IGNORECASE)

Stop = Literal["final line", "none", "repeat", "cap", "unread"]


@dataclass(slots=True)
class _FollowUpTranscript(Transcript):
    """The model's own turn so far, and the pairs in it."""

    def go_on(self) -> ModelCall:
        known = self.variables
        return ModelCall(
            "next_question", "transcript", known, self.text, (SLOT,), 256, concludes=True
        )

    def finish(self) -> ModelCall:
        self.text += f" No.\n{FINAL}" if self.text == NEEDED else FINAL
        return ModelCall("verify", "verdict", self.variables, self.text, max_tokens=16)

    def add(self, question: str, answer: str) -> None:
        needed = " Yes.\n" if self.text == NEEDED else ""
        self.text += f"{needed}{FOLLOW_UP} {question}\n{SLOT} {one_line(answer)}\n"
        self.pairs.append((question, answer))


def self_ask(given: ClaimInput) -> Steps:
    """Follow-up questions, each answered from the evidence, then the final line.

    Raises:
        CallFailedError: a call got no reply.
    """
    transcript = _FollowUpTranscript(given, NEEDED)
    stopped: Stop = "cap"
    while len(transcript.pairs) < MOST_QUESTIONS:
        (reply,) = yield from ask(transcript.go_on())
        question = read_question(whole_text(reply)) or ""
        stopped = _stop(reply, question, transcript.pairs)
        if stopped != "cap":
            break
        variables = {"question": question, "evidence": given.evidence}
        (answer,) = yield from ask(ModelCall("answer", "answer", variables, max_tokens=256))
        transcript.add(question, answer.text)
    if stopped not in {"final line", "unread"}:
        (reply,) = yield from ask(transcript.finish())
    final = _final_line(reply) or ModelReply("" if stopped == "unread" else whole_text(reply))
    return Verification.of_reply(
        read_verdict(final),
        reply,
        cycles_of(transcript.pairs),
        OPENING,
        text=f"{transcript.text} {reply.text.strip()}",
        notes={"stopped": stopped},
    )


def _stop(reply: ModelReply, question: str, pairs: list[Pair]) -> Stop:
    """Why the asking ends with a reply; "cap" where it does not yet."""
    if _final_line(reply) is not None:
        return "final line"
    if not question:
        words = [bare(line) for line in lines_of(whole_text(reply))]
        return "none" if words in (["none"], ["no"]) else "unread"
    return "repeat" if repeats(question, pairs) else "cap"


def _final_line(reply: ModelReply) -> ModelReply | None:
    """The text after the last final-line marker of a reply; None where there is none."""
    marked = [match for line in lines_of(whole_text(reply)) if (match := _FINAL.fullmatch(line))]
    return ModelReply(marked[-1][1] or "") if marked else None


METHOD = decomposing(
    self_ask,
    OPENING,
    name="self_ask",
    title="Self-Ask",
    publication="Press et al. 2023",
    calls="2k + 1 + c: k questions (at most 5), c = 1 where the final line is asked for by itself",
    formula=lambda ended: (
        2 * len(ended.cycles) + 1 + (ended.notes["stopped"] in {"none", "repeat"})
    ),
    revision=2,
)
