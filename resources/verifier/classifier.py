"""A user's own verifier with a sequence-classification head, in this process (transformers).

FactCG, the MiniCheck classifiers and NLI models are of this kind. Evidence is read in chunks, and
the best chunk counts. A model reads chunk and claim as a pair of texts, or one text that its
training form makes of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from decomposerl.endpoint import NumberType
from decomposerl.errors import ConfigError
from decomposerl.evaluation.entries import VERIFIER, SystemEntry
from decomposerl.prompts.template import PromptFile, inline_prompt
from resources.hub.access import digest_of
from resources.hub.locks import MAIN, Pin, as_named
from resources.verifier.in_process import InProcess, batches, model_folder
from resources.verifier.questions import ClaimSplit, Pair, claim_split_of, combined, questions

RULES = 1
"""Increase it when this file or its neighbours change any probability."""
_BATCH_TOKENS = 16_384
_CUTS = 4


@dataclass(frozen=True)
class ClassifierVerifier:
    """A ``Verifier`` on transformers, loaded with the first pair.

    ``model`` is a folder, or a hub model that is on this machine at ``revision``; ``pin`` gives
    the commit for it. ``form`` has the section ``pair``; None gives the tokenizer two texts.
    ``supported_class`` is the index of support among the classes; with a single class its logit is
    that of support. Chunks have at most ``chunk`` tokens, a question ``context``: the end of a
    longer chunk is cut.
    """

    model: str
    revision: str = "main"
    form: PromptFile | None = None
    supported_class: int = 1
    chunk: int = 400
    context: int = 512
    claim_split: ClaimSplit = "whole"
    device: str = "cpu"
    dtype: NumberType = "float32"
    pin: Pin = as_named

    @classmethod
    def of(cls, entry: SystemEntry, device: str, pin: Pin) -> Self:
        """The verifier of an entry, on ``device`` unless it names its own."""
        form = inline_prompt(VERIFIER, {"pair": entry.pair}) if entry.pair else None
        return cls(
            entry.model,
            entry.revision or MAIN,
            form,
            entry.supported_class,
            entry.chunk or cls.chunk,
            entry.context or cls.context,
            claim_split_of(entry.model, entry.claim_split),
            entry.device or device,
            entry.dtype,
            pin,
        )

    @cached_property
    def engine(self) -> str:
        """Model and commit (content digest, for a folder), and each setting that decides.

        Raises:
            EngineMissing: the model is not on this machine.
        """
        folder = self._folder
        local = Path(self.model).is_dir()
        version = f"{folder.name}-{digest_of(folder)}" if local else f"{self.model}@{folder.name}"
        label = f"prompt=file@{self.form.digest[:12]}" if self.form else "pair"
        return (
            f"classifier:{version}:{self.dtype} {label} class={self.supported_class} "
            f"chunk={self.chunk}/{self.context} claim={self.claim_split} r{RULES}"
        )

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """P(supported) of each ``(evidence, claim)`` pair, shape (n,), range 0..1.

        Raises:
            EngineMissing: torch, transformers or the model is missing.
            ConfigError: the model has no class ``supported_class``.
        """
        asked = questions(pairs, self.chunk, self._loaded.sizes, self.claim_split)
        rows = [self._encoded(*one) for one in asked.asked]
        scores = np.empty(len(rows), np.float64)
        for batch in batches([len(row["input_ids"]) for row in rows], _BATCH_TOKENS):
            scores[batch] = self._scores([rows[place] for place in batch])
        return combined(scores, asked.shapes)

    def _encoded(self, chunk: str, claim: str) -> dict[str, list[int]]:
        """The tokenizer's fields of one question, at most ``context`` tokens."""
        encoded = self._fields(chunk, claim)
        for _ in range(_CUTS):  # text cut at a token may be read as more of them
            surplus = len(encoded["input_ids"]) - self.context
            if surplus <= 0:
                return encoded
            (ids,) = self._loaded.ids([chunk])
            chunk = self._loaded.tokenizer.decode(ids[: max(len(ids) - surplus, 0)])
            encoded = self._fields(chunk, claim)
        return {name: values[: self.context] for name, values in encoded.items()}

    def _fields(self, chunk: str, claim: str) -> dict[str, list[int]]:
        if self.form is None:
            return dict(self._loaded.tokenizer(chunk, claim, verbose=False))
        text = self.form.filled("pair", document=chunk, claim=claim)
        return dict(self._loaded.tokenizer(text, verbose=False))

    def _scores(self, rows: Sequence[dict[str, list[int]]]) -> NDArray[np.float64]:
        import torch

        inputs = self._loaded.padded(rows)
        with torch.inference_mode():
            logits = self._loaded.model(**inputs).logits.float()
        classes = logits.shape[-1]
        if classes == 1:
            chances = logits.sigmoid()[:, 0]
        elif self.supported_class < classes:
            chances = logits.softmax(dim=-1)[:, self.supported_class]
        else:
            raise ConfigError(
                f"{self.model} has {classes} classes, 0 to {classes - 1}; supported_class is "
                f"{self.supported_class}"
            )
        return np.asarray(chances.cpu().numpy(), dtype=np.float64)

    @cached_property
    def _folder(self) -> Path:
        return model_folder(self.model, self.revision, self.pin)

    @cached_property
    def _loaded(self) -> InProcess:
        kind = "AutoModelForSequenceClassification"
        return InProcess(self._folder, kind, self.dtype, self.device)
