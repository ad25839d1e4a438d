"""Which engine stands behind each port in each profile, as plain values.

Takes a profile's name and what a person may choose besides (endpoints, models, a device);
gives an ``EngineChoices``. Dagster's resources and ``decomposerl doctor`` both start from
it, so what is checked is what runs.

Left out deliberately: the environment (``profiles``), and keys: a ``Server`` carries the
name of a variable and whether it is set.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from dagster_project.public_figures import PRICES
from decomposerl.errors import ConfigError
from decomposerl.reports.cost import Price

ProfileName = Literal["embedded", "local", "paper"]
OPENAI = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"
POLICY = "Qwen/Qwen2.5-7B-Instruct"
MINICHECK_7B = "bespokelabs/Bespoke-MiniCheck-7B"
_VLLM_PORT = "http://127.0.0.1:8000/v1"


@dataclass(frozen=True, slots=True)
class Server:
    """A model behind an OpenAI-compatible endpoint.

    ``urls`` end in ``/v1``; none means that a vLLM server is started. ``variable`` is what
    names them, ``key_variable`` what holds their key. ``price`` is None where none is known.
    """

    model: str
    urls: tuple[str, ...]
    variable: str
    key_variable: str = OPENAI_KEY
    has_key: bool = False
    price: Price | None = None

    @property
    def needs_key(self) -> bool:
        """Whether the endpoint is OpenAI's own, which never answers without a key."""
        return any(urlsplit(url).hostname == urlsplit(OPENAI).hostname for url in self.urls)

    @property
    def reasons(self) -> bool:
        """Whether it is one of OpenAI's reasoning models, by its name."""
        return re.match(r"(gpt-5|o\d)", self.model) is not None


@dataclass(frozen=True, slots=True)
class EngineChoices:
    """Empty and None mean the embedded engine. ``device`` is torch's name.

    ``vllm`` is the first words of the command that starts a server over ``cards`` cards;
    ``dollars`` the ceiling of one silver run, 0 for none.
    """

    tokenizer: str = ""
    spacy_models: tuple[str, ...] = ()
    verifier: Literal["embedded", "minicheck_local", "minicheck_hosted"] = "embedded"
    verifier_server: Server | None = None
    sentence_model: str = ""
    embedder_server: Server | None = None
    chat_server: Server | None = None
    device: str = "cpu"
    vllm: tuple[str, ...] = ("vllm", "serve")
    cards: int = 1
    dollars: float = 0.0

    @property
    def on_gpu(self) -> bool:
        """Whether models in this process stand on a GPU."""
        return self.device.startswith("cuda")

    @property
    def servers(self) -> tuple[Server, ...]:
        """The endpoints that a run asks."""
        every = (self.verifier_server, self.embedder_server, self.chat_server)
        return tuple(server for server in every if server is not None)

    @property
    def pools(self) -> dict[str, str]:
        """The pool of each stage that uses a GPU of this machine, or of a server for it."""
        stages = {"difficulty_band"} if self.verifier == "minicheck_hosted" else set()
        if self.on_gpu:
            stages |= {"difficulty_band"} if self.verifier == "minicheck_local" else set()
            stages |= {"rule_filtered"} if self.spacy_models else set()
            if self.sentence_model:
                stages |= {"deduplicated", "decontaminated", "diversity_selected"}
        return dict.fromkeys(sorted(stages), "gpu")


def engine_choices(name: ProfileName, env: Mapping[str, str]) -> EngineChoices:
    """The engines of a profile; ``env`` holds the variables that ``.env.example`` documents.

    Raises:
        ConfigError: a variable holds what it cannot mean; the message names it.
    """
    if name == "embedded":
        return EngineChoices()
    chosen = _local(env) if name == "local" else _paper(env)
    if chosen.dollars and chosen.chat_server and chosen.chat_server.price is None:
        raise ConfigError(
            "DECOMPOSERL_CHAT_DOLLARS is a ceiling in money: it needs DECOMPOSERL_CHAT_PRICE "
            f"for '{chosen.chat_server.model}'"
        )
    return chosen


def _local(env: Mapping[str, str]) -> EngineChoices:
    chat = _server(env, "CHAT", "Qwen/Qwen3-32B", _VLLM_PORT)
    return EngineChoices(
        tokenizer=POLICY,
        spacy_models=("en_core_sci_sm", "en_core_web_sm"),
        verifier="minicheck_local",
        sentence_model=env.get("DECOMPOSERL_EMBEDDER_MODEL")
        or "sentence-transformers/all-MiniLM-L6-v2",
        chat_server=chat,
        device=env.get("DECOMPOSERL_DEVICE") or "cpu",
        dollars=_number(env, "DECOMPOSERL_CHAT_DOLLARS", 0.0),
    )


def _paper(env: Mapping[str, str]) -> EngineChoices:
    return EngineChoices(
        tokenizer=POLICY,
        spacy_models=("en_core_sci_lg", "en_core_web_trf"),
        verifier="minicheck_hosted",
        verifier_server=_server(env, "VERIFIER", MINICHECK_7B, "", "DECOMPOSERL_VERIFIER_KEY"),
        embedder_server=_server(env, "EMBEDDER", "text-embedding-3-large", OPENAI),
        chat_server=_server(env, "CHAT", "gpt-5-mini", OPENAI),
        device=env.get("DECOMPOSERL_DEVICE") or "cpu",
        vllm=tuple((env.get("DECOMPOSERL_VLLM") or "vllm serve").split()),
        cards=int(_number(env, "DECOMPOSERL_VLLM_CARDS", 1)),
        dollars=_number(env, "DECOMPOSERL_CHAT_DOLLARS", 0.0),
    )


def _server(
    env: Mapping[str, str], role: str, model: str, url: str, key_variable: str = OPENAI_KEY
) -> Server:
    variable = f"DECOMPOSERL_{role}_URL"
    said = env.get(variable) or url
    urls = tuple(part.strip().rstrip("/") for part in said.split(",") if part.strip())
    for one in urls:
        parts = urlsplit(one)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.password:
            raise ConfigError(
                f"{variable} is not an http(s) URL without a password, such as {_VLLM_PORT}"
            )
    named = env.get(f"DECOMPOSERL_{role}_MODEL") or model
    return Server(
        model=named,
        urls=urls,
        variable=variable,
        key_variable=key_variable,
        has_key=bool(env.get(key_variable)),
        price=_price(env, f"DECOMPOSERL_{role}_PRICE") or PRICES.get(named),
    )


def _price(env: Mapping[str, str], variable: str) -> Price | None:
    said = env.get(variable)
    if not said:
        return None
    try:
        prompt, completion = [*map(float, said.split("/")), 0.0][:2]
    except ValueError as error:
        raise ConfigError(
            f"{variable} is '{said}'; it must be US dollars a million tokens, prompt/completion, "
            "such as 0.25/2.00"
        ) from error
    return Price(prompt, completion)


def _number(env: Mapping[str, str], variable: str, default: float) -> float:
    try:
        number = float(env.get(variable) or default)
    except ValueError as error:
        raise ConfigError(f"{variable} is '{env[variable]}'; it must be a number") from error
    if not 0 <= number < float("inf"):
        raise ConfigError(f"{variable} is {number:g}; it must not be negative")
    return number
