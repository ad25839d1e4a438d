"""A model and how it is reached: the one type of every setting that says which model answers.

The judge, the writer of silver questions, the verifier, the embedders, the models that are
evaluated and each entry of ``systems.toml`` hold an ``Endpoint``. It names the variable of a key,
never the key, so it may be shown and stored. What opens it is in ``resources``.
"""

import re
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from decomposerl.chat import Price

Thinking = Literal["default", "on", "off"]
ThinkingStyle = Literal["none", "qwen", "openai"]
"""How thinking is switched: not at all, as vLLM does for Qwen3, or as OpenAI's reasoning models,
which also refuse temperature, top_p and stop."""
Listed = TypeVar("Listed", tuple[str, ...], list[str])
NumberType = Literal["float32", "bfloat16", "float16"]

OPENAI_KEY = "OPENAI_API_KEY"
_HOST = r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s/?#@:\[\]]+)"
_URL = re.compile(rf"https?://{_HOST}(:(?P<port>[0-9]+))?(/[^\s?#@]*)?")
_NAME = re.compile(r"(?<=://)[^/:\[]+")
_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*_)?(KEY|TOKEN)")
_REASONING = re.compile(r"gpt-5|o\d")


def _listed(value: object) -> object:
    """A single text, or several with commas between them, as a tuple."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    return tuple(value) if isinstance(value, list) else value


def _urls(value: object) -> object:
    listed = _listed(value)
    if value and listed == ():
        raise ValueError("names no URL; it must be one such as http://127.0.0.1:8000/v1")
    return listed


def plain_urls(urls: Listed) -> Listed:
    """The same URLs, if plain; no message repeats one or a key's value: either may be a secret."""
    for match in map(_URL.fullmatch, urls):
        if not match or int(match["port"] or 1) not in range(1, 2**16):
            raise ValueError(
                "must be a plain URL such as http://127.0.0.1:8000/v1, without user, password, "
                "query or fragment, its port 1 to 65535; the field key names the key's variable"
            )
    # A letter that looks like another one is then seen wherever a URL is shown.
    shown = [_NAME.sub(lambda name: name[0].encode("idna").decode(), url, 1) for url in urls]
    return type(urls)([url.rstrip("/") for url in shown])


def _variable(key: str) -> str:
    if key and not _VARIABLE.fullmatch(key):
        raise ValueError(
            "must be the NAME of a variable that ends in KEY or TOKEN, never the key itself"
        )
    return key


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Urls = Annotated[tuple[str, ...], BeforeValidator(_urls), AfterValidator(plain_urls)]
Variable = Annotated[str, AfterValidator(_variable)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def is_path(name: str) -> bool:
    """Whether a model or adapter is named by a path: it begins with ``/``, ``./`` or ``../``."""
    return name.startswith(("/", "./", "../"))


def thinking_style_of(model: str) -> ThinkingStyle:
    """How a model's thinking is switched, by its name."""
    if _REASONING.match(model):
        return "openai"
    return "qwen" if "qwen3" in model.lower() else "none"


class Endpoint(BaseModel):
    """A model, where it runs, what a call may use, and what it costs.

    Empty, 0 and None are the default of the model, the profile or the method, and no limit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: str = Field("", description="name in requests, on the hub, or a folder")
    revision: str = Field("", description="of the weights, or the snapshot")
    base_url: Urls = Field((), description="URLs that end in /v1; the least loaded one is used")
    key: Variable = Field("", description="NAME of the variable that holds the key")
    runs: Literal["", "endpoint", "vllm", "server", "in_process"] = Field(
        "", description="at base_url, else here; `vllm` is at base_url, `server` is started"
    )
    served_as: Names = Field((), description="further names by which a server may report the model")
    adapter: str = Field("", description="LoRA: a folder, or a name on the hub")
    adapter_revision: str = Field("", description="its commit on the hub")
    context: Count = Field(0, description="tokens of prompt and reply together that it reads")
    thinking: Thinking = Field("default", description="of a reasoning model")
    thinking_style: Literal["", ThinkingStyle] = Field(
        "", description="how thinking is switched; else known from the model's name"
    )
    thinking_tokens: Count = Field(4_096, description="room for a thought, beside the reply's")
    structured: bool | None = Field(None, description="enforces JSON schemas; OpenAI and vLLM do")
    continues: bool | None = Field(None, description="continues an assistant's turn, as vLLM does")
    concurrency: int = Field(256, ge=1, le=4_096, description="most requests in flight")
    deadline_s: Seconds = Field(900.0, description="of one request, with the endpoint's queue")
    most_reply_bytes: int = Field(
        2**25, ge=1, description="most of one reply, however many tokens it has"
    )
    calls: Count = Field(0, description="ceiling of one asset's run: requests")
    tokens: Count = Field(0, description="ceiling of one asset's run: tokens")
    dollars: Amount = Field(0.0, description="ceiling of one asset's run: US dollars")
    prompt_price: Amount = Field(0.0, description="US dollars per million prompt tokens")
    completion_price: Amount = Field(0.0, description="US dollars per million completion tokens")
    dtype: NumberType = Field("float32", description="in process: number type")
    device: str = Field(
        "", pattern=r"^(|cpu|mps|cuda(:[0-9]+)?)$", description="in process: torch's name"
    )

    @property
    def place(self) -> Literal["endpoint", "server", "in_process"]:
        """Where it runs; without ``runs`` at its endpoint, else in this process."""
        if self.runs in {"server", "in_process"}:
            return self.runs
        return "endpoint" if self.runs or self.base_url else "in_process"

    @property
    def where(self) -> str:
        """Where it runs, in words."""
        places = {"in_process": "in this process", "server": "on a server that is started"}
        return places.get(self.place) or f"at {', '.join(self.base_url)}"

    @property
    def at_openai(self) -> bool:
        """Whether it is at OpenAI's own endpoint, which always requires a key."""
        matches = [_URL.fullmatch(url) for url in self.base_url]
        return any(match is not None and match["host"] == "api.openai.com" for match in matches)

    @property
    def key_variable(self) -> str:
        """The variable of its key: OpenAI's at OpenAI, whatever else is named."""
        return OPENAI_KEY if self.at_openai else self.key

    @property
    def enforces_schemas(self) -> bool:
        """Whether it is sent JSON schemas."""
        enforced = self.at_openai or self.runs in {"vllm", "server"}
        return enforced if self.structured is None else self.structured

    @property
    def style(self) -> ThinkingStyle:
        """How its thinking is switched."""
        return self.thinking_style or thinking_style_of(self.model)

    @property
    def thinks(self) -> bool | None:
        """Thinking as a request takes it; None leaves it to the model."""
        return {"default": None, "on": True, "off": False}[self.thinking]

    @property
    def thought_tokens(self) -> int:
        """Tokens for a thought: none where thinking is off, or is neither switched nor known."""
        return 0 if self.style == "none" or self.thinks is False else self.thinking_tokens

    @property
    def price(self) -> Price | None:
        """US dollars per million tokens; None where none is known."""
        price = Price(prompt=self.prompt_price, completion=self.completion_price)
        return None if price == Price() else price

    @property
    def identity(self) -> str:
        """The revision under which replies are stored, beside the model: nothing else decides."""
        return self.revision
