"""The eight heads of the tiny judge (paper, appendix "Tiny-Judge Ablation") and their examples.

Five rule on the atomicity criteria, one each on answerability, correctness and coverage; necessity
reads coverage. A head reads two texts, the short one first, and gives one of its classes, which are
the words of ``Ruling.text``.

An example is a head's two texts and the class that the large judge's ruling states. Examples are
split by document: documents that share a claim, and claims that share a document, are on one side.
Where no dev document of a head holds one of its classes, some training documents that do become dev
for this head: a constant head would score best over dev otherwise. For training each class has
equally many: those of a rarer class are repeated, and what that cannot balance is left out.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from pydantic import Field

from decomposerl.errors import TrainingError
from decomposerl.judge.call import JudgeCall, Ruling, Task, needed_calls
from decomposerl.replies.rulings import CRITERIA
from decomposerl.schemas import JUDGE_EXAMPLES, VERDICTS
from decomposerl.settings import Settings
from decomposerl.traces.rollout import Rollout


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


_DIGITS = 16


class DistillationSettings(Settings):
    """How the examples are split and balanced."""

    test_share: float = Field(0.2, gt=0, lt=1, description="share of documents for agreement")
    dev_share: float = Field(0.1, gt=0, lt=1, description="share of documents for early stopping")
    repeats: int = Field(
        8, ge=1, description="how often the examples of a rarer class are repeated at most"
    )
    per_class: int = Field(0, ge=0, description="most training examples of a class; 0: no limit")
    most_dev: int = Field(
        1_000, ge=3, description="most examples of a head for early stopping, shared by its classes"
    )
    seed: int = Field(42, ge=0, description="part of the hash that splits the documents")


@dataclass(frozen=True, slots=True)
class RuledCall:
    """A call with its ruling (``Ruling.text``), and the trace's claim and document."""

    call: JudgeCall
    ruling: str
    claim_id: str
    claim: str
    document: str


@dataclass(frozen=True, slots=True)
class HeadExamples:
    """A head's examples for training, balanced by repeating, and for early stopping.

    ``constant`` is the class that it always gives, where the rulings are too one-sided to learn
    from; else empty.
    """

    train: pl.DataFrame
    dev: pl.DataFrame
    constant: str


def ruled_calls(rollouts: Sequence[Rollout], rulings: Mapping[str, Ruling]) -> Iterable[RuledCall]:
    """The calls of traces that have a ruling, each trace's own; ``rulings`` by call key."""
    for rollout in rollouts:
        for call in needed_calls(rollout).values():
            text = rulings[call.key].text if call.key in rulings else None
            if text is not None:
                yield RuledCall(call, text, rollout.group, rollout.claim, rollout.evidence)


def judge_examples(
    ruled: Iterable[RuledCall], teacher: str, settings: DistillationSettings
) -> pl.DataFrame:
    """``JUDGE_EXAMPLES``: one row per head and distinct call, sorted by head and call key.

    ``selected`` are the training rows that repeating can balance, at most an equal share of
    ``most_dev`` of each class of dev, and every test row.
    """
    calls = {one.call.key: one for one in ruled}
    documents = _documents([(one.claim, one.document) for one in calls.values()])
    rows = [
        (head.name, key, *texts_of(one.call), head.label(one.ruling), one.claim_id, document)
        for (key, one), document in zip(calls.items(), documents, strict=True)
        for head in heads_of(one.call.task)
    ]
    columns = ("head", "call_key", "text", "context", "label", "claim_id", "document")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String()), orient="row")
    split = {one: _split(one, settings) for one in documents}
    frame = frame.with_columns(
        split=pl.col("document").replace_strict(split, return_dtype=pl.String()),
        teacher=pl.lit(teacher),
    )
    frame = _with_each_class_in_dev(frame, settings)
    return JUDGE_EXAMPLES.conform(_selected(frame, settings).sort("head", "call_key"))


def head_examples(examples: pl.DataFrame, head: Head, least: int) -> HeadExamples:
    """The selected examples of a head; with fewer than ``least`` of a class it is constant.

    Raises:
        TrainingError: there is no training example at all, or no document for early stopping.
    """
    own = examples.filter(head=head.name)
    train, dev = (own.filter(pl.col("selected"), split=name) for name in ("train", "dev"))
    seen = own.filter(split="train")["label"].value_counts(sort=True)
    if seen.is_empty():
        raise TrainingError(
            f"there is no ruling for head '{head.name}': train a policy with all rewards first"
        )
    classes = [train.filter(label=label) for label in head.classes]
    if min(one.height for one in classes) < least:
        return HeadExamples(train.clear(), dev, seen["label"][0])
    if dev.is_empty():
        raise TrainingError(
            f"head '{head.name}' has no document for early stopping: raise dev_share of asset "
            "judge_distillation, or train a policy on more claims"
        )
    most = max(one.height for one in classes)
    balanced = pl.concat([one[[row % one.height for row in range(most)]] for one in classes])
    return HeadExamples(balanced, dev, "")


def example_counts(examples: pl.DataFrame) -> pl.DataFrame:
    """Rows by head, class and split, all and selected, in the order of ``HEADS``."""
    order = {head.name: place for place, head in enumerate(HEADS)}
    return (
        examples.group_by("head", "label", "split")
        .agg(rows=pl.len(), selected=pl.col("selected").sum(), documents=pl.n_unique("document"))
        .sort(pl.col("head").replace_strict(order, return_dtype=pl.Int64()), "label", "split")
    )


def _with_each_class_in_dev(frame: pl.DataFrame, settings: DistillationSettings) -> pl.DataFrame:
    """Moves training documents of a head to dev, whole, where dev lacks one of its classes.

    As many of those that hold the class as dev's share of documents, at least one; each class keeps
    one for training. Names of documents are hashes, so that the least ones are a draw.
    """
    share = settings.dev_share / (1 - settings.test_share)
    moved = [
        (name, document)
        for (name,), own in frame.group_by("head", maintain_order=True)
        for document in _moved(own, share)
    ]
    schema = {"head": pl.String(), "document": pl.String()}
    moves = pl.DataFrame(moved, schema, orient="row").with_columns(moves=pl.lit(True))
    joined = frame.join(moves, on=("head", "document"), how="left", maintain_order="left")
    split = pl.when("moves", split="train").then(pl.lit("dev")).otherwise("split")
    return joined.with_columns(split=split).drop("moves")


def _moved(own: pl.DataFrame, share: float) -> set[str]:
    """The training documents of one head that become dev."""
    train, dev = own.filter(split="train"), own.filter(split="dev")
    pairs = train.select("document", "label").unique()
    labels = dict(pairs.group_by("document").agg("label").rows())
    holders = dict(pairs.group_by("label").agg(pl.col("document").sort()).rows())
    stay = {label: len(documents) for label, documents in holders.items()}
    moved: set[str] = set()
    for label in sorted(holders.keys() - set(dev["label"])):
        left = max(int(len(holders[label]) * share), 1)
        for document in holders[label]:
            if document not in moved:
                if any(stay[one] == 1 for one in labels[document]):
                    continue  # the last one of a class
                moved.add(document)
                for one in labels[document]:
                    stay[one] -= 1
            left -= 1
            if not left:
                break
    return moved


def _selected(frame: pl.DataFrame, settings: DistillationSettings) -> pl.DataFrame:
    """With ``selected``. Call keys are hashes, so that their order is a draw."""
    cell = ("head", "split", "label")
    spread = frame.sort("call_key").with_columns(  # every document once before any twice
        turn=pl.int_range(pl.len()).over(*cell, "document"),
        size=pl.len().over(*cell),
    )
    placed = spread.sort("turn", "call_key").with_columns(
        place=pl.int_range(pl.len()).over(*cell),
        rarest=pl.col("size").min().over("head", "split"),
        classes=pl.col("label").n_unique().over("head", "split"),
    )
    most = pl.col("rarest") * settings.repeats
    if settings.per_class:
        most = pl.min_horizontal(most, settings.per_class)
    chosen = (
        pl.when(split="train")
        .then(pl.col("place") < most)
        .when(split="dev")
        .then(pl.col("place") < settings.most_dev // pl.col("classes"))
        .otherwise(pl.lit(True))
    )
    return placed.with_columns(selected=chosen).drop("turn", "size", "place", "rarest", "classes")


def _documents(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """For each claim and document the name of its connected part: its least hash."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = [(_hash("claim", claim), _hash("document", text)) for claim, text in pairs]
    names = sorted({name for pair in ends for name in pair})
    number = {name: place for place, name in enumerate(names)}
    left, right = ([number[pair[side]] for pair in ends] for side in (0, 1))
    edges = coo_array(([1] * len(ends), (left, right)), shape=(len(names), len(names)))
    _, part = connected_components(edges, directed=False)
    least: dict[int, str] = {}
    for name in names:
        least.setdefault(int(part[number[name]]), name)
    return [least[int(part[place])] for place in left]


def _split(document: str, settings: DistillationSettings) -> str:
    share = int(_hash(str(settings.seed), document), 16) / 16**_DIGITS
    if share < settings.test_share:
        return "test"
    return "dev" if share < settings.test_share + settings.dev_share else "train"


def _hash(kind: str, text: str) -> str:
    content = f"{kind}\x1f{text}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
