"""The engines of a profile as Dagster resources.

Keys are passed as ``dg.EnvVar``: Dagster reads the variable when a run starts, and stores and shows
only its name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg

from dagster_project.engine_choices import EngineChoices
from dagster_project.model_server import Server
from decomposerl.chat import Price
from decomposerl.endpoint import Endpoint
from resources.chat.endpoint import EndpointConfig, config_of
from resources.decomposer.resource import DecomposerResource
from resources.embedder.resource import EmbedderResource
from resources.entities.resource import EntitiesResource
from resources.evaluation.model import EvaluationModelResource
from resources.judge.resource import JudgeResource
from resources.mapper import IN_PROCESS
from resources.mapper.resource import MapperChoice, MapperResource
from resources.tokens.resource import TokensResource
from resources.training.ray_jobs import TrainingJobs
from resources.training.resource import PolicyTrainerResource
from resources.verifier.resource import VerifierResource
from resources.vllm.server import ServerFields

_HOSTED_BATCH = 8_192  # a batch waits for its slowest request; replies are cached as they arrive
_PLAIN_REPLY, _REASONED_REPLY = 1_024, 8_192  # token limits; reasoning counts as reply
_OF_THE_HUB = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}
_ATTACH_S, _START_S = 60, 1_800  # a first start downloads the model


def engine_resources(
    choices: EngineChoices,
    results: str,
    locks: str = "",
    entry_keys: Sequence[str] = (),
    heads: str = "",
    *,
    mapped: bool = False,
    job_variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The resources by name: five of the funnel, two of rewards, trainer, evaluated model, mapper.

    ``locks`` is the file of the locked commits of hub models, empty to lock none; ``entry_keys``
    are the variables with keys that entries of ``systems.toml`` name, those that are set; no
    server that is started sees them, except the hub's, with which it downloads its model. ``heads``
    is the folder of the tiny judge. Batches run where the choices say if they are ``mapped``, for
    whole tables, else here. ``job_variables`` are the environment of a training job.
    """
    if not mapped:
        choices = replace(choices, mapper=IN_PROCESS)
    withheld = {*choices.withheld, *entry_keys} - _OF_THE_HUB
    choices = replace(choices, withheld=tuple(sorted(withheld)))
    tokens = TokensResource()
    if model := choices.tokenizer:
        # Of one machine this process is enough: the tokenizer has a thread a core.
        at = _mapper(choices) if choices.mapper.where == "ray" else MapperChoice()
        tokens = TokensResource(engine="tokenizer", model=model, models_lock=locks, mapper=at)
    return {
        "tokens": tokens,
        "entities": _entities(choices, results),
        "verifier": _verifier(choices, results, locks),
        "embedder": _embedder(choices, results, locks),
        "decomposer": _decomposer(choices, results),
        "judge": _judge(choices, results, heads),
        "question_embedder": _question_embedder(choices, results, locks),
        "policy_trainer": _policy_trainer(choices, job_variables or {}),
        "evaluation_model": _evaluation_model(choices, results),
        "mapper": MapperResource(choice=_mapper(choices)),
    }


def _mapper(choices: EngineChoices, *, model: bool = False) -> MapperChoice:
    """Where batches run; a ``model`` on a GPU has one of its own for each worker."""
    at, on_gpu = choices.mapper, model and choices.on_gpu
    workers = at.workers or int(on_gpu and at.where == "processes")
    return MapperChoice(where=at.where, workers=workers, address=at.address, gpus=float(on_gpu))


def _entities(choices: EngineChoices, results: str) -> EntitiesResource:
    if not choices.spacy_models:
        return EntitiesResource(results_dir=results, mapper=_mapper(choices))
    return EntitiesResource(
        results_dir=results,
        mapper=_mapper(choices, model=True),
        engine="spacy",
        models=list(choices.spacy_models),
        gpu=choices.on_gpu,
    )


def _verifier(choices: EngineChoices, results: str, locks: str) -> VerifierResource:
    server = choices.verifier_server
    if choices.verifier == "minicheck_hosted" and server is not None:
        return VerifierResource(
            results_dir=results,
            engine="minicheck_hosted",
            models_lock=locks,
            batch_size=_HOSTED_BATCH,
            model=server.model,
            base_url=server.urls[0] if server.urls else "",
            tokenizer=choices.verifier_tokenizer,
            prompts_dir=choices.prompts,
            allow_own_prompt=choices.allow_own_prompt,
            vllm=list(choices.vllm),
            cards=choices.cards,
            withheld=list(choices.withheld),
            start_timeout_s=_ATTACH_S if server.urls else _START_S,
            **_key(server),
        )
    if choices.verifier == "minicheck_local":
        return VerifierResource(
            results_dir=results,
            engine="minicheck_local",
            models_lock=locks,
            mapper=_mapper(choices, model=True),
            device=choices.device,
            prompts_dir=choices.prompts,
            allow_own_prompt=choices.allow_own_prompt,
        )
    return VerifierResource(results_dir=results, mapper=_mapper(choices))


def _embedder(choices: EngineChoices, results: str, locks: str) -> EmbedderResource:
    if choices.embedder_server is not None:
        return _hosted_embedder(choices.embedder_server, results)
    if choices.sentence_model:
        return EmbedderResource(
            results_dir=results,
            engine="sentence_transformers",
            models_lock=locks,
            mapper=_mapper(choices, model=True),
            model=choices.sentence_model,
            device=choices.device,
        )
    return EmbedderResource(results_dir=results, mapper=_mapper(choices))


def _question_embedder(choices: EngineChoices, results: str, locks: str) -> EmbedderResource:
    if choices.question_server is None:
        return _embedder(choices, results, locks)
    return _hosted_embedder(choices.question_server, results)


def _hosted_embedder(server: Server, results: str) -> EmbedderResource:
    return EmbedderResource(
        results_dir=results,
        engine="hosted",
        batch_size=_HOSTED_BATCH,
        model=server.model,
        base_url=server.urls[0],
        **_key(server),
    )


def _decomposer(choices: EngineChoices, results: str) -> DecomposerResource:
    server = choices.chat_server
    if server is None:
        return DecomposerResource(results_dir=results, mapper=_mapper(choices))
    return DecomposerResource(
        results_dir=results,
        engine="chat",
        batch_size=_HOSTED_BATCH,
        thinking="off" if server.thinking_style == "qwen" else "default",
        reply_tokens=_REASONED_REPLY if server.reasons else _PLAIN_REPLY,
        dollar_ceiling=choices.dollars,
        **_prompted(choices, server),
    )


def _judge(choices: EngineChoices, results: str, heads: str) -> JudgeResource:
    server = choices.judge_server
    tiny: dict[str, Any] = {"heads": heads, "device": choices.device}
    if server is None:
        return JudgeResource(results_dir=results, **tiny)
    return JudgeResource(
        results_dir=results,
        **tiny,
        engine="chat",
        batch_size=_HOSTED_BATCH,
        **judge_limits(choices),
        **_prompted(choices, server) | {"structured": choices.judge_structured},
    )


def judge_limits(choices: EngineChoices) -> dict[str, Any]:
    """The judge's thinking and its token limits (paper: 4k to 8k)."""
    bound, server = choices.judge_thinking_tokens, choices.judge_server
    switched = server is not None and server.thinking_style != "none"
    thought = _REASONED_REPLY - _PLAIN_REPLY
    if choices.judge_thinking == "off" and not switched:
        thought = 0  # a model that never thinks gets no room for it, and nothing to switch
    return {
        "thinking": choices.judge_thinking if switched else "default",
        "reply_tokens": _PLAIN_REPLY,
        "thinking_tokens": bound or thought,
        "bound_thinking": bool(bound),
    }


def _policy_trainer(choices: EngineChoices, variables: Mapping[str, str]) -> PolicyTrainerResource:
    address, gpus = choices.training_jobs, float(choices.on_gpu)
    shown = dict(variables) if address else {}
    return PolicyTrainerResource(
        jobs=TrainingJobs(address=address, gpus=gpus, variables=shown),
        module="dagster_project.worker",
        device=choices.device,
        encoder=choices.judge_encoder,
        prompts_dir=choices.prompts,
        generation=choices.generation,
        generation_url=choices.generation_url,
    )


def _evaluation_model(choices: EngineChoices, results: str) -> EvaluationModelResource:
    """The models that are evaluated; a server is started where no URL names one."""
    return EvaluationModelResource(
        results_dir=results,
        open_models=evaluated_at(choices.evaluation_server, context=choices.evaluation_context),
        openai=evaluated_at(choices.openai_server),
        endpoint=evaluated_at(choices.endpoint_server),
        server=ServerFields(
            vllm=list(choices.vllm), cards=choices.cards, withheld=list(choices.withheld)
        ),
        prompts_dir=choices.prompts,
        policies=choices.policies,
        device=choices.device,
    )


def evaluated_at(server: Server | None, context: int = 0) -> EndpointConfig:
    """The endpoint where a server's models are evaluated; one is started where it has no URL."""
    if server is None:
        return EndpointConfig()
    endpoint = Endpoint(
        model=server.model,
        base_url=server.urls,
        runs="endpoint" if server.urls else "server",
        key=server.key_variable if server.has_key or server.needs_key else "",
        context=context,
        thinking_style=server.thinking_style,
        continues=server.continues,
        **_prices(server),
    )
    return config_of(endpoint)


def _prices(server: Server) -> dict[str, Any]:
    price = server.price or Price()
    return {"prompt_price": price.prompt, "completion_price": price.completion}


def _prompted(choices: EngineChoices, server: Server) -> dict[str, Any]:
    """Settings shared by the engines that prompt a chat model."""
    return {
        "model": server.model,
        "endpoints": list(server.urls),
        "prompts_dir": choices.prompts,
        "structured": server.needs_key,  # OpenAI's own; other servers may only know the tags
        "thinking_style": server.thinking_style,
        **_prices(server),
        **_key(server),
    }


def _key(server: Server) -> dict[str, Any]:
    """The key where its variable is set, and the variable's name where a key is required."""
    return {
        "api_key": dg.EnvVar(server.key_variable) if server.has_key else "",
        "key_variable": server.key_variable if server.needs_key else "",
        "key_name": server.key_variable,
    }
