"""Vectors from an OpenAI-compatible embedding endpoint.

Paper: ``text-embedding-3-large`` for claims, Qwen3-Embedding-8B on vLLM for questions. Texts are
sent in batches limited by items and estimated tokens, several in flight. The ``openai`` package
retries transport failures, 429 and 5xx and respects ``Retry-After`` (up to a minute). Any other
refusal, a redirect, or a reply of another model, dimension or number of vectors ends the call;
the error carries every vector received until then, because they were paid for.

The key stays in memory and is removed from every message.
"""

import asyncio
import base64
import binascii
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

from decomposerl.errors import ConfigError, EngineError
from resources.chat.connection import LoopThread, without_key
from resources.store.stored_engine import EmbeddingsStopped

if TYPE_CHECKING:
    from openai import AsyncOpenAI

BYTES_PER_TOKEN = 3
"""A cautious estimate: English has about four, Chinese about three."""
_OF_A_TEXT = {400, 413, 422}  # statuses with which an endpoint refuses one text of a batch
_SHOWN, _SAID = 80, 400
_FRAME_BYTES, _BYTES_A_NUMBER = 2**18, 32  # of a reply; a number may come as decimals
_WIDEST = 8_192  # numbers a vector where the settings do not say


@dataclass(frozen=True)
class HostedEmbedder:
    r"""An ``Embedder`` over HTTP; nothing is opened without a text.

    ``base_url`` ends in ``/v1``; ``key`` may be a function. ``revision`` is of the weights behind
    your own endpoint. ``dimensions`` requests shorter vectors (0: as they are, equally wide within
    a call). ``instruction`` precedes every text, for Qwen3 ``"Instruct: <task>\nQuery:"``. A batch
    has up to ``batch_items`` texts and about ``batch_tokens`` tokens, ``in_flight`` go out at once.
    """

    base_url: str
    model: str
    key: SecretStr | Callable[[], SecretStr] = field(default=SecretStr(""), repr=False)
    revision: str = ""
    dimensions: int = 0
    instruction: str = ""
    batch_items: int = 256
    batch_tokens: int = 50_000
    in_flight: int = 8
    retries: int = 6
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if min(self.batch_items, self.batch_tokens, self.in_flight) < 1:
            raise ConfigError(
                "batch_items, batch_tokens and in_flight of an embedder are at least 1"
            )
        if min(self.dimensions, self.retries) < 0 or self.timeout_s <= 0:
            raise ConfigError("dimensions, retries and timeout_s of an embedder are not negative")

    @property
    def engine(self) -> str:
        """Model with revision, dimensions and instruction: all that decides a vector."""
        digest = hashlib.sha256(self.instruction.encode()).hexdigest()[:8]
        return ":".join(
            (
                "hosted",
                f"{self.model}@{self.revision}" if self.revision else self.model,
                *((f"d{self.dimensions}",) if self.dimensions else ()),
                *((f"instruction-{digest}",) if self.instruction else ()),
            )
        )

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (n, d), in order; (0, dimensions) for no text.

        Raises:
            EmbeddingsStopped: a batch failed after all retries, or its reply does not fit the
                request; it carries the vectors of the others.
            EngineError: two replies differ in the size of their vectors.
            ConfigError: no header can carry the key.
        """
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        batches = list(self._batches([self.instruction + text for text in texts]))
        with closing(LoopThread("embeddings")) as loop:
            came, failed = loop.run(self._all(batches))
        widths = sorted({part.shape[1] for part in came.values()})
        if len(widths) > 1:
            raise EngineError(f"{self.model} answers vectors of {widths} numbers, not of one size")
        if failed is not None:
            raise self._stopped(failed, batches, came)
        return np.concatenate(list(came.values()))

    async def _all(
        self, batches: Sequence[list[str]]
    ) -> tuple[dict[int, NDArray[np.float32]], Exception | None]:
        """The vectors of each batch that was answered, in order, and the first failure."""
        came: dict[int, NDArray[np.float32]] = {}
        failed: list[Exception] = []
        queue = iter(enumerate(batches))

        async def work() -> None:
            for number, batch in queue:
                try:
                    came[number] = await self._ask(client, batch)
                except Exception as error:  # noqa: BLE001 - raised by the caller
                    failed.append(error)
                if failed:
                    return

        async with self._client() as client:
            await asyncio.gather(*(work() for _ in range(min(self.in_flight, len(batches)))))
        return dict(sorted(came.items())), next(iter(failed), None)

    def _stopped(
        self, error: Exception, batches: Sequence[list[str]], came: dict[int, NDArray[np.float32]]
    ) -> Exception:
        """The first failure, with the vectors of the batches that were answered."""
        if not isinstance(error, EngineError):
            return error
        ends = np.cumsum([len(batch) for batch in batches])
        rows = [np.arange(ends[n] - len(batches[n]), ends[n]) for n in came]
        nothing = np.empty((0, self.dimensions), dtype=np.float32)
        return EmbeddingsStopped(
            str(error),
            np.concatenate([np.empty(0, np.int64), *rows]),
            np.concatenate(list(came.values())) if came else nothing,
        )

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        left = self.batch_tokens
        for text in texts:
            tokens = math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
            if batch and (len(batch) == self.batch_items or tokens > left):
                yield batch
                batch, left = [], self.batch_tokens
            batch.append(text)
            left -= tokens
        yield batch

    async def _ask(self, client: "AsyncOpenAI", batch: list[str]) -> NDArray[np.float32]:
        try:
            reply = await self._sent(client, batch)
        except Exception as error:  # noqa: BLE001 - a reply may raise anything
            from resources.chat.calls import failure_from

            message = without_key(failure_from(error).detail, self._key, "***")[:_SAID]
            blamed = getattr(error, "status_code", 0) in _OF_A_TEXT
        else:
            return self._vectors(reply, len(batch))
        # Raised outside the except block: the client's error refers to the request with the key.
        text = await self._at_fault(client, batch) if blamed else ""
        raise EngineError(f"embeddings of '{self.model}' failed: {message}{text}")

    async def _sent(self, client: "AsyncOpenAI", batch: list[str]) -> Any:  # noqa: ANN401 - JSON
        shorter: dict[str, Any] = {"dimensions": self.dimensions} if self.dimensions else {}
        async with asyncio.timeout(2 * self.timeout_s * (1 + self.retries)):
            raw = await client.embeddings.with_raw_response.create(
                model=self.model, input=batch, encoding_format="base64", **shorter
            )
        return json.loads(raw.content)

    async def _at_fault(self, client: "AsyncOpenAI", batch: list[str]) -> str:
        """The text that the endpoint refuses, found by bisection."""
        while len(batch) > 1:
            half = batch[: len(batch) // 2]
            try:
                await self._sent(client, half)
            except Exception:  # noqa: BLE001 - as in ``_ask``
                batch = half
            else:
                batch = batch[len(half) :]
        text = batch[0]
        return f"; the text at fault has {len(text):,} characters and begins {text[:_SHOWN]!r}"

    def _vectors(self, reply: Any, count: int) -> NDArray[np.float32]:  # noqa: ANN401 - JSON
        fields = reply if isinstance(reply, dict) else {}
        model, data = fields.get("model"), fields.get("data")
        if model != self.model:
            named = without_key(repr(model), self._key, "***")[:_SHOWN]
            raise EngineError(f"asked for '{self.model}', the endpoint answered as {named}")
        entries = [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []
        by_index = {str(one.get("index")): one.get("embedding") for one in entries}
        if len(entries) != count or set(by_index) != set(map(str, range(count))):
            raise EngineError(
                f"'{self.model}' answered {count} texts with {len(entries)} vectors, "
                f"{len(by_index)} of them with their own index"
            )
        rows = [_numbers(by_index[str(index)]) for index in range(count)]
        widths = sorted({len(row) for row in rows})
        if len(widths) > 1 or (self.dimensions and widths != [self.dimensions]):
            raise EngineError(
                f"'{self.model}' answered vectors of {widths} numbers, not of "
                f"{self.dimensions or 'one size'}: set `dimensions` to what the model gives, or "
                "to 0 where it cannot shorten its vectors"
            )
        return self._unit(np.stack(rows))

    def _unit(self, raw: NDArray[np.float64]) -> NDArray[np.float32]:
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.linalg.norm(raw, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and (lengths > 0).all()):
            raise EngineError(f"'{self.model}' answered a vector that is zero or not finite")
        return np.asarray(raw / lengths, dtype=np.float32)

    @cached_property
    def _key(self) -> SecretStr:
        return self.key if isinstance(self.key, SecretStr) else self.key()

    def _client(self) -> "AsyncOpenAI":
        from resources.chat.calls import openai_client

        most = _FRAME_BYTES + self.batch_items * (self.dimensions or _WIDEST) * _BYTES_A_NUMBER
        retries, wait_s = self.retries, self.timeout_s
        return openai_client(self.base_url, self._key, most, retries, wait_s=wait_s)


def _numbers(embedding: Any) -> NDArray[np.float64]:  # noqa: ANN401 - as the endpoint has it
    """A vector from base64 float32, little-endian, or from a list of numbers."""
    try:
        if isinstance(embedding, str):
            raw = np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
            return raw.astype(np.float64)
        return np.asarray(embedding, dtype=np.float64).reshape(len(embedding))
    except (binascii.Error, ValueError, TypeError, OverflowError) as error:
        raise EngineError(f"the endpoint answered a vector that cannot be read: {error}") from error
