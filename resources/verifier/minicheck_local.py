"""MiniCheck's three local models: Flan-T5-Large, DeBERTa-v3-Large, RoBERTa-Large.

The public models of Tang et al. 2024 read chunks of the evidence with the claim, batched by
length. Flan-T5 reads them after a prefix, which is part of the form it was trained on; the other
two read no further words. A missing model or form is an error with the fix.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.prompts.minicheck import MiniCheckForm
from resources.hub.access import digest_of
from resources.hub.locks import Pin, as_named
from resources.verifier.chunks import words
from resources.verifier.in_process import InProcess, batches, model_folder
from resources.verifier.minicheck_form import FormSource, own_form
from resources.verifier.questions import ClaimSplit, combined, questions

ModelName = Literal["flan-t5-large", "deberta-v3-large", "roberta-large"]
RULES = 1
"""Increase it when this file or its neighbours change any probability."""
_REFUTED_ID, _SUPPORTED_ID = 3, 209


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
class LocalMiniCheck:
    """A ``Verifier`` on transformers, loaded with the first pair.

    ``path`` is a model folder; empty for ``revision`` (branch or commit) of the published
    model in the hub's local cache. ``device`` is torch's name, for example ``cuda`` or
    ``cpu``. ``batch_tokens`` is the most tokens of one batch, padding included. Neither is
    part of ``engine``: float32 answers differ by less than 1e-5 between batch shapes. ``form``
    gives Flan-T5's prefix, ``pin`` the commit that is loaded for ``revision``.
    """

    model: ModelName = "flan-t5-large"
    path: str = ""
    revision: str = "main"
    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    claim_split: ClaimSplit = "whole"
    batch_tokens: int = 16_384
    form: FormSource = own_form
    pin: Pin = as_named

    @cached_property
    def engine(self) -> str:
        """Model and revision (content hash, for a folder), and each setting that decides.

        Raises:
            EngineMissing: the model or its form is not on this machine.
        """
        facts, folder = MODELS[self.model], self._folder
        version = f"{folder.name}-{digest_of(folder)}" if self.path else folder.name[:12]
        chunk = f"{facts.budget}{facts.unit}"
        rules = f"{self._form.label}:r{RULES}" if facts.prefixed else f"r{RULES}"
        return f"minicheck:{self.model}@{version}:{self.dtype}:{chunk}:{self.claim_split}:{rules}"

    def support_probability(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """P(supported) of each ``(evidence, claim)`` pair, shape (n,), range 0..1.

        Raises:
            EngineMissing: transformers, torch, the device or the model is missing.
        """
        facts = MODELS[self.model]
        measure = words if facts.unit == "words" else self._loaded.sizes
        asked = questions(pairs, facts.budget, measure, self.claim_split)
        rows = [self._encoded(*one) for one in asked.asked]
        scores = np.empty(len(rows), dtype=np.float64)
        for batch in batches([len(row) for row in rows], self.batch_tokens):
            scores[batch] = self._scores([rows[place] for place in batch])
        return combined(scores, asked.shapes)

    def _encoded(self, chunk: str, claim: str) -> list[int]:
        """Token ids of one question, at most ``max_tokens``, cut at the end of the chunk.

        The public code cuts the end of the claim, and so judges another claim.
        """
        facts, tokenizer = MODELS[self.model], self._loaded.tokenizer
        ids = self._ids(f"{self._prefix}{chunk}{tokenizer.eos_token}{claim}")
        surplus = len(ids) - facts.max_tokens
        if surplus <= 0:
            return ids
        separator = len(self._ids(self._prefix + chunk)) - 1  # it also ends the chunk by itself
        kept = ids[: max(separator - surplus, 0)] + ids[separator:]
        return kept[: facts.max_tokens]

    def _ids(self, text: str) -> list[int]:
        return list(self._loaded.tokenizer(text, verbose=False)["input_ids"])

    def _scores(self, rows: Sequence[list[int]]) -> NDArray[np.float64]:
        """P(supported) of the questions of one batch, shape (rows,)."""
        import torch

        model = self._loaded.model
        inputs = self._loaded.padded([{"input_ids": row} for row in rows])
        with torch.inference_mode():
            if self.model == "flan-t5-large":
                start = torch.full((len(rows), 1), model.config.decoder_start_token_id)
                logits = model(**inputs, decoder_input_ids=start.to(self.device)).logits
                logits = logits[:, 0, [_REFUTED_ID, _SUPPORTED_ID]]
            else:
                logits = model(**inputs).logits
            chances = logits.float().softmax(dim=-1)[:, 1]
        return np.asarray(chances.cpu().numpy(), dtype=np.float64)

    @cached_property
    def _form(self) -> MiniCheckForm:
        return self.form()

    @cached_property
    def _prefix(self) -> str:
        return self._form.prefix if MODELS[self.model].prefixed else ""

    @cached_property
    def _folder(self) -> Path:
        return model_folder(MODELS[self.model].repo_id, self.revision, self.pin, self.path)

    @cached_property
    def _loaded(self) -> InProcess:
        prefixed = MODELS[self.model].prefixed
        kind = "AutoModelForSeq2SeqLM" if prefixed else "AutoModelForSequenceClassification"
        return InProcess(self._folder, kind, self.dtype, self.device)
