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

Replies: of a call that continues, ``Follow up: …?`` or the final line, alone or after Yes. or No.;
the question or the verdict alone, NONE, or "No further questions are needed." reads as well. What
stands behind the slot of the answer is not read. Of an answer, plain text, or unknown. Of a final
line, Supported or Refuted; one without a verdict, also when repeated, leaves the claim unparsed.
"""

import re
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
from decomposerl.replies.lines import bare, lines_of, one_line
from decomposerl.replies.lists import read_question, says_no_more
from decomposerl.traces.trace import Verdict

MOST_QUESTIONS = 5
NEEDED = "Are follow-up questions needed here:"
FOLLOW_UP, SLOT, FINAL = "Follow up:", "Intermediate answer:", "So the final answer is:"
OPENING = "Follow-up questions are put to the evidence until the claim can be settled."
_FINAL = re.compile(
    r"(?:.*\bfinal\s(?:answer|verdict)(?:\sis)?|(?:the\s)?verdict(?:\sis)?)\s*:\s*(\S.*)?"
    r"|.*\bfinal\sanswer\sis\s(\S.*)",
    re.IGNORECASE,
)
_SLOT = re.compile(r"\W*(?:intermediate\s)?answer\s?\d?\W{0,3}:.*", re.IGNORECASE)
_FOLLOW_UP = re.compile(r"\W*follow[-‐‑\s]?up(?:\squestion)?\s?\d?\s?[:：].*\?\W*", re.IGNORECASE)
_NEEDED = re.compile(
    r".{0,20}\bare\s(?:any\s)?follow[-\s]?up\squestions\sneeded(?:\shere)?\W*", re.IGNORECASE
)

Kind = Literal["question", "final line", "none"]
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


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a call that continues the transcript wrote: a question, the final line, or the end."""

    kind: Kind
    question: str = ""
    verdict: Verdict | None = None


def self_ask(given: ClaimInput) -> Steps:
    """Follow-up questions, each answered from the evidence, then the final line.

    Raises:
        CallFailedError: a call got no reply.
    """
    transcript = _FollowUpTranscript(given, NEEDED)
    stopped: Stop = "cap"
    while len(transcript.pairs) < MOST_QUESTIONS:
        ((reply, turn),) = yield from ask_each("follow_up", (transcript.go_on(), _read_turn))
        stopped = _stop(reply, turn, transcript.pairs)
        if turn is None or stopped != "cap":
            break
        variables = {"question": turn.question, "evidence": given.evidence}
        (answer,) = yield from ask(ModelCall("answer", "answer", variables, max_tokens=256))
        transcript.add(turn.question, answer_text(answer.text))
    if stopped == "final line":
        verdict = turn.verdict if turn else None
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


def _stop(reply: ModelReply, turn: _Turn | None, pairs: list[Pair]) -> Stop:
    """Why the asking ends with a reply; "cap" where it does not yet."""
    if turn is None:
        return "unread" if _final_line(_lines(reply)) is None else "final line"
    if turn.kind != "question":
        return turn.kind
    return "repeat" if repeats(turn.question, pairs) else "cap"


def _read_turn(reply: ModelReply) -> _Turn | None:
    """The turn in a reply; None also where its final line holds no verdict."""
    lines = _lines(reply)
    final = _final_line(lines)
    last = "\n".join(lines) if final is None else final
    verdict = ModelReply(last, labels=reply.labels).verdict
    if final is not None:
        return _Turn("final line", verdict=verdict) if verdict else None
    labelled = [line for line in lines if _FOLLOW_UP.fullmatch(line)]
    question = read_question("\n".join(labelled[:1] or lines))
    if question:
        return _Turn("question", question)
    after = (re.sub(r"\A\W*follow[-\s]?up\s?:\s*", "", line, flags=re.IGNORECASE) for line in lines)
    if says_no_more("\n".join(after)) or [bare(line) for line in lines] == ["no"]:
        return _Turn("none")
    return _Turn("final line", verdict=verdict) if verdict else None


def _lines(reply: ModelReply) -> list[str]:
    """The lines of a reply before the first slot of an answer, without the opening question."""
    lines = lines_of(reply.text)
    asked = next((number for number, line in enumerate(lines) if line.endswith("?")), len(lines))
    slots = [number for number, line in enumerate(lines) if _SLOT.fullmatch(line)]
    slot = next((number for number in slots if number > asked), None)
    before = lines_of(reply.whole) if slot is None else lines[:slot]
    return [rest for line in before if (rest := _NEEDED.sub("", line, count=1))]


def _final_line(lines: list[str]) -> str | None:
    """The text after the last final-line marker, or on the line below it; None without marker."""
    for number in reversed(range(len(lines))):
        marked = _FINAL.fullmatch(lines[number])
        if marked is not None:
            return marked[1] or marked[2] or "\n".join(lines[number + 1 : number + 2])
    return None


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
