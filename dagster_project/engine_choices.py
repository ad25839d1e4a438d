"""The engine behind each port in each profile, as plain values.

Takes a profile's name and the variables that choose endpoints, models and a device; gives an
``EngineChoices``. Dagster's resources and ``decomposerl doctor`` both use it, so what is checked is
what runs. A ``Server`` has no key, only the name of its variable and whether that is set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from dagster_project.engine_variables import (
    EXAMPLE_URL,
    GenerationName,
    Thinking,
    cards,
    command,
    device,
    dollars,
    endpoint_urls,
    generation,
    names_of_keys,
    one_of,
    price,
    thinking,
    tokens,
)
from dagster_project.model_server import OPENAI, OPENAI_KEY, Server
from dagster_project.public_figures import PRICES
from decomposerl.errors import ConfigError
from resources.mapper import IN_PROCESS, MapperName, MapperSetting, parse_mapper
from resources.store.paths import local
from resources.verifier.minicheck_form import VARIABLE as OWN_PROMPT

ProfileName = Literal["embedded", "local", "paper"]
PoliciesAt = Literal["in_process", "served"]
POLICY = "Qwen/Qwen2.5-7B-Instruct"
MINICHECK_7B = "bespokelabs/Bespoke-MiniCheck-7B"
JUDGE = "Qwen/Qwen3-32B"
TINY_JUDGE = "answerdotai/ModernBERT-large"
OPENAI_MODEL = "gpt-4.1-mini"
QUESTIONS, QUESTIONS_URL = "Qwen/Qwen3-Embedding-8B", "http://127.0.0.1:8002/v1"
EVALUATION_URL = "http://127.0.0.1:8004/v1"
_POLICIES = "DECOMPOSERL_EVALUATION_POLICIES"
_OWN_KEY = frozenset({"VERIFIER", "JUDGE", "QUESTIONS", "EVALUATION", "ENDPOINT"})  # not OpenAI's


@dataclass(frozen=True, slots=True)
class EngineChoices:
    """The choices of a profile; empty and None mean the embedded engine.

    Models: ``judge_server`` judges traces, with ``judge_thinking`` of at most
    ``judge_thinking_tokens`` (0: any number), in JSON by a schema where the server enforces one
    (``judge_structured``); the tiny judge stands on ``judge_encoder``, ``question_server`` embeds
    questions, ``verifier_tokenizer`` measures the hosted verifier's chunks (empty: its own).
    Baselines run at ``evaluation_server`` where the system names an open model (no URL: a server is
    started), which reads ``evaluation_context`` tokens (0: the model's own), at ``openai_server``,
    or at the user's ``endpoint_server``; trained ``policies`` run in this process, or as adapters
    at ``evaluation_server``. ``generation`` is the engine that samples during training, at
    ``generation_url`` where it is a separate server.

    Machine: ``device`` is a torch device; ``vllm`` are the first words of the command that starts a
    server on ``cards`` GPUs, without the key variables ``withheld``. ``prompts`` is a folder of
    custom prompt files; with ``allow_own_prompt`` a MiniCheck verifier may use this project's text
    where the form it was trained on is missing. ``dollars`` is the ceiling of one silver run, 0 for
    none. Batches run where ``mapper`` says, training in jobs of the Ray dashboard ``training_jobs``
    (empty: in processes here).
    """

    tokenizer: str = ""
    spacy_models: tuple[str, ...] = ()
    verifier: Literal["embedded", "minicheck_local", "minicheck_hosted"] = "embedded"
    verifier_server: Server | None = None
    verifier_tokenizer: str = ""
    sentence_model: str = ""
    embedder_server: Server | None = None
    chat_server: Server | None = None
    judge_server: Server | None = None
    judge_thinking: Thinking = "default"
    judge_structured: bool = False
    judge_thinking_tokens: int = 0
    judge_encoder: str = "minilm"
    question_server: Server | None = None
    prompts: str = ""
    allow_own_prompt: bool = False
    device: str = "cpu"
    vllm: tuple[str, ...] = ("vllm", "serve")
    cards: int = 1
    withheld: tuple[str, ...] = ()
    dollars: float = 0.0
    generation: GenerationName = "transformers"
    generation_url: str = ""
    evaluation_server: Server | None = None
    evaluation_context: int = 0
    openai_server: Server | None = None
    endpoint_server: Server | None = None
    policies: PoliciesAt = "in_process"
    mapper: MapperSetting = IN_PROCESS
    training_jobs: str = ""

    @property
    def on_gpu(self) -> bool:
        """Whether models in this process run on a GPU."""
        return self.device.startswith("cuda")

    @property
    def servers(self) -> tuple[Server, ...]:
        """The endpoints that funnel and training use."""
        every = (
            *(self.verifier_server, self.embedder_server, self.chat_server),
            *(self.judge_server, self.question_server),
        )
        return tuple(server for server in every if server is not None)

    @property
    def pools(self) -> dict[str, str]:
        """The pool of each asset that uses a GPU, here or through a server started for it."""
        stages = {"difficulty_band"} if self.verifier == "minicheck_hosted" else set()
        if self.evaluation_server is not None and not self.evaluation_server.urls:
            stages |= {"predictions"}
        if self.on_gpu:
            stages |= {"difficulty_band"} if self.verifier == "minicheck_local" else set()
            stages |= {"policy", "predictions"}
            stages |= {"rule_filtered"} if self.spacy_models else set()
            if self.sentence_model:
                stages |= {"deduplicated", "decontaminated", "diversity_selected"}
        return dict.fromkeys(sorted(stages), "gpu")


def engine_choices(name: ProfileName, env: Mapping[str, str]) -> EngineChoices:
    """The engines of a profile; ``env`` holds the variables that ``.env.example`` documents.

    Raises:
        ConfigError: a variable has an invalid value; the message names it.
    """
    if name == "embedded":
        return _embedded(env)
    chosen = _local(env) if name == "local" else _paper(env)
    if chosen.dollars and chosen.chat_server and chosen.chat_server.price is None:
        raise ConfigError(
            "DECOMPOSERL_CHAT_DOLLARS is a ceiling on costs: it needs DECOMPOSERL_CHAT_PRICE for "
            f"'{chosen.chat_server.model}'"
        )
    return chosen


def _embedded(env: Mapping[str, str]) -> EngineChoices:
    """Rules and tiny models; beside them what is evaluated at endpoints, where they are named."""
    evaluated = _evaluation(env, "")
    if not env.get("DECOMPOSERL_EVALUATION_URL"):
        evaluated["evaluation_server"] = None  # this profile starts no server by itself
    evaluated["policies"] = _policies(env, served=False)
    evaluated["openai_server"] = evaluated["openai_server"] if env.get(OPENAI_KEY) else None
    return EngineChoices(**_starting(env), **evaluated)


def _starting(env: Mapping[str, str], where: MapperName = "in_process") -> dict[str, Any]:
    """How a server is started, and where batches run."""
    mapper = "DECOMPOSERL_MAPPER"
    return {
        "mapper": parse_mapper(env.get(mapper) or where, mapper),
        "training_jobs": "".join(endpoint_urls(env, "DECOMPOSERL_TRAINING_JOBS", "", most=1)),
        "vllm": command(env, "DECOMPOSERL_VLLM", "vllm serve"),
        "cards": cards(env, "DECOMPOSERL_VLLM_CARDS"),
        "withheld": names_of_keys(env),
    }


def _local(env: Mapping[str, str]) -> EngineChoices:
    return EngineChoices(
        **_texts(env, "en_core_sci_sm,en_core_web_sm"),
        verifier="minicheck_local",
        sentence_model=env.get("DECOMPOSERL_EMBEDDER_MODEL")
        or "sentence-transformers/all-MiniLM-L6-v2",
        chat_server=_server(env, "CHAT", JUDGE, EXAMPLE_URL),
        prompts=local(env.get("DECOMPOSERL_PROMPTS") or "", "DECOMPOSERL_PROMPTS"),
        allow_own_prompt=one_of(env, OWN_PROMPT, ("no", "yes")) == "yes",
        device=device(env, "DECOMPOSERL_DEVICE"),
        dollars=dollars(env, "DECOMPOSERL_CHAT_DOLLARS"),
        **_starting(env, "processes"),
        **_judging(env),
        **generation(env),
        **_evaluation(env, EVALUATION_URL),
    )


def _paper(env: Mapping[str, str]) -> EngineChoices:
    return EngineChoices(
        **_texts(env, "en_core_sci_lg,en_core_web_trf"),
        verifier="minicheck_hosted",
        verifier_server=_server(env, "VERIFIER", MINICHECK_7B, "", most=1),
        verifier_tokenizer=env.get("DECOMPOSERL_VERIFIER_TOKENIZER") or "",
        embedder_server=_server(env, "EMBEDDER", "text-embedding-3-large", OPENAI, most=1),
        chat_server=_server(env, "CHAT", "gpt-5-mini", OPENAI),
        question_server=_server(env, "QUESTIONS", QUESTIONS, QUESTIONS_URL, most=1),
        prompts=local(env.get("DECOMPOSERL_PROMPTS") or "", "DECOMPOSERL_PROMPTS"),
        allow_own_prompt=one_of(env, OWN_PROMPT, ("no", "yes")) == "yes",
        device=device(env, "DECOMPOSERL_DEVICE"),
        dollars=dollars(env, "DECOMPOSERL_CHAT_DOLLARS"),
        **_starting(env, "ray"),
        judge_encoder=TINY_JUDGE,
        **_judging(env),
        **generation(env),
        **_evaluation(env, ""),
    )


def _judging(env: Mapping[str, str]) -> dict[str, Any]:
    """The judge and its thinking, which is off by default for a Qwen3 model."""
    server, variable = _server(env, "JUDGE", JUDGE, EXAMPLE_URL), "DECOMPOSERL_JUDGE_THINKING"
    word, tokens = thinking(env, variable)
    style = server.thinking_style
    words = ("yes", "no") if server.needs_key else ("no", "yes")  # OpenAI's own enforces schemas
    if (style == "none" and word == "on") or (tokens and style != "qwen"):
        raise ConfigError(
            f"{variable} is '{env[variable]}', but how to do that with '{server.model}' is not "
            "known (thinking is switched on for Qwen3 and OpenAI's reasoning models, and bounded "
            "for Qwen3); leave it at 'default', or 'off' for a model that never thinks"
        )
    return {
        "judge_server": server,
        "judge_thinking": word or ("off" if style == "qwen" else "default"),
        "judge_thinking_tokens": tokens,
        "judge_structured": one_of(env, "DECOMPOSERL_JUDGE_STRUCTURED", words) == "yes",
    }


def _texts(env: Mapping[str, str], spacy: str) -> dict[str, Any]:
    """What counts tokens and what finds entities, the spaCy models comma-separated."""
    named = (env.get("DECOMPOSERL_SPACY") or spacy).split(",")
    return {
        "tokenizer": env.get("DECOMPOSERL_TOKENIZER") or POLICY,
        "spacy_models": tuple(name.strip() for name in named if name.strip()),
    }


def _evaluation(env: Mapping[str, str], url: str) -> dict[str, Any]:
    """The servers of baselines and policies; no endpoint of the user's own without its URL."""
    own = _with_continues(env, "ENDPOINT", _server(env, "ENDPOINT", "", ""), default=False)
    if own.urls and not own.model:
        raise ConfigError(
            "DECOMPOSERL_ENDPOINT_URL names an endpoint; DECOMPOSERL_ENDPOINT_MODEL must name "
            "its model"
        )
    hosted = Server(OPENAI_MODEL, (OPENAI,), "", OPENAI_KEY, bool(env.get(OPENAI_KEY)))
    open_models = _server_at(env, "EVALUATION", "", url)
    started = not open_models.urls
    return {
        "evaluation_server": _with_continues(
            env, "EVALUATION", open_models, default=not open_models.needs_key
        ),
        "evaluation_context": tokens(env, "DECOMPOSERL_EVALUATION_CONTEXT"),
        "openai_server": replace(hosted, price=PRICES[OPENAI_MODEL]),
        "endpoint_server": own if own.urls else None,
        "policies": _policies(env, served=started or bool(env.get("DECOMPOSERL_EVALUATION_URL"))),
    }


def _with_continues(env: Mapping[str, str], role: str, server: Server, *, default: bool) -> Server:
    words = ("yes", "no") if default else ("no", "yes")
    return replace(server, continues=one_of(env, f"DECOMPOSERL_{role}_CONTINUES", words) == "yes")


def _policies(env: Mapping[str, str], *, served: bool) -> PoliciesAt:
    """The variable's choice; by default served where there is a server for open models."""
    words = ("served", "in_process") if served else ("in_process", "served")
    return "served" if one_of(env, _POLICIES, words) == "served" else "in_process"


def _server(env: Mapping[str, str], role: str, model: str, url: str, *, most: int = 0) -> Server:
    """``most`` is the number of URLs that the engine can use, 0 for any number."""
    return _server_at(env, role, env.get(f"DECOMPOSERL_{role}_MODEL") or model, url, most=most)


def _server_at(env: Mapping[str, str], role: str, model: str, url: str, *, most: int = 0) -> Server:
    variable = f"DECOMPOSERL_{role}_URL"
    urls = endpoint_urls(env, variable, url, most=most)
    key_variable = f"DECOMPOSERL_{role}_KEY" if role in _OWN_KEY else OPENAI_KEY
    if any(urlsplit(one).hostname == urlsplit(OPENAI).hostname for one in urls):
        key_variable = OPENAI_KEY
    return Server(
        model=model,
        urls=urls,
        variable=variable,
        key_variable=key_variable,
        has_key=bool(env.get(key_variable)),
        price=price(env, f"DECOMPOSERL_{role}_PRICE") or PRICES.get(model),
    )
