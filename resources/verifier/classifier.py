"""A user's own verifier with a sequence-classification head, in this process (transformers).

FactCG, the MiniCheck classifiers and NLI models are of this kind. Evidence is read in chunks, and
the best chunk counts. A model reads chunk and claim as a pair of texts, or one text that its
training form makes of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.endpoint import NumberType
from decomposerl.errors import ConfigError, EngineMissing
from decomposerl.extras import require
from decomposerl.prompts.template import PromptFile
from resources.hub.access import cached_model, digest_of
from resources.hub.locks import Pin, as_named
from resources.verifier.batches import batches
from resources.verifier.questions import ClaimSplit, Pair, combined, questions

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
        asked = questions(pairs, self.chunk, self._sizes, self.claim_split)
        rows = [self._encoded(*one) for one in asked.asked]
        scores = np.empty(len(rows), np.float64)
        for batch in batches([row["input_ids"] for row in rows], _BATCH_TOKENS):
            scores[batch.rows] = self._scores([rows[place] for place in batch.rows])
        return combined(scores, asked.shapes)

    def _sizes(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self._plain(texts)] if texts else []

    def _plain(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self._tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [list(ids) for ids in encoded["input_ids"]]

    def _encoded(self, chunk: str, claim: str) -> dict[str, list[int]]:
        """The tokenizer's fields of one question, at most ``context`` tokens."""
        encoded = self._fields(chunk, claim)
        for _ in range(_CUTS):  # text cut at a token may be read as more of them
            surplus = len(encoded["input_ids"]) - self.context
            if surplus <= 0:
                return encoded
            (ids,) = self._plain([chunk])
            chunk = self._tokenizer.decode(ids[: max(len(ids) - surplus, 0)])
            encoded = self._fields(chunk, claim)
        return {name: values[: self.context] for name, values in encoded.items()}

    def _fields(self, chunk: str, claim: str) -> dict[str, list[int]]:
        if self.form is None:
            return dict(self._tokenizer(chunk, claim, verbose=False))
        text = self.form.filled("pair", document=chunk, claim=claim)
        return dict(self._tokenizer(text, verbose=False))

    def _scores(self, rows: Sequence[dict[str, list[int]]]) -> NDArray[np.float64]:
        import torch

        columns = {name: [row[name] for row in rows] for name in rows[0]}
        inputs = self._tokenizer.pad(columns, return_tensors="pt").to(self.device)
        with torch.inference_mode():
            logits = self._model(**inputs).logits.float()
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
        if Path(self.model).is_dir():
            return Path(self.model)
        revision = self.pin(self.model, self.revision) or "main"
        try:
            folder = cached_model(self.model, revision)
        except ValueError as error:
            raise EngineMissing(f"{self.model} is neither a folder nor a hub model") from error
        if folder is None or not (folder / "config.json").is_file():
            raise EngineMissing(
                f"the model {self.model} is not on this machine: hf download {self.model} "
                f"--revision {revision}"
            )
        return folder

    @cached_property
    def _tokenizer(self) -> Any:  # noqa: ANN401 - one of many classes without types
        require("transformers", "torch")
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(self._folder, local_files_only=True)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    @cached_property
    def _model(self) -> Any:  # noqa: ANN401 - the same
        require("transformers", "torch")
        import torch
        from transformers import AutoModelForSequenceClassification
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        model: Any = AutoModelForSequenceClassification.from_pretrained(
            self._folder, local_files_only=True, dtype=getattr(torch, self.dtype)
        )
        if model.config.pad_token_id is None:  # a decoder finds the end of a row by it
            model.config.pad_token_id = self._tokenizer.pad_token_id
        return model.eval().to(self.device)
