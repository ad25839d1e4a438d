"""Self-Ask: the model asks itself follow-up questions in a running transcript (Press et al. 2023).

The transcript is the model's own turn. It says whether follow-up questions are needed; each
``Follow up:`` it writes is cut at the slot ``Intermediate answer:``, which a call of its own fills
from the evidence alone; ``So the final answer is:`` ends it.

Calls per claim: 2k + 1 + c, for k questions answered. Each costs the call that goes on with the
transcript and the call that answers it; one more call ends the transcript with its final line. c
is 1 where the model ended its asking without that line (it wrote NONE or No, or repeated a
question), which is then asked for by itself, and else 0. At the cap of k = 5 the final line is
asked for without another go on.

Replies: of a call that goes on, ``Follow up: …?`` or the final line, alone or after Yes. or No.;
the question alone, or NONE, reads as well. Of an answer, plain text, or unknown. Of a final line,
Supported or Refuted.

The pairs also stand in the user's message, for engines that read a call's variables alone.

Left out deliberately: searching for answers (the evidence is given), and the exemplars' questions
of the publication (``prompts/self_ask.md`` has one example of its own).
"""

import re
from dataclasses import dataclass, field
from typing import Literal

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
from decomposerl.baselines.pairs import Pair, cycles_of, one_line, qa_lines, repeats
from decomposerl.baselines.replies import bare, lines_of, read_question, read_verdict, whole_text
from decomposerl.baselines.single_call import written_out

MOST_QUESTIONS = 5
NEEDED = "Are follow-up questions needed here:"
FOLLOW_UP, SLOT, FINAL = "Follow up:", "Intermediate answer:", "So the final answer is:"
OPENING = "Follow-up questions are put to the evidence until the claim can be settled."
_FINAL = re.compile(r".*\bfinal answer is\s*:?\s*(\S.*)?", re.IGNORECASE)

Stop = Literal["final line", "none", "repeat", "cap", "unread"]


@dataclass(slots=True)
class _Transcript:
    """The model's own turn so far, and the pairs in it."""

    question: ClaimInput
    text: str = NEEDED
    pairs: list[Pair] = field(default_factory=list)

    def go_on(self) -> ModelCall:
        known = self._variables()
        return ModelCall(
            "next_question", "transcript", known, self.text, (SLOT,), 256, concludes=True
        )

    def finish(self) -> ModelCall:
        self.text += f" No.\n{FINAL}" if self.text == NEEDED else FINAL
        return ModelCall("verify", "verdict", self._variables(), self.text, max_tokens=16)

    def add(self, asked: str, answer: str) -> None:
        said = " Yes.\n" if self.text == NEEDED else ""
        self.text += f"{said}{FOLLOW_UP} {asked}\n{SLOT} {one_line(answer)}\n"
        self.pairs.append((asked, answer))

    def _variables(self) -> dict[str, str]:
        known = {"claim": self.question.claim, "evidence": self.question.evidence}
        return {**known, "qa": qa_lines(self.pairs)}


def self_ask(question: ClaimInput) -> Steps:
    """Follow-up questions, each answered from the evidence, then the final line.

    Raises:
        CallFailedError: a call got no answer.
    """
    transcript = _Transcript(question)
    stopped: Stop = "cap"
    while len(transcript.pairs) < MOST_QUESTIONS:
        (reply,) = yield from ask(transcript.go_on())
        asked = read_question(whole_text(reply))
        stopped = _stop(reply, asked, transcript.pairs)
        if stopped != "cap":
            break
        variables = {"question": asked or "", "evidence": question.evidence}
        (answer,) = yield from ask(ModelCall("answer", "answer", variables, max_tokens=256))
        transcript.add(asked or "", answer.text)
    if stopped not in {"final line", "unread"}:
        (reply,) = yield from ask(transcript.finish())
    return _verification(transcript, reply, stopped)


def _stop(reply: ModelReply, asked: str | None, pairs: list[Pair]) -> Stop:
    """Why the asking ends with a reply; "cap" where it does not yet."""
    if _final_line(reply) is not None:
        return "final line"
    if asked is None:
        words = [bare(line) for line in lines_of(whole_text(reply))]
        return "none" if words in (["none"], ["no"]) else "unread"
    return "repeat" if repeats(asked, pairs) else "cap"


def _final_line(reply: ModelReply) -> ModelReply | None:
    """What a reply says after its last final-line marker; None where there is none."""
    marked = [match for line in lines_of(whole_text(reply)) if (match := _FINAL.fullmatch(line))]
    return ModelReply(marked[-1][1] or "") if marked else None


def _verification(transcript: _Transcript, reply: ModelReply, stopped: Stop) -> Verification:
    final = _final_line(reply) or ModelReply("" if stopped == "unread" else whole_text(reply))
    verdict = read_verdict(final)
    return Verification(
        verdict,
        status_of(verdict, reply),
        f"{transcript.text} {reply.text.strip()}",
        cycles_of(transcript.pairs),
        OPENING,
        spoken=reply,
        notes={"stopped": stopped},
    )


def expected_calls(ended: Verification) -> int:
    """2k + 1 + c, as the module says."""
    return 2 * len(ended.cycles) + 1 + (ended.notes["stopped"] in {"none", "repeat"})


METHOD = Method(
    name="self_ask",
    title="Self-Ask",
    publication="Press et al. 2023",
    calls="2k + 1 + c: k questions (at most 5), c = 1 where the final line is asked for by itself",
    procedures={"faithful": self_ask, "single_call": written_out(OPENING)},
    expected_calls=expected_calls,
    prompt="self_ask",
    revision=2,
)
