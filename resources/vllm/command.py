"""The command line of a vLLM server, word by word.

Takes settings, gives words. A server that is started needs no key of ours: it listens on
loopback and answers anybody there, so the variables of keys are taken out of its environment.

Left out deliberately: starting it (``resources.vllm.process``).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

HOST = "127.0.0.1"
KEYS = ("VLLM_API_KEY", "OPENAI_API_KEY", "DECOMPOSERL_VERIFIER_KEY")
"""Never the child's: with the first, vLLM would refuse us; the others are for servers elsewhere."""
_WITH_VALUE = {"-u", "--unset", "-C", "--chdir"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """What is started. ``port`` 0 takes a free one; ``served_name`` empty means ``model``.

    ``revision`` is of weights, tokenizer and the model's own code (empty: the default one),
    ``max_model_len`` is in tokens (0: the model's own), ``gpu_memory_utilization`` a share of
    each card's memory. ``extra`` stands at the end, word by word. To choose cards, let
    ``executable`` be ``("env", "CUDA_VISIBLE_DEVICES=1", "vllm", "serve")``. ``withheld`` are
    variables that the child does not get, besides ``KEYS``.
    """

    model: str
    served_name: str = ""
    executable: tuple[str, ...] = ("vllm", "serve")
    port: int = 0
    revision: str = ""
    tensor_parallel_size: int = 1
    max_model_len: int = 0
    gpu_memory_utilization: float = 0.9
    extra: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The model name that requests use."""
        return self.served_name or self.model

    @property
    def program(self) -> str:
        """What must be installed; empty where ``executable`` names no program."""
        return program_of(self.executable)

    def words(self, port: int) -> list[str]:
        """The command line, word by word."""
        length = ["--max-model-len", str(self.max_model_len)] if self.max_model_len else []
        return [
            *self.executable,
            self.model,
            *("--served-model-name", self.name),
            *("--host", HOST, "--port", str(port)),
            *self._revisions(),
            *("--tensor-parallel-size", str(self.tensor_parallel_size)),
            *("--gpu-memory-utilization", str(self.gpu_memory_utilization)),
            *length,
            *self.extra,
        ]

    def words_without_keys(self, port: int) -> list[str]:
        """The same after ``env`` words that take the variables of keys away."""
        hidden = dict.fromkeys((*KEYS, *self.withheld))
        return ["env", *(word for name in hidden for word in ("-u", name)), *self.words(port)]

    def _revisions(self) -> list[str]:
        if not self.revision:
            return []
        options = ("--revision", "--code-revision", "--tokenizer-revision")
        return [word for option in options for word in (option, self.revision)]


def program_of(words: Sequence[str]) -> str:
    """The program among the first words of a command: what stands after ``env`` and its words."""
    rest = list(words)
    if not rest or rest[0].rsplit("/", 1)[-1] != "env":
        return rest[0] if rest else ""
    rest.pop(0)
    while rest and (rest[0].startswith("-") or _ASSIGNMENT.fullmatch(rest[0])):
        del rest[: 2 if rest[0] in _WITH_VALUE else 1]
    return program_of(rest)
