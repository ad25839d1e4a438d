"""The tiny judge: eight LoRA adapters with classifiers on one encoder (paper, G.6).

A folder of trained heads::

    judge.json           encoder, its limit, teacher, version of the rulings
    <head>/head.json     what the head was trained on and how well; its class where it is constant
    <head>/              adapter and classifier as peft saves them, where it is not

A batch holds rows of all heads, and peft applies each row's adapter: one pass of the encoder for
all tasks. A question's five criteria are five rows, because adapters change every layer.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from decomposerl.errors import EngineMissing
from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.judge.heads import HEADS, Head, heads_of, ruling_of, texts_of
from resources.embedder.resource import NumberType
from resources.judge.encoder import Encoder, Fields, length_batches
from resources.store.parquet import file_sha256

FOLDER = "tiny_judge"
"""The folder of the heads in a data folder."""
JUDGE_FILE, HEAD_FILE, WEIGHTS = "judge.json", "head.json", "adapter_model.safetensors"
ENGINE = "tiny_judge:"
"""Every tiny judge's engine begins with it: none is another one's teacher."""
RULES = 2
"""Increase it when the code changes any ruling; heads of another number must be trained again."""
_DIGITS = 8
_TRAIN = "decomposerl run judge_distillation tiny_judge_heads"


@dataclass
class TinyJudge:
    """A ``Judge`` that always rules; loads its encoder with the first call.

    ``batch_tokens`` are the most of one pass, padding included. ``calls`` counts the calls judged,
    ``shortened`` the texts that did not fit.
    """

    folder: Path
    device: str = "cpu"
    dtype: NumberType = "float32"
    batch_tokens: int = 8_192
    calls: int = 0
    shortened: int = 0

    @cached_property
    def engine(self) -> str:
        """Encoder, and a digest over the encoder's limit and every head.

        Raises:
            EngineMissing: the folder holds no trained heads, or they are another encoder's or an
                earlier version's.
        """
        trained_on, now = self.record["identity"], self._encoder.identity
        if self.record.get("rules") != RULES:
            raise EngineMissing(
                f"the tiny judge in {self.folder} was trained by another version, which reads its "
                f"encoder differently: {_TRAIN}"
            )
        if now != trained_on:
            raise EngineMissing(
                f"the tiny judge in {self.folder} was trained on the encoder {trained_on}, and "
                f"{self._encoder.name} is now {now}: {_TRAIN}"
            )
        return f"{ENGINE}{now}-{self._digest}:{self.dtype} r{RULES}"

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """One ruling per call, in order.

        Raises:
            EngineMissing: torch, transformers, peft, the encoder or the heads are missing.
        """
        self.calls += len(calls)
        tasks = [(call, head) for call in calls for head in heads_of(call.task)]
        labels = self.labels([head for _, head in tasks], [texts_of(call) for call, _ in tasks])
        given = iter(labels)
        return [ruling_of([next(given) for _ in heads_of(call.task)]) for call in calls]

    def labels(self, heads: Sequence[Head], pairs: Sequence[tuple[str, str]]) -> list[str]:
        """The class that each head gives its pair of texts, in order.

        Raises:
            EngineMissing: as ``judge``.
        """
        found = [self._constants.get(head.name, "") for head in heads]
        open_ = [place for place, label in enumerate(found) if not label]
        rows, shortened = self._encoder.encoded([pairs[place] for place in open_])
        self.shortened += shortened
        for batch in length_batches(rows, self.batch_tokens):
            places = [open_[row] for row in batch]
            given = self._batch([rows[row] for row in batch], [heads[place] for place in places])
            for place, label in zip(places, given, strict=True):
                found[place] = label
        return found

    def _batch(self, rows: Sequence[Fields], heads: Sequence[Head]) -> list[str]:
        import torch

        inputs = self._encoder.padded(rows).to(self.device)
        names = [head.name for head in heads]
        with torch.inference_mode():
            logits = self._model(**inputs, adapter_names=names).logits.float().cpu()
        return [
            head.classes[int(row[: len(head.classes)].argmax())]
            for head, row in zip(heads, logits, strict=True)
        ]

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """What ``judge.json`` says.

        Raises:
            EngineMissing: there is none.
        """
        path = self.folder / JUDGE_FILE
        if not path.is_file():
            raise EngineMissing(f"there is no trained tiny judge in {self.folder}: {_TRAIN}")
        record: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
        return record

    @cached_property
    def _encoder(self) -> Encoder:
        record = self.record
        return Encoder(record["encoder"], record["revision"], record["most_tokens"])

    @cached_property
    def _constants(self) -> dict[str, str]:
        """The class of each head that is constant."""
        records = {head.name: read_head(self.folder / head.name) for head in HEADS}
        return {name: one["constant"] for name, one in records.items() if one["constant"]}

    @cached_property
    def _digest(self) -> str:
        parts: list[object] = [self.record["most_tokens"], self._constants]
        parts += [file_sha256(self.folder / head.name / WEIGHTS) for head in self._trained]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_DIGITS]

    @property
    def _trained(self) -> list[Head]:
        return [head for head in HEADS if head.name not in self._constants]

    @cached_property
    def _model(self) -> Any:  # noqa: ANN401 - peft carries no types
        base = self._encoder.model(self.dtype)
        from peft import PeftModel

        first, *others = (head.name for head in self._trained)
        model = PeftModel.from_pretrained(base, self.folder / first, adapter_name=first)
        for name in others:
            model.load_adapter(self.folder / name, adapter_name=name)
        return model.eval().to(self.device)


def read_head(folder: Path) -> dict[str, Any]:
    """What ``head.json`` says.

    Raises:
        EngineMissing: the head was not trained.
    """
    path = folder / HEAD_FILE
    if not path.is_file():
        raise EngineMissing(
            f"the tiny judge lacks head '{folder.name}' in {folder.parent}: {_TRAIN}"
        )
    record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return record
