"""A language model in this process as a ``MethodCaller``: a trained policy, or any base model.

Calls of one kind are sorted by length, padded on the left and generated in batches of a fixed size.
Log probabilities are of the same scores that the token was chosen from.

A prompt that does not fit beside its reply is never cut: the call fails with its length. Samples
are reproducible for the same claims; a resumed run draws the remaining ones independently.
"""

import hashlib
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from decomposerl.baselines.method import ModelCall, ModelReply
from decomposerl.chat import Token
from decomposerl.endpoint import Endpoint
from decomposerl.errors import EngineError, EngineMissing
from decomposerl.evaluation.systems import CONTEXTS
from decomposerl.extras import require
from decomposerl.prompts.escape import escaped
from resources.evaluation.runner import TOO_LONG, Details, MethodPrompts, Reply
from resources.hub.adapters import adapter_problem
from resources.hub.locks import MAIN, cached_model

_READ = frozenset({".safetensors", ".json", ".jinja", ".txt", ".model"})
SMALL = 10_000_000
"""Parameters below which a matrix product is too short to be shared by threads."""


def weights_name(model: Endpoint) -> str:
    """Model, adapter and number type, with digests of files that training may rewrite."""
    folder, name = Path(model.model), f"{model.model}@{model.revision or MAIN}"
    if folder.is_dir():
        name = f"{folder.name}:{weights_digest(folder)}"
    if model.adapter:
        name += f" adapter:{weights_digest(Path(model.adapter))}"
    return f"{name} {model.dtype}"


def load_weights(model: Endpoint, name: str = "") -> tuple[Any, Any]:
    """The model and its tokenizer; greedy, unless a call says otherwise.

    ``OSError``: there is no such model. ``EngineError``: the adapter does not change the model as
    it should, or was replaced since ``name`` (``weights_name``) was read.
    """
    require("torch", "transformers", *(["peft"] if model.adapter else []))
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    # A progress bar for loading would hide the run's own.
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    at: dict[str, Any] = {"revision": model.revision or MAIN}
    tokenizer: Any = AutoTokenizer.from_pretrained(model.model, **at)
    dtype = getattr(torch, model.dtype)
    loaded: Any = AutoModelForCausalLM.from_pretrained(model.model, dtype=dtype, **at)
    stored = loaded.generation_config.eos_token_id
    ends = [*(stored if isinstance(stored, list) else [stored]), tokenizer.eos_token_id]
    ends = [token for token in dict.fromkeys(ends) if token is not None]
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else ends[0]
    # Defaults stored with weights (a penalty, a temperature) would not be greedy decoding.
    defaults: Any = transformers.GenerationConfig
    loaded.generation_config = defaults(eos_token_id=ends, pad_token_id=padding)
    if adapter := model.adapter:
        from peft import PeftModel

        with warnings.catch_warnings():
            # Missing keys are an error below; the other is of peft's own code.
            warnings.filterwarnings("ignore", "Found missing adapter keys", UserWarning)
            warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
            loaded = PeftModel.from_pretrained(loaded, adapter)
        if problem := adapter_problem(loaded, Path(adapter)):
            raise EngineError(f"the adapter {adapter} is refused: {problem}")
        if model.dtype == "float32":  # in fewer bits the sum would lose some of the adapter
            loaded = loaded.merge_and_unload()
        if name and f"adapter:{weights_digest(Path(adapter))}" not in name:
            raise EngineError(f"{adapter} was replaced while it was read: start again")
    return loaded.to(model.device or "cpu").eval(), tokenizer


@contextmanager
def few_threads(model: Any) -> Iterator[None]:  # noqa: ANN401 - of transformers
    """One thread of the processor for a small model, for which more only wait for another."""
    import torch

    before = torch.get_num_threads()
    small = sum(one.numel() for one in model.parameters()) < SMALL
    torch.set_num_threads(1 if small else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def context_of(model: Endpoint) -> int:
    """Tokens of prompt and reply together that a model reads; 0 where that is not known.

    By its settings, by its name, else by the configuration on this machine.
    """
    if (known := model.context or CONTEXTS.get(model.model, 0)) or not model.model:
        return known
    folder: Path | None = Path(model.model)
    with suppress(EngineMissing, ValueError, OSError):  # what is damaged fails as it is loaded
        if not Path(model.model).is_dir():
            folder = cached_model(model.model, model.revision or MAIN)
        if folder is not None:
            config = json.loads((folder / "config.json").read_text("utf-8"))
            return int(config.get("max_position_embeddings") or 0)
    return 0


def weights_digest(folder: Path) -> str:
    """12 hex digits of SHA-256 over weights, config, tokenizer and chat template.

    An adapter has the same digest wherever its base lies, and in any order of its modules;
    ``EngineError`` where its configuration cannot be read.
    """
    digest = hashlib.sha256()
    for path in sorted(file for file in folder.iterdir() if file.suffix in _READ):
        digest.update(path.name.encode() + b"\0")
        if path.name != "adapter_config.json":
            with path.open("rb") as handle:
                digest.update(hashlib.file_digest(handle, "sha256").digest())
            continue
        try:
            config = {**json.loads(path.read_text("utf-8"))}
        except (ValueError, TypeError, RecursionError) as error:
            raise EngineError(f"{path} is no adapter's configuration: {error}") from error
        config.pop("base_model_name_or_path", None)
        modules = config.get("target_modules")
        config["target_modules"] = sorted(modules) if isinstance(modules, list) else modules
        digest.update(json.dumps(config, sort_keys=True).encode())
    return digest.hexdigest()[:12]


RULES = 1
"""Part of the prompt's hash; raise it whenever this file changes any answer."""
_Job = tuple[int, ModelCall, list[int]]
"""A call with its index in the request, and the tokens of its prompt."""


def _kind(job: _Job) -> tuple[int, float, tuple[str, ...], int]:
    """What the calls of a batch share."""
    return job[1].max_tokens, job[1].temperature, job[1].stop, job[1].sample


class _TopLogprobs:
    """A logits processor that records top log probabilities and changes nothing.

    Scores are (batch, vocabulary), before any temperature. ``count`` of them are kept per step: a
    whole vocabulary per step, as ``output_logits`` keeps it, would not fit into memory.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._last: Any = None
        self._chosen: list[Any] = []
        self._top: list[tuple[Any, Any]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ANN401 - tensors
        """Record this step's scores, and the token that the previous step chose."""
        if self._last is not None:
            self._chosen.append(self._last.gather(1, input_ids[:, -1:])[:, 0])
        self._last = scores.float().log_softmax(dim=-1)
        self._top.append(tuple(self._last.topk(self._count, dim=-1)))
        return scores

    def rows(self, generated: Any, tokenizer: Any) -> Iterator[Iterator[Token]]:  # noqa: ANN401 - a tensor
        """The chosen tokens of each row (batch, steps), each made when it is taken."""
        import torch

        def text(number: int) -> str:
            return str(tokenizer.decode([number], clean_up_tokenization_spaces=False))

        self._chosen.append(self._last.gather(1, generated[:, -1:])[:, 0])
        values, indices = zip(*self._top, strict=True)
        columns = (torch.stack(part, dim=1).tolist() for part in (self._chosen, indices, values))
        for row in zip(generated.tolist(), *columns, strict=True):
            yield (
                Token(text(number), chosen, tuple(zip(map(text, ids), likely, strict=True)))
                for number, chosen, ids, likely in zip(*row, strict=True)
            )


class LocalModel:
    """A ``MethodCaller`` over transformers."""

    concurrent = False
    claims_at_once = 256

    def __init__(
        self,
        model: Endpoint,
        prompts: MethodPrompts | None = None,
        *,
        size: int = 16,
        top_logprobs: int = 5,
        seed: int = 42,
    ) -> None:
        """``model`` is a folder or of the hub, its adapter a folder; loaded at the first call.

        ``size`` prompts are generated together. Replies carry the ``top_logprobs`` most likely
        tokens at each position; samples are drawn from ``seed`` and their own number.
        """
        self._of, self._prompts = model, prompts or MethodPrompts()
        self._size, self._top_logprobs, self._seed = size, top_logprobs, seed

    @cached_property
    def engine(self) -> str:
        """The weights by their content."""
        return f"transformers:{weights_name(self._of)}"

    def details(self) -> Details:
        """None."""
        return {}

    def prompt_hash(self, prompt: str) -> str:
        """Over the prompt file, the seed and the number of top log probabilities."""
        return self._prompts.hash(prompt, [RULES, self._seed, self._top_logprobs])

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply per call, in order; errors as of the port and of ``load_weights``."""
        replies: dict[int, Reply] = {}
        model, _ = self._loaded
        jobs = [(place, call, self._ids(prompt, call)) for place, call in enumerate(calls)]
        # Longest first: a batch that does not fit in memory fails at once.
        jobs.sort(key=lambda job: (_kind(job), -len(job[2])))
        for _, alike in groupby(jobs, _kind):
            fitting = list[_Job]()
            for place, call, ids in alike:
                most = model.config.max_position_embeddings - call.max_tokens
                if len(ids) <= most:
                    fitting.append((place, call, ids))
                    continue
                said = f"the prompt has {len(ids):,} tokens; {most:,} fit beside its reply"
                replies[place] = Reply(ModelReply("", failure=f"{TOO_LONG}: {said}"), len(ids))
            for start in range(0, len(fitting), self._size):
                batch, started = fitting[start : start + self._size], time.monotonic()
                answers = self._generated(batch)
                took_s = time.monotonic() - started
                for (place, _, ids), (answer, length) in zip(batch, answers, strict=True):
                    replies[place] = Reply(answer, len(ids), length, took_s)
        return [replies[place] for place in range(len(calls))]

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        return load_weights(self._of, self.engine)

    def _ids(self, prompt: str, call: ModelCall) -> list[int]:
        """The tokens of the rendered prompt and of a transcript to continue."""
        message = {"role": "user", "content": self._prompts.filled(prompt, call)}
        _, tokenizer = self._loaded
        rendered = tokenizer.apply_chat_template(
            [message], add_generation_prompt=True, tokenize=True, return_dict=True
        )
        transcript = tokenizer(escaped(call.continues), add_special_tokens=False)
        return [*rendered["input_ids"], *transcript["input_ids"]]

    def _generated(self, batch: Sequence[_Job]) -> list[tuple[ModelReply, int]]:
        """One answer per job, of one kind all, with its number of tokens."""
        import torch

        (model, tokenizer), call = self._loaded, batch[0][1]
        width = max(len(ids) for _, _, ids in batch)
        padding = model.generation_config.pad_token_id
        padded = [[padding] * (width - len(ids)) + ids for _, _, ids in batch]
        mask = [[0] * (width - len(ids)) + [1] * len(ids) for _, _, ids in batch]
        chosen: dict[str, Any] = {"do_sample": call.temperature > 0}
        if call.temperature > 0:
            chosen |= {"temperature": call.temperature, "top_k": 0, "top_p": 1.0}
        if call.stop:
            chosen |= {"stop_strings": list(call.stop), "tokenizer": tokenizer}
        recorder = _TopLogprobs(self._top_logprobs)
        devices = [] if model.device.type == "cpu" else [model.device]
        with few_threads(model), torch.inference_mode(), torch.random.fork_rng(devices):
            torch.manual_seed(self._seed + call.sample)
            whole = model.generate(
                input_ids=torch.tensor(padded, device=model.device),
                attention_mask=torch.tensor(mask, device=model.device),
                max_new_tokens=call.max_tokens,
                logits_processor=[recorder],
                **chosen,
            )
        generated = whole[:, width:]
        rows = zip(generated.tolist(), recorder.rows(generated, tokenizer), strict=True)
        return [self._answer(call, *row) for row in rows]

    def _answer(
        self, call: ModelCall, row: list[int], tokens: Iterator[Token]
    ) -> tuple[ModelReply, int]:
        """The answer of one row: up to its end token, or to where a stop string begins."""
        model, tokenizer = self._loaded
        ends = model.generation_config.eos_token_id
        length = next((n for n, token in enumerate(row) if token in ends), len(row))
        # Tags of a trace are no special tokens and are kept.
        text: str = tokenizer.decode(
            row[:length], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        cut = min((start for stop in call.stop if (start := text.find(stop)) >= 0), default=None)
        ended = length < len(row) or cut is not None
        answer = ModelReply(text[:cut], truncated=not ended, tokens=tuple(islice(tokens, length)))
        return answer, min(length + 1, len(row))
