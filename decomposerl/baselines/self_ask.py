"""Self-Ask: the model asks itself follow-up questions in a running transcript (Press et al. 2023).

The transcript is the model's own turn. It says whether follow-up questions are needed; each
``Follow up:`` it writes is cut at the slot ``Intermediate answer:``, which a separate call fills
from the evidence alone; ``So the final answer is:`` ends it. The pairs are also part of the user's
message, for engines that read a call's variables alone.

Calls per claim: 2k + 1 + c, for k questions answered, and the repeated calls. Each question costs
the call that continues the transcript and the call that answers it; one more call ends the
transcript with its final line. c is 1 where the model stopped asking without that line (it wrote
NONE or No, repeated a question, or wrote what cannot be read), which then takes a call, and else 0.
At the cap of k = 5 the final line is requested directly.

Replies: of a call that continues, ``Follow up: …?`` or the final line (``replies.steps``). Of an
answer, plain text, or unknown. Of a final line, the verdict; one without, also when repeated,
leaves the claim unparsed.
"""

from dataclasses import dataclass
from typing import Literal

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    ModelReply,
    Steps,
    Verification,
    ask,
    ask_each,
    ask_verdict,
)
from decomposerl.baselines.pairs import Pair, Transcript, cycles_of, repeats
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.answers import answer_text
from decomposerl.replies.lines import one_line
from decomposerl.replies.steps import Turn, read_turn

MOST_QUESTIONS = 5
NEEDED = "Are follow-up questions needed here:"
FOLLOW_UP, SLOT, FINAL = "Follow up:", "Intermediate answer:", "So the final answer is:"
OPENING = "Follow-up questions are put to the evidence until the claim can be settled."
Stop = Literal["final line", "none", "repeat", "cap", "unread"]


@dataclass(slots=True)
class _FollowUpTranscript(Transcript):
    """The model's own turn so far, and the pairs in it."""

    def go_on(self) -> ModelCall:
        known = self.variables
        return ModelCall(
            "next_question", "transcript", known, self.text, (f"\n{SLOT}",), 256, concludes=True
        )

    def finish(self) -> ModelCall:
        self.text += f" No.\n{FINAL}" if self.text == NEEDED else FINAL
        return ModelCall("verify", "verdict", self.variables, self.text, max_tokens=64)

    def add(self, question: str, answer: str) -> None:
        needed = " Yes.\n" if self.text == NEEDED else ""
        self.text += f"{needed}{FOLLOW_UP} {question}\n{SLOT} {one_line(answer)}\n"
        self.pairs.append((question, answer))


def self_ask(given: ClaimInput) -> Steps:
    """Follow-up questions, each answered from the evidence, then the final line."""
    transcript = _FollowUpTranscript(given, NEEDED)
    stopped: Stop = "cap"
    while len(transcript.pairs) < MOST_QUESTIONS:
        ((reply, _),) = yield from ask_each("follow_up", (transcript.go_on(), _readable))
        turn = _turn(reply)
        stopped = _stop(turn, transcript.pairs)
        if stopped != "cap":
            break
        variables = {"question": turn.question, "evidence": given.evidence}
        (answer,) = yield from ask(ModelCall("answer", "answer", variables, max_tokens=256))
        transcript.add(turn.question, answer_text(answer.text))
    if stopped == "final line":
        verdict = turn.verdict
    else:
        reply, verdict = yield from ask_verdict(transcript.finish())
    return Verification.of_reply(
        verdict,
        reply,
        cycles_of(transcript.pairs),
        OPENING,
        text=f"{transcript.text} {reply.text.strip()}",
        notes={"stopped": stopped},
    )


def _stop(turn: Turn, pairs: list[Pair]) -> Stop:
    """Why the asking ends with a turn; "cap" where it does not yet."""
    if turn.kind != "question":
        return turn.kind
    return "repeat" if repeats(turn.question, pairs) else "cap"


def _turn(reply: ModelReply) -> Turn:
    return read_turn(reply.text, truncated=reply.truncated, labels=reply.labels)


def _readable(reply: ModelReply) -> Turn | None:
    """The turn in a reply; None also where its final line holds no verdict."""
    turn = _turn(reply)
    return turn if turn.question or turn.verdict or turn.kind == "none" else None


METHOD = decomposing(
    self_ask,
    OPENING,
    name="self_ask",
    title="Self-Ask",
    publication="Press et al. 2023",
    calls="2k + 1 + c: k questions (at most 5), c = 1 for a separate final line",
    formula=lambda ended: (
        2 * len(ended.cycles) + 1 + (ended.notes["stopped"] in {"none", "repeat", "unread"})
    ),
    revision=3,
    three_way=True,
)
