"""The cards of the vLLM stand-in: as vLLM does, a server takes a share of each card's memory.

It does not start where less is free, or where the share less the weights holds no cache for one
request of the longest length. Weights and cache of the models that the pages name are known; others
have none. Activations and CUDA graphs are not counted, so a real server needs some GB more.
"""

import argparse
import fcntl
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

OWN_CONTEXT = 32_768
"""Tokens of a model that is not in ``MODELS``."""


@dataclass(frozen=True, slots=True)
class Size:
    """Weights in GB (bf16), bytes of cache per token, and the model's own context in tokens."""

    weights_gb: float
    cache_bytes: int
    context: int = OWN_CONTEXT


MODELS = {
    "Qwen/Qwen2.5-3B-Instruct": Size(6.2, 2 * 36 * 2 * 128 * 2),
    "Qwen/Qwen2.5-7B-Instruct": Size(15.2, 2 * 28 * 4 * 128 * 2),
    "Qwen/Qwen2.5-14B-Instruct": Size(29.5, 2 * 48 * 8 * 128 * 2),
    "Qwen/Qwen2.5-32B-Instruct": Size(65.5, 2 * 64 * 8 * 128 * 2),
    "Qwen/Qwen3-32B": Size(65.6, 2 * 64 * 8 * 128 * 2, 40_960),
    "Qwen/Qwen3-32B-FP8": Size(34.3, 2 * 64 * 8 * 128 * 2, 40_960),
    "Qwen/Qwen3-Embedding-8B": Size(15.1, 2 * 36 * 8 * 128 * 2, 40_960),
    "bespokelabs/Bespoke-MiniCheck-7B": Size(15.5, 2 * 32 * 8 * 128 * 2),
}


def context_of(asked: argparse.Namespace) -> int:
    """The tokens that a server reads and writes in one request; ends where the model has fewer."""
    size = MODELS.get(asked.model)
    if asked.max_model_len is None:
        return size.context if size else OWN_CONTEXT
    if size and asked.max_model_len > size.context:
        sys.exit(
            f"ValueError: User-specified max_model_len ({asked.max_model_len}) is greater than the "
            f"derived max_model_len (max_position_embeddings={size.context})."
        )
    return int(asked.max_model_len)


def memory_taken(asked: argparse.Namespace, context: int) -> list[IO[str]]:
    """The server's share of each of its cards, held until the files are closed.

    A share is a locked file named by card and amount: it is free again when its server is gone,
    however it ended. Tensor parallel ranks and data parallel copies have a card each. The cards are
    those of ``CUDA_VISIBLE_DEVICES``, or the first ones.
    """
    folder = Path(f"{asked.holds}.cards")
    folder.mkdir(exist_ok=True)
    count, share = (
        asked.tensor_parallel_size * asked.data_parallel_size,
        asked.gpu_memory_utilization,
    )
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    cards = named.split(",") if named else [str(number) for number in range(count)]
    if len(cards) < count:
        sys.exit(f"tensor parallel size ({count}) is larger than the number of GPUs ({len(cards)})")
    taken = []
    with (folder / "gate").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        for card in cards[:count]:
            free = 1 - sum(_held_share(path) for path in folder.glob(f"{card}-*"))
            if free < share - 1e-9:
                sys.exit(
                    f"ValueError: Free memory on device cuda:{card} ({free * asked.card_gb:.2f}/"
                    f"{asked.card_gb:.2f} GiB) on startup is less than desired GPU memory "
                    f"utilization ({share}, {share * asked.card_gb:.2f} GiB). Decrease GPU memory "
                    "utilization or reduce GPU memory used by other processes."
                )
            mine = (folder / f"{card}-{share}-{os.getpid()}").open("w")
            fcntl.flock(mine, fcntl.LOCK_EX)
            taken.append(mine)
    _refuse_short_cache(asked, context)
    return taken


def _refuse_short_cache(asked: argparse.Namespace, context: int) -> None:
    size, ranks = MODELS.get(asked.model), asked.tensor_parallel_size
    if size is None:
        return
    left_gb = asked.gpu_memory_utilization * asked.card_gb - size.weights_gb / ranks
    needed_gb = context * size.cache_bytes / ranks / 1e9
    if left_gb <= 0:
        sys.exit("ValueError: No available memory for the cache blocks.")
    if needed_gb > left_gb:
        sys.exit(
            "ValueError: To serve at least one request with the model's max seq len "
            f"({context}), ({needed_gb:.2f} GiB KV cache is needed, which is larger than the "
            f"available KV cache memory ({left_gb:.2f} GiB). Based on the available memory, the "
            f"estimated maximum model length is {int(left_gb * 1e9 * ranks / size.cache_bytes)}. "
            "Try increasing `gpu_memory_utilization` or decreasing `max_model_len`."
        )


def _held_share(path: Path) -> float:
    """The share that a file stands for; 0 where its server is gone."""
    with path.open() as other:
        try:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return float(path.name.split("-")[1])
    return 0.0
