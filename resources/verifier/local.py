"""Verifiers with a model of transformers in this process: MiniCheck's three, or a user's own.

The public MiniCheck models of Tang et al. 2024 read chunks of the evidence with the claim. Flan-T5
reads them after a prefix, which is part of the form it was trained on; the other two read no
further words. A user's own has a sequence-classification head (FactCG, the MiniCheck classifiers
and NLI models are of this kind), and reads chunk and claim as a pair of texts, or one text that its
training form makes of them. The best chunk counts. What is missing is an error with its fix.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from decomposerl.endpoint import NumberType
from decomposerl.errors import ConfigError, EngineMissing
from decomposerl.evaluation.entries import VERIFIER, SystemEntry
from decomposerl.extras import require
from decomposerl.prompts.template import PromptFile, inline_prompt
from decomposerl.prompts.verifier import VerifierForm, pair_prefix
from resources.hub.locks import MAIN, Pin, as_named, cached_model, digest_of
from resources.verifier.chunks import (
    ClaimSplit,
    Measure,
    Pair,
    claim_split_of,
    combined,
    questions,
    words,
)
from resources.verifier.minicheck_form import FormSource, own_form

Fields = dict[str, list[int]]
"""What a tokenizer gives of one text, such as ``input_ids``."""
ModelName = Literal["flan-t5-large", "deberta-v3-large", "roberta-large"]
RULES = 1
"""Increase it when this file or its neighbours change any probability."""
_REFUTED_ID, _SUPPORTED_ID = 3, 209
_CUTS = 4
_SEQ2SEQ, _CLASSIFIER = "AutoModelForSeq2SeqLM", "AutoModelForSequenceClassification"


def batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Rows of similar length, at most ``most_tokens`` ids with padding; a longer row comes alone.

    The longest come first: what does not fit into memory fails at the start.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    while order:
        wide = max(most_tokens // max(lengths[order[0]], 1), 1)
        yield order[:wide]
        order = order[wide:]


@dataclass(frozen=True, kw_only=True)
class LocalVerifier(ABC):
    """A ``Verifier`` on transformers; tokenizer and model are read at their first use.

    ``revision`` is a branch or commit of a model of the hub, ``pin`` gives the commit that is
    loaded for it. ``device`` is torch's name, for example ``cuda`` or ``cpu``. ``batch_tokens`` is
    the most tokens of one batch, padding included. Neither is part of ``engine``: float32 answers
    differ by less than 1e-5 between batch shapes.
    """

    revision: str = MAIN
    device: str = "cpu"
    dtype: NumberType = "float32"
    claim_split: ClaimSplit = "whole"
    batch_tokens: int = 16_384
    pin: Pin = as_named

    @property
    @abstractmethod
    def engine(self) -> str:
        """Model and revision (content digest, for a folder), and each setting that decides.

        Raises:
            EngineMissing: the model or its form is not on this machine.
        """

    @property
    @abstractmethod
    def _cut(self) -> tuple[int, Measure]:
        """The most of a chunk, and the measure of it."""

    @abstractmethod
    def _encoded(self, chunk: str, claim: str) -> Fields:
        """The tokenizer's fields of one question, cut to what the model reads."""

    @abstractmethod
    def _chances(self, model: Any, inputs: Any) -> Any:  # noqa: ANN401 - tensors
        """P(supported) of each row of the padded ``inputs``."""

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """P(supported) of each ``(evidence, claim)`` pair, shape (n,), range 0..1.

        Raises:
            EngineMissing: transformers, torch, the device or the model is missing.
            ConfigError: the model has no such class.
        """
        asked = questions(pairs, *self._cut, self.claim_split)
        rows = [self._encoded(*one) for one in asked.asked]
        scores = np.empty(len(rows), dtype=np.float64)
        for batch in batches([len(row["input_ids"]) for row in rows], self.batch_tokens):
            columns = {name: [rows[place][name] for place in batch] for name in rows[batch[0]]}
            import torch

            model = self._model  # first: it says which device is missing
            inputs = self._tokenizer.pad(columns, return_tensors="pt").to(self.device)
            with torch.inference_mode():
                scores[batch] = self._chances(model, inputs).cpu().numpy()
        return combined(scores, asked.shapes)

    def _sizes(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, without the special ones."""
        return [len(ids) for ids in self._ids(texts)]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        encoded = self._tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [list(ids) for ids in encoded["input_ids"]]

    def _folder_of(self, model: str, path: str = "") -> Path:
        """The folder ``path``, or ``model`` where that is one, else the hub's cached model.

        Raises:
            EngineMissing: the model is not there; the message has the command that gets it.
        """
        folder: Path | None = Path(path or model)
        revision = self.revision
        if not path and not Path(model).is_dir():
            revision = self.pin(model, revision) or MAIN
            try:
                folder = cached_model(model, revision)
            except ValueError as error:
                raise EngineMissing(f"{model} is neither a folder nor a hub model") from error
        if folder is None or not (folder / "config.json").is_file():
            raise EngineMissing(
                f"the model {model} is not in {path or 'the local cache of the hub'}: hf download "
                f"{model} --revision {revision}" + (f" --local-dir {path}" if path else "")
            )
        return folder

    @property
    @abstractmethod
    def _folder(self) -> Path:
        """The folder of the model."""

    @property
    def _kind(self) -> str:
        """The class of transformers that loads it."""
        return _CLASSIFIER

    @cached_property
    def _tokenizer(self) -> Any:  # noqa: ANN401 - one of many classes without types
        """The tokenizer; a decoder's may have no padding, and then pads with its end."""
        require("transformers", "torch")
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(self._folder, local_files_only=True)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    @cached_property
    def _model(self) -> Any:  # noqa: ANN401 - one of many classes without types
        """The model on its device.

        Raises:
            EngineMissing: torch or transformers is not installed, or torch finds no such device.
        """
        require("transformers", "torch")
        import torch
        import transformers
        from transformers.utils import logging

        if self.device.startswith("cuda") and not torch.cuda.is_available():
            raise EngineMissing(f"torch finds no GPU for device '{self.device}': use device 'cpu'")
        # A progress bar for loading weights would hide the real ones.
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        model = getattr(transformers, self._kind).from_pretrained(
            self._folder, local_files_only=True, dtype=getattr(torch, self.dtype)
        )
        if model.config.pad_token_id is None:  # a decoder finds the end of a row by it
            model.config.pad_token_id = self._tokenizer.pad_token_id
        return model.eval().to(self.device)


@dataclass(frozen=True, slots=True)
class Published:
    """A published model's training lengths: in its tokens, ``budget`` in ``unit``."""

    repo_id: str
    budget: int
    unit: Literal["words", "tokens"]
    max_tokens: int
    prefixed: bool = False


MODELS: dict[str, Published] = {
    "flan-t5-large": Published(
        "lytang/MiniCheck-Flan-T5-Large", 500, "words", 2_048, prefixed=True
    ),
    "deberta-v3-large": Published("lytang/MiniCheck-DeBERTa-v3-Large", 400, "tokens", 2_048),
    "roberta-large": Published("lytang/MiniCheck-RoBERTa-Large", 400, "tokens", 512),
}


@dataclass(frozen=True)
class LocalMiniCheck(LocalVerifier):
    """One of ``MODELS``. ``path`` is its folder; empty for the hub's local cache.

    ``form`` gives Flan-T5's prefix.
    """

    model: ModelName = "flan-t5-large"
    path: str = ""
    form: FormSource = own_form

    @cached_property
    def engine(self) -> str:
        """As for any; ``revision`` by its commit."""
        facts, folder = MODELS[self.model], self._folder
        version = f"{folder.name}-{digest_of(folder)}" if self.path else folder.name[:12]
        chunk = f"{facts.budget}{facts.unit}"
        rules = f"{self._form.label}:r{RULES}" if facts.prefixed else f"r{RULES}"
        return f"minicheck:{self.model}@{version}:{self.dtype}:{chunk}:{self.claim_split}:{rules}"

    @property
    def _kind(self) -> str:
        return _SEQ2SEQ if MODELS[self.model].prefixed else _CLASSIFIER

    @property
    def _cut(self) -> tuple[int, Measure]:
        facts = MODELS[self.model]
        return facts.budget, words if facts.unit == "words" else self._sizes

    def _encoded(self, chunk: str, claim: str) -> Fields:
        """At most ``max_tokens``, cut at the end of the chunk.

        The public code cuts the end of the claim, and so judges another claim.
        """
        facts, tokenizer = MODELS[self.model], self._tokenizer
        prefix = pair_prefix(self._form.prompt) if facts.prefixed else ""

        def ids_of(text: str) -> list[int]:
            return list(tokenizer(text, verbose=False)["input_ids"])

        ids = ids_of(f"{prefix}{chunk}{tokenizer.eos_token}{claim}")
        surplus = len(ids) - facts.max_tokens
        if surplus > 0:
            separator = len(ids_of(prefix + chunk)) - 1  # it also ends the chunk by itself
            ids = ids[: max(separator - surplus, 0)] + ids[separator:]
        return {"input_ids": ids[: facts.max_tokens]}

    def _chances(self, model: Any, inputs: Any) -> Any:  # noqa: ANN401 - tensors
        import torch

        if MODELS[self.model].prefixed:
            rows = len(inputs["input_ids"])
            start = torch.full((rows, 1), model.config.decoder_start_token_id)
            logits = model(**inputs, decoder_input_ids=start.to(self.device)).logits
            logits = logits[:, 0, [_REFUTED_ID, _SUPPORTED_ID]]
        else:
            logits = model(**inputs).logits
        return logits.float().softmax(dim=-1)[:, 1]

    @cached_property
    def _form(self) -> VerifierForm:
        return self.form()

    @cached_property
    def _folder(self) -> Path:
        return self._folder_of(MODELS[self.model].repo_id, self.path)


@dataclass(frozen=True)
class ClassifierVerifier(LocalVerifier):
    """A user's own classifier: a folder, or a hub model that is on this machine.

    ``form`` has the section ``pair``; None gives the tokenizer two texts. ``supported_class`` is
    the index of support among the classes; with a single class its logit is that of support. Chunks
    have at most ``chunk`` tokens, a question ``context``: the end of a longer chunk is cut.
    """

    model: str
    form: PromptFile | None = None
    supported_class: int = 1
    chunk: int = 400
    context: int = 512

    @classmethod
    def of(cls, entry: SystemEntry, device: str, pin: Pin) -> Self:
        """The verifier of an entry, on ``device`` unless it names its own."""
        return cls(
            entry.model,
            inline_prompt(VERIFIER, {"pair": entry.pair}) if entry.pair else None,
            entry.supported_class,
            entry.chunk or cls.chunk,
            entry.context or cls.context,
            revision=entry.revision or MAIN,
            device=entry.device or device,
            dtype=entry.dtype,
            claim_split=claim_split_of(entry.model, entry.claim_split),
            pin=pin,
        )

    @cached_property
    def engine(self) -> str:
        """As for any, with the text around chunk and claim."""
        folder = self._folder
        local = Path(self.model).is_dir()
        version = f"{folder.name}-{digest_of(folder)}" if local else f"{self.model}@{folder.name}"
        label = f"prompt=file@{self.form.digest[:12]}" if self.form else "pair"
        return (
            f"classifier:{version}:{self.dtype} {label} class={self.supported_class} "
            f"chunk={self.chunk}/{self.context} claim={self.claim_split} r{RULES}"
        )

    @property
    def _cut(self) -> tuple[int, Measure]:
        return self.chunk, self._sizes

    def _encoded(self, chunk: str, claim: str) -> Fields:
        encoded = self._fields(chunk, claim)
        for _ in range(_CUTS):  # text cut at a token may be read as more of them
            surplus = len(encoded["input_ids"]) - self.context
            if surplus <= 0:
                return encoded
            (ids,) = self._ids([chunk])
            chunk = self._tokenizer.decode(ids[: max(len(ids) - surplus, 0)])
            encoded = self._fields(chunk, claim)
        return {name: values[: self.context] for name, values in encoded.items()}

    def _fields(self, chunk: str, claim: str) -> Fields:
        if self.form is None:
            return dict(self._tokenizer(chunk, claim, verbose=False))
        text = self.form.filled("pair", document=chunk, claim=claim)
        return dict(self._tokenizer(text, verbose=False))

    def _chances(self, model: Any, inputs: Any) -> Any:  # noqa: ANN401 - tensors
        logits = model(**inputs).logits.float()
        classes = logits.shape[-1]
        if classes == 1:
            return logits.sigmoid()[:, 0]
        if self.supported_class < classes:
            return logits.softmax(dim=-1)[:, self.supported_class]
        raise ConfigError(
            f"{self.model} has {classes} classes, 0 to {classes - 1}; supported_class is "
            f"{self.supported_class}"
        )

    @cached_property
    def _folder(self) -> Path:
        return self._folder_of(self.model)
