"""Every setting in one type: folders, the model in each role, training, this machine.

A profile (``profiles/*.toml``) is a choice of engines behind the same ports. A setting is a field
here and the place that uses it; ``environment`` reads variables, files and profile.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator
from pydantic.fields import FieldInfo

from dagster_project.public_figures import PRICES
from decomposerl.endpoint import Count, Endpoint, Names, Urls, plain_urls, thinking_style_of
from decomposerl.errors import ConfigError
from decomposerl.settings import Settings as Section
from resources.mapper import parse_mapper
from resources.store.paths import local
from resources.vllm.process import program_of

ProfileName = Literal["embedded", "local", "paper"]
FILE, SYSTEMS_FILE = "decomposerl.toml", "systems.toml"
PROJECT = Path(__file__).resolve().parent.parent
_HOSTED = {"chat", "hosted", "minicheck_hosted"}


def _must(fits: Callable[[Any], object], said: str = "") -> AfterValidator:
    """A check of a field's values, by a condition or by another module; no message repeats them."""

    def passed(value: Any) -> Any:  # noqa: ANN401 - of any field
        try:
            if not fits(value) and said:
                raise ValueError(said)
        except ConfigError as error:
            raise ValueError(str(error).strip()) from None
        return value

    return AfterValidator(passed)


_is_local = _must(lambda path: local(str(path), ""))
Place = Annotated[str, _is_local]
Folder = Annotated[Path, BeforeValidator(_is_local.func), AfterValidator(Path.resolve)]
Data = Annotated[Folder, _must(lambda path: not path.is_file(), "must be a folder")]
Corpora = Annotated[Folder, _must(Path.is_dir, "names no folder")]
OneUrl = Annotated[Urls, _must(lambda urls: len(urls) <= 1, "must be exactly one URL")]
Device = Annotated[str, Field(pattern=r"^(cpu|mps|cuda(:[0-9]+)?)$")]
Address = Annotated[str, AfterValidator(lambda url: url and plain_urls((url,))[0])]
Mapper = Annotated[str, _must(lambda place: parse_mapper(place, ""))]
Command = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda words: tuple(words.split()) if isinstance(words, str) else words),
    _must(program_of, "names no program; it must be a command such as: vllm serve"),
]


class Paths(Section):
    """Folders and files; relative ones are relative to the working folder."""

    data: Data = Field(PROJECT / "data", description="all that is written; on a local disk")
    corpora: Corpora | None = Field(None, description="raw corpora; else the synthetic sample")
    systems: Folder | None = Field(None, description="file; else systems.toml in the data folder")
    prompts: Place = Field("", description="folder of prompt files, each in place of ours")

    @property
    def results(self) -> Path:
        """The folder of stored engine results."""
        return self.data / "engine_results"

    @property
    def systems_file(self) -> Path:
        """The file of the user's own systems, which need not be there unless it was named."""
        return self.systems or self.data / SYSTEMS_FILE


class Text(Section):
    """What counts tokens and finds entities: rules, unless you name models."""

    tokenizer: str = Field("", description="of evidence: a folder or hub name; else words count")
    spacy: Names = Field((), description="models of entities: packages or folders; else rules")


class Role(Endpoint):
    """The model in a role; what is not said follows from its name: list prices, thinking."""

    @model_validator(mode="before")
    @classmethod
    def _known_by_name(cls, values: Any) -> Any:  # noqa: ANN401 - what a user wrote
        if not isinstance(values, dict):
            return values  # refused next
        model = str(values.get("model", ""))
        unsaid = issubclass(cls, Chat) and not values.get("thinking_style")
        if unsaid and thinking_style_of(model) == "qwen":
            values = {"thinking": "off"} | values
        if model in PRICES and not {"prompt_price", "completion_price"} & values.keys():
            price = PRICES[model]
            values = values | {"prompt_price": price.prompt, "completion_price": price.completion}
        return values

    @property
    def in_use(self) -> bool:
        """Whether the profile calls or starts this model."""
        return getattr(self, "engine", "hosted") in _HOSTED

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        needed = self.in_use if hasattr(self, "engine") else type(self) is Role and self.base_url
        unswitched = self.thinking == "on" and self.style == "none"
        unbounded = getattr(self, "bound_thinking", False) and self.style != "qwen"
        rules = {
            "adapter: an adapter is evaluated by an entry of systems.toml": self.adapter,
            "dollars is a ceiling on costs: it needs prompt_price and completion_price for "
            f"'{self.model}'": self.in_use and self.dollars and self.price is None,
            "base_url must say where its endpoint is": (
                needed and not self.base_url and not isinstance(self, Verifier)
            ),
            "base_url names an endpoint; model must name its model": needed and not self.model,
            f"how to switch or bound the thinking of '{self.model}' is not known (it is switched "
            "on for Qwen3 and OpenAI's reasoning models, and bounded for Qwen3); set thinking to "
            "'default', or 'off' for a model that never thinks": (
                isinstance(self, Judge) and self.in_use and (unswitched or unbounded)
            ),
        }
        for problem in (problem for problem, holds in rules.items() if holds):
            raise ValueError(problem)
        return self


class Chat(Role):
    """The writer of the silver questions; a Qwen3 model thinks only where `thinking` says so."""

    engine: Literal["embedded", "chat"] = Field("embedded", description="rules, or a chat model")
    runs: Literal["", "endpoint", "vllm"] = Field("", description="`vllm`: base_url is vLLM's")
    thinking_tokens: Count = Field(7_168, description="room for a thought, beside the reply's")


class Judge(Chat):
    """The judge of the rewards."""

    bound_thinking: bool = Field(False, description="ends a thought after thinking_tokens (vLLM)")
    reasons: Literal["full", "one_sentence", "none"] = Field("full", description="before a ruling")


class Verifier(Role):
    """The claim verifier of the difficulty band."""

    engine: Literal["embedded", "minicheck_local", "minicheck_hosted"] = Field(
        "embedded", description="lexical features, MiniCheck in process, or its 7B model on vLLM"
    )
    model: str = Field("bespokelabs/Bespoke-MiniCheck-7B", description="minicheck_hosted: which")
    base_url: OneUrl = Field((), description="a server of the 7B model; else one is started")
    tokenizer: str = Field("", description="of the 7B model's chunks, or `bytes`; else its own")
    allow_own_prompt: bool = Field(False, description="our words may stand in for its own form")


class Embedder(Role):
    """The embedder of the funnel."""

    engine: Literal["embedded", "sentence_transformers", "hosted"] = Field(
        "embedded", description="MiniLM on the CPU, any such model, or an endpoint"
    )
    base_url: OneUrl = Field((), description="URL that ends in /v1")


class Questions(Role):
    """The embedder of the questions of traces."""

    engine: Literal["funnel", "hosted"] = Field(
        "funnel", description="the funnel's embedder, or an endpoint"
    )
    base_url: OneUrl = Field((), description="URL that ends in /v1")


class Evaluation(Role):
    """Where the open models are evaluated, under their hub names, and trained policies."""

    policies: Literal["in_process", "served"] = Field(
        "in_process", description="trained policies: here, or as adapters where open models are"
    )


class Training(Section):
    """How policies are trained."""

    generation: Literal["transformers", "vllm_colocate", "vllm_server"] = Field(
        "transformers", description="samples the policy: the trainer, vLLM on its GPU, or a server"
    )
    generation_url: Address = Field("", description="vllm_server: its URL, without /v1")
    encoder: str = Field("minilm", description="of the tiny judge")
    jobs: Address = Field("", description="a Ray cluster's dashboard (docs/how-to/scaling.md)")

    @model_validator(mode="after")
    def _has_a_sampler(self) -> Self:
        if self.generation == "vllm_server" and not self.generation_url:
            said = "generation_url must name that server, such as http://127.0.0.1:8003"
            raise ValueError(f"generation is vllm_server: {said}")
        return self


class Machine(Section):
    """This machine: where models in this process run, and how a server is started."""

    device: Device = Field("cpu", description="`cpu`, `mps`, `cuda` or `cuda:N`")
    mapper: Mapper = Field(
        "in_process",
        description="where batches run: `in_process`, `processes`, `processes:N`, `ray` (of "
        "RAY_ADDRESS, or here) or `ray:HOST:PORT` (docs/how-to/scaling.md)",
    )
    vllm: Command = Field(("vllm", "serve"), description="starts a server, which sees no `*_KEY`")
    cards: int = Field(1, ge=1, description="GPUs of that server")

    @property
    def on_gpu(self) -> bool:
        """Whether models in this process run on a GPU."""
        return self.device.startswith("cuda")


class Settings(Section):
    """All settings."""

    profile: ProfileName = Field(
        "embedded", description="rules and tiny models, open models here, or the paper's models"
    )
    paths: Paths = Paths()
    text: Text = Text()
    verifier: Verifier = Verifier()
    embedder: Embedder = Embedder()
    questions: Questions = Questions()
    silver: Chat = Chat()
    judge: Judge = Judge()
    evaluation: Evaluation = Evaluation()
    openai: Role = Field(Role(), description="The system gpt-4.1-mini.")
    endpoint: Role = Field(
        Role(), description="Your own model, for systems named `<method>-endpoint-<protocol>`."
    )
    training: Training = Training()
    machine: Machine = Machine()

    @property
    def served(self) -> dict[str, Role]:
        """The models that funnel and training call or start, by the resource that does."""
        roles = {"verifier": self.verifier, "embedder": self.embedder, "decomposer": self.silver}
        roles |= {"judge": self.judge, "question_embedder": self.questions}
        return {name: role for name, role in roles.items() if role.in_use}

    def with_paths(self, **paths: Path | None) -> Self:
        """The same settings with other folders."""
        return self.model_copy(update={"paths": self.paths.model_copy(update=paths)})


FIELDS: dict[tuple[str, ...], FieldInfo] = {("profile",): Settings.model_fields["profile"]} | {
    (section, name): field
    for section, part in Settings()
    if isinstance(part, BaseModel)
    for name, field in type(part).model_fields.items()
}
"""Every setting by its path, such as ``("judge", "model")``."""
