"""A language model in this process as a ``MethodCaller``: a trained policy, or any base model.

Calls of one kind are sorted by length, padded on the left and generated in batches of a fixed size.
Replies carry the log probability of each token and its top log probabilities, from the same scores
that the token was chosen from. Prompts are rendered by the model's chat template.

A prompt that does not fit beside its reply is never cut: the call fails with its length. Samples
are reproducible for the same claims; a resumed run draws the remaining ones independently.
``Weights`` name what was loaded by its content.
"""

import hashlib
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from decomposerl.baselines.method import ModelCall, ModelReply
from decomposerl.chat import Token
from decomposerl.errors import EngineError, EngineMissing
from decomposerl.extras import require
from decomposerl.prompts.escape import escaped
from resources.evaluation.runner import TOO_LONG, MethodPrompts, Reply
from resources.hub.access import cached_model
from resources.hub.adapters import ADAPTER_FILE, adapter_problem

DataType = Literal["float32", "bfloat16", "float16"]
_ADAPTER_CONFIG = "adapter_config.json"
_BASE = "base_model_name_or_path"
_READ = frozenset({".safetensors", ".json", ".jinja", ".txt", ".model"})
_SHOWN = 12
SMALL = 10_000_000
"""Parameters below which a matrix product is too short to be shared by threads."""


@dataclass(frozen=True)
class Weights:
    """A model's weights, their device and number type.

    ``base`` is a model folder (also of merged weights) or a hub name with its ``revision``;
    ``adapter`` a folder of LoRA weights, empty for none. ``device`` is torch's name.
    """

    base: str
    adapter: str = ""
    revision: str = "main"
    device: str = "cpu"
    dtype: DataType = "float32"

    @cached_property
    def name(self) -> str:
        """Base, adapter and number type, with digests of files that training may rewrite.

        Raises:
            EngineError: the adapter's folder has no adapter.
        """
        folder = Path(self.base)
        local = folder.is_dir()
        parts = [
            f"{folder.name}:{weights_digest(folder)}" if local else f"{self.base}@{self.revision}"
        ]
        if self.adapter:
            if not (Path(self.adapter) / ADAPTER_FILE).is_file():
                raise EngineError(f"{self.adapter} holds no {ADAPTER_FILE}; train the policy first")
            parts.append(f"adapter:{weights_digest(Path(self.adapter))}")
        return " ".join([*parts, self.dtype])

    def load(self) -> "LoadedModel":
        """Read model and tokenizer.

        Raises:
            OSError: there is no such model.
            EngineMissing: torch, transformers or peft is not installed.
            EngineError: the adapter does not change the model, or not all that it should; or
                another run replaced it since ``name`` was read.
        """
        require("torch", "transformers", *(["peft"] if self.adapter else []))
        import torch
        import transformers
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        # A progress bar for loading would hide the run's own.
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        tokenizer: Any = AutoTokenizer.from_pretrained(self.base, revision=self.revision)
        model: Any = AutoModelForCausalLM.from_pretrained(
            self.base, revision=self.revision, dtype=getattr(torch, self.dtype)
        )
        ends = _ends(model.generation_config.eos_token_id, tokenizer.eos_token_id)
        padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else ends[0]
        # Defaults stored with weights (a penalty, a temperature) would not be greedy decoding.
        defaults: Any = transformers.GenerationConfig
        model.generation_config = defaults(eos_token_id=ends, pad_token_id=padding)
        if self.adapter:
            from peft import PeftModel

            with quiet_peft():
                model = PeftModel.from_pretrained(model, self.adapter)
            if problem := adapter_problem(model, Path(self.adapter)):
                raise EngineError(f"the adapter {self.adapter} is refused: {problem}")
            if self.dtype == "float32":  # in fewer bits the sum would lose some of the adapter
                model = model.merge_and_unload()
            if f"adapter:{weights_digest(Path(self.adapter))}" not in self.name:
                raise EngineError(f"{self.adapter} was replaced while it was read: start again")
        return LoadedModel(model.to(self.device).eval(), tokenizer, tuple(ends), padding)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A transformers model with its tokenizer; ``ends`` are the tokens that end a reply."""

    model: Any
    tokenizer: Any
    ends: tuple[int, ...]
    padding: int

    @contextmanager
    def threads(self) -> Iterator[None]:
        """One thread of the processor for a small model, for which more only wait for another."""
        import torch

        before = torch.get_num_threads()
        small = sum(one.numel() for one in self.model.parameters()) < SMALL
        torch.set_num_threads(1 if small else before)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @property
    def context(self) -> int:
        """Maximum number of tokens of prompt and reply together."""
        return int(self.model.config.max_position_embeddings)


@contextmanager
def quiet_peft() -> Iterator[None]:
    """Silence two warnings of peft: of missing keys, which are an error here, and of its own code.

    It reads a transformers flag by its former name.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found missing adapter keys", UserWarning)
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        yield


def _ends(*ids: int | list[int] | None) -> list[int]:
    """All token ids without repetition, in order."""
    lists = [each if isinstance(each, list) else [each] for each in ids if each is not None]
    return list(dict.fromkeys(token for each in lists for token in each))


def context_of(base: str, revision: str = "main") -> int:
    """Tokens that a model reads, by the configuration on this machine; 0 where there is none."""
    if not base:
        return 0
    try:
        folder = Path(base) if Path(base).is_dir() else cached_model(base, revision)
    except (EngineMissing, ValueError):
        return 0
    file = None if folder is None else folder / "config.json"
    if file is None or not file.is_file():
        return 0
    return int(json.loads(file.read_text("utf-8")).get("max_position_embeddings") or 0)


def weights_digest(folder: Path) -> str:
    """12 hex digits of SHA-256 over weights, config, tokenizer and chat template.

    An adapter has the same digest wherever its base lies.

    Raises:
        EngineError: an adapter's configuration cannot be read.
    """
    digest = hashlib.sha256()
    for path in sorted(one for one in folder.iterdir() if one.suffix in _READ):
        digest.update(path.name.encode() + b"\0")
        if path.name == _ADAPTER_CONFIG:
            digest.update(_adapter_config(path))
            continue
        with path.open("rb") as handle:
            digest.update(hashlib.file_digest(handle, "sha256").digest())
    return digest.hexdigest()[:_SHOWN]


def _adapter_config(path: Path) -> bytes:
    """What peft wrote, without the base's path and the order of a set of modules."""
    try:
        config: dict[str, Any] = dict(json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError, RecursionError) as error:
        raise EngineError(f"{path} is no adapter's configuration: {error}") from error
    config.pop(_BASE, None)
    modules = config.get("target_modules")
    config["target_modules"] = sorted(modules) if isinstance(modules, list) else modules
    return json.dumps(config, sort_keys=True).encode()


RULES = 1
"""Part of the prompt's hash; raise it whenever this file changes any answer."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A call with its index in the request, and the tokens of its prompt."""

    index: int
    call: ModelCall
    ids: list[int]


class TopLogprobs:
    """A logits processor that records top log probabilities and changes nothing.

    Scores are (batch, vocabulary), before any temperature.
    """

    def __init__(self, count: int) -> None:
        """``count`` top tokens are kept per step; with 0 only the chosen token's probability."""
        self._count = count
        self._last: Any = None
        self._chosen: list[Any] = []
        self._top: list[tuple[Any, Any]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ANN401 - tensors
        """Record this step's scores, and the token that the previous step chose."""
        self._choose(input_ids)
        self._last = scores.float().log_softmax(dim=-1)
        # A few numbers per step: a whole vocabulary per step would not fit into memory.
        top = self._last.topk(self._count, dim=-1)
        self._top.append((top.indices, top.values))
        return scores

    def rows(self, generated: Any, tokenizer: Any) -> Iterator[Iterator[Token]]:  # noqa: ANN401 - a tensor
        """The chosen tokens of each row (batch, steps), each made when it is taken."""
        import torch

        def text(number: int) -> str:
            return str(tokenizer.decode([number], clean_up_tokenization_spaces=False))

        self._choose(generated)
        recorded = (self._chosen, *zip(*self._top, strict=True))
        columns = (torch.stack(tuple(part), dim=1).tolist() for part in recorded)
        for row in zip(generated.tolist(), *columns, strict=True):
            yield (
                Token(text(number), chosen, tuple(zip(map(text, ids), values, strict=True)))
                for number, chosen, ids, values in zip(*row, strict=True)
            )

    def _choose(self, ids: Any) -> None:  # noqa: ANN401 - a tensor
        if self._last is not None:
            self._chosen.append(self._last.gather(1, ids[:, -1:])[:, 0])


class LocalModel:
    """A ``MethodCaller`` over transformers."""

    concurrent = False

    def __init__(
        self,
        weights: Weights,
        prompts: MethodPrompts | None = None,
        *,
        size: int = 16,
        claims_at_once: int = 256,
        top_logprobs: int = 5,
        seed: int = 42,
    ) -> None:
        """Weights are loaded with the first call of ``answer``.

        ``size`` prompts are generated together, of ``claims_at_once`` claims in progress. Replies
        carry the ``top_logprobs`` most likely tokens at each position; samples are drawn from
        ``seed`` and their own number.
        """
        self._weights, self._prompts = weights, prompts or MethodPrompts()
        self._size, self.claims_at_once = size, claims_at_once
        self._top_logprobs, self._seed = top_logprobs, seed

    @property
    def engine(self) -> str:
        """The weights by their content."""
        return f"transformers:{self._weights.name}"

    def prompt_hash(self, prompt: str) -> str:
        """Over the prompt file, the seed and the number of top log probabilities."""
        return self._prompts.hash(prompt, [RULES, self._seed, self._top_logprobs])

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply per call, in order.

        Raises:
            ConfigError: the prompt file lacks a call's section or one of its variables.
            OSError: there are no such weights.
        """
        replies: dict[int, Reply] = {}
        kinds: dict[tuple[Any, ...], list[_Job]] = {}
        jobs = [_Job(n, call, self._ids(prompt, call)) for n, call in enumerate(calls)]
        # Longest first: a batch that does not fit in memory fails at once.
        for job in sorted(jobs, key=lambda job: -len(job.ids)):
            call, size = job.call, len(job.ids)
            if size > (most := self._loaded.context - call.max_tokens):
                said = f"{TOO_LONG}: the prompt has {size:,} tokens; {most:,} fit beside its reply"
                replies[job.index] = Reply(ModelReply("", failure=said), size)
            else:
                kind = (call.max_tokens, call.temperature, call.stop, call.sample)
                kinds.setdefault(kind, []).append(job)
        size = self._size
        for alike in kinds.values():
            for batch in (alike[start : start + size] for start in range(0, len(alike), size)):
                started = time.monotonic()
                answers = self._generated(batch)
                took_s = time.monotonic() - started
                for job, (answer, length) in zip(batch, answers, strict=True):
                    replies[job.index] = Reply(answer, len(job.ids), length, took_s)
        return [replies[index] for index in range(len(calls))]

    @cached_property
    def _loaded(self) -> LoadedModel:
        return self._weights.load()

    def _ids(self, prompt: str, call: ModelCall) -> list[int]:
        """The tokens of the rendered prompt and of a transcript to continue."""
        tokenizer = self._loaded.tokenizer
        message = {"role": "user", "content": self._prompts.filled(prompt, call)}
        rendered = tokenizer.apply_chat_template(
            [message], add_generation_prompt=True, tokenize=True, return_dict=True
        )
        transcript = tokenizer(escaped(call.continues), add_special_tokens=False)["input_ids"]
        return [*rendered["input_ids"], *transcript]

    def _generated(self, batch: Sequence[_Job]) -> list[tuple[ModelReply, int]]:
        """One answer per job, of one kind all, with its number of tokens."""
        import torch

        loaded, call, device = self._loaded, batch[0].call, self._weights.device
        width = max(len(job.ids) for job in batch)
        gaps = [width - len(job.ids) for job in batch]
        ids = [[loaded.padding] * gap + job.ids for gap, job in zip(gaps, batch, strict=True)]
        mask = [[0] * gap + [1] * (width - gap) for gap in gaps]
        chosen: dict[str, Any] = {"do_sample": call.temperature > 0}
        if call.temperature > 0:
            chosen |= {"temperature": call.temperature, "top_k": 0, "top_p": 1.0}
        if call.stop:
            chosen |= {"stop_strings": list(call.stop), "tokenizer": loaded.tokenizer}
        recorder = TopLogprobs(self._top_logprobs)
        devices = [] if device == "cpu" else [device]
        with loaded.threads(), torch.inference_mode(), torch.random.fork_rng(devices):
            torch.manual_seed(self._seed + call.sample)
            whole = loaded.model.generate(
                input_ids=torch.tensor(ids, device=device),
                attention_mask=torch.tensor(mask, device=device),
                max_new_tokens=call.max_tokens,
                logits_processor=[recorder],
                **chosen,
            )
        generated = whole[:, width:]
        rows = zip(generated.tolist(), recorder.rows(generated, loaded.tokenizer), strict=True)
        return [self._answer(call, *row) for row in rows]

    def _answer(
        self, call: ModelCall, row: list[int], tokens: Iterator[Token]
    ) -> tuple[ModelReply, int]:
        """The answer of one row: up to its end token, or to where a stop string begins."""
        loaded = self._loaded
        length = next((n for n, one in enumerate(row) if one in loaded.ends), len(row))
        # Tags of a trace are no special tokens and are kept.
        text: str = loaded.tokenizer.decode(
            row[:length], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        cut = min((start for stop in call.stop if (start := text.find(stop)) >= 0), default=None)
        ended = length < len(row) or cut is not None
        answer = ModelReply(text[:cut], truncated=not ended, tokens=tuple(islice(tokens, length)))
        return answer, min(length + 1, len(row))
