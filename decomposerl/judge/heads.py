"""The eight classifiers of the tiny judge (paper, appendix "Tiny-Judge Ablation").

Five rule on the atomicity criteria, one each on the other tasks. A head reads two texts, the short
one first, and gives one of its classes, which are the words of ``Ruling.text``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from decomposerl.judge.call import JudgeCall, Ruling, Task
from decomposerl.prompts.judge import CRITERIA
from decomposerl.schemas import VERDICTS
from decomposerl.settings import Settings


class HeadSettings(Settings):
    """How each head is trained. The paper states none of it: all is our reading."""

    rank: int = Field(16, ge=1, description="of the LoRA matrices")
    alpha: int = Field(32, ge=1, description="LoRA scale times rank")
    dropout: float = Field(0.05, ge=0, lt=1, description="of the LoRA layers")
    learning_rate: float = Field(5e-4, gt=0, description="AdamW, linear schedule")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of the steps")
    weight_decay: float = Field(0.01, ge=0, description="AdamW")
    epochs: int = Field(10, ge=1, description="most epochs")
    patience: int = Field(2, ge=1, description="epochs without a better macro-F1 that end it")
    batch: int = Field(16, ge=1, description="examples a step")
    most_tokens: int = Field(0, ge=0, description="tokens read of a pair; 0: the encoder's limit")
    least: int = Field(8, ge=1, description="with fewer examples of a class a head is constant")
    seed: int = Field(42, ge=0, description="of weights, order and dropout")


@dataclass(frozen=True, slots=True)
class Head:
    """One classifier. ``place`` is its digit in the ruling of a task with several heads."""

    name: str
    task: Task
    classes: tuple[str, ...] = ("0", "1")
    place: int = 0

    def label(self, ruling: str) -> str:
        """The class that a ruling states (``Ruling.text``)."""
        return ruling if self.task == "coverage" else ruling[self.place]

    def class_named(self, name: str) -> str:
        """The class that a published classifier calls ``no``, or ``LABEL_0`` by its place.

        Raises:
            KeyError: it has no such class.
        """
        word = name.lower().replace("_", "")
        same = {"no": "0", "yes": "1", "notenoughinformation": "notenoughinfo"}
        places = {f"label{place}": own for place, own in enumerate(self.classes)}
        return (places | {own.lower(): own for own in self.classes})[same.get(word, word)]


HEADS: tuple[Head, ...] = (
    *(Head(f"atomicity_{name}", "atomicity", place=i) for i, name in enumerate(CRITERIA)),
    Head("answerability", "answerability"),
    Head("correctness", "correctness"),
    Head("coverage", "coverage", VERDICTS),
)
MOST_CLASSES = max(len(head.classes) for head in HEADS)
"""Outputs of every classifier: heads with fewer classes use the first ones."""


def heads_of(task: Task) -> tuple[Head, ...]:
    """The heads that rule on a task, in the order of their digits."""
    return tuple(head for head in HEADS if head.task == task)


def texts_of(call: JudgeCall) -> tuple[str, str]:
    """What a head reads of a call: the short text, and its context, of any length.

    Answerability: question, document. Correctness: question and answer, document. Atomicity:
    question, claim. Coverage: claim, answers, one a line.
    """
    match call.task:
        case "answerability":
            return call.question, call.document
        case "correctness":
            return "\n".join((call.question, *call.answers)), call.document
        case "atomicity":
            return call.question, call.claim
        case "coverage":
            return call.claim, "\n".join(" ".join(answer.split()) for answer in call.answers)


def published_text(task: Task, text: str, context: str) -> str:
    """The one text that the heads which the paper's authors published read of these two."""
    question, _, answer = text.partition("\n")
    forms: dict[Task, str] = {
        "answerability": f"Document: {context}\nQuestion: {text}",
        "atomicity": f"Claim: {context}\nQuestion: {text}",
        "correctness": f"Document: {context}\nQuestion: {question}\nAnswer: {answer}",
        "coverage": "\n- ".join((f"Claim: {text}\nAnswers:", *context.split("\n"))),
    }
    return forms[task]


def ruling_of(labels: Sequence[str]) -> Ruling:
    """The ruling that the heads of one task state together, in the order of ``heads_of``."""
    return Ruling.from_text("".join(labels))
