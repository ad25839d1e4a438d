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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

from decomposerl.endpoint import NumberType
from decomposerl.errors import EngineMissing
from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.judge.heads import HEADS, Head, heads_of, published_text, ruling_of, texts_of
from resources.hub.access import digest_of
from resources.judge.encoder import Encoder, Form, length_batches
from resources.store.integrity import file_sha256, verified

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
