"""Settings as Dagster resources, by the names that assets use.

A resource has the name of a key's variable and reads it when a request needs the key, so Dagster
neither stores nor shows a key.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from dagster_project.environment import entries_for, job_variables, names_of_keys
from dagster_project.settings import Role, Settings
from resources.chat.endpoint import ChatCacheFile, EndpointConfig, config_of
from resources.corpora.resource import CorporaResource
from resources.decomposer.resource import DecomposerResource
from resources.embedder.resource import EmbedderResource
from resources.entities.resource import EntitiesResource
from resources.evaluation.model import EvaluationModelResource
from resources.hub.locks import models_lock
from resources.judge.resource import JudgeResource
from resources.judge.tiny_judge import FOLDER
from resources.mapper import IN_PROCESS, parse_mapper
from resources.mapper.resource import MapperChoice, MapperResource
from resources.store.parquet import DataFolder, ParquetTables
from resources.tokens.resource import TokensResource
from resources.training.ray_jobs import TrainingJobs
from resources.training.resource import PolicyTrainerResource
from resources.verifier.resource import VerifierResource
from resources.vllm.server import ServerFields

_HOSTED_BATCH = 8_192  # a batch waits for its slowest request; replies are cached as they arrive
_REPLY_TOKENS = 1_024  # of a judge or a writer of questions, without its thought
_OF_THE_HUB = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}  # a started server downloads its model
_START_S = 1_800  # a first start downloads the model


def resources_for(settings: Settings, *, mapped: bool = False) -> dict[str, Any]:
    """The resources; ``mapped``: for whole tables, so batches run where the settings say."""
    paths, text = settings.paths, settings.text
    here, of_models = (_mapper(settings, mapped=mapped, model=model) for model in (False, True))
    return {
        "io_manager": ParquetTables(base_dir=str(paths.data)),
        "data_folder": DataFolder(base_dir=str(paths.data)),
        "corpora": CorporaResource(
            root=str(paths.corpora or ""), sample_root=str(paths.data / "sample")
        ),
        "chat_cache": ChatCacheFile(results_dir=str(paths.results)),
        "tokens": TokensResource(
            engine="tokenizer" if text.tokenizer else "embedded",
            model=text.tokenizer,
            # Of one machine this process is enough: the tokenizer has a thread a core.
            mapper=here if text.tokenizer and here.where == "ray" else MapperChoice(),
            models_lock=models_lock(paths.data),
        ),
        "entities": EntitiesResource(
            results_dir=str(paths.results),
            engine="spacy" if text.spacy else "embedded",
            models=list(text.spacy),
            gpu=settings.machine.on_gpu,
            mapper=of_models if text.spacy else here,
        ),
        **_roles(settings, here, of_models),
        "judge": _judge(settings),
        "policy_trainer": _policy_trainer(settings),
        "evaluation_model": evaluation_model(settings),
        "mapper": MapperResource(choice=here),
    }


def _roles(settings: Settings, here: MapperChoice, of_models: MapperChoice) -> dict[str, Any]:
    """The resources of four roles; batches of models in this process run as ``of_models``."""
    verifier, silver, questions = settings.verifier, settings.silver, settings.questions
    prompts: dict[str, Any] = {"prompts_dir": settings.paths.prompts}
    locks: dict[str, Any] = {"models_lock": models_lock(settings.paths.data)}

    def port(role: Role, engine: str) -> dict[str, Any]:
        local = here if engine == "embedded" else of_models
        at = {"mapper": MapperChoice() if role.in_use else local}
        return {"engine": engine, **at, **_endpoint(settings, role)}

    own = questions if questions.engine == "hosted" else settings.embedder
    thinks = silver.style == "openai" or silver.thinking == "on"
    return {
        "verifier": VerifierResource(
            **port(verifier, verifier.engine),
            **prompts,
            **locks,
            tokenizer=verifier.tokenizer,
            allow_own_prompt=verifier.allow_own_prompt,
            start_timeout_s=_START_S,
            **_command(settings),
        ),
        "embedder": EmbedderResource(**port(settings.embedder, settings.embedder.engine), **locks),
        "question_embedder": EmbedderResource(**port(own, own.engine), **locks),
        "decomposer": DecomposerResource(
            **port(silver, silver.engine),
            **prompts,
            reply_tokens=_REPLY_TOKENS + (silver.thinking_tokens if thinks else 0),
        ),
    }


def _judge(settings: Settings) -> JudgeResource:
    """One that never thinks has no room for a thought, and nothing to switch."""
    judge, switch = settings.judge, dict[str, Any]()
    if judge.style == "none":
        room = 0 if judge.thinking == "off" else judge.thinking_tokens
        switch = {"thinking": "default", "thinking_tokens": room}
    return JudgeResource(
        engine=judge.engine,
        **_endpoint(settings, judge, **switch),
        prompts_dir=settings.paths.prompts,
        reply_tokens=_REPLY_TOKENS,
        bound_thinking=judge.bound_thinking,
        reasons=judge.reasons,
        heads=str(settings.paths.data / FOLDER),
    )


def _endpoint(settings: Settings, role: Role, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - of an endpoint
    """A model as its resource has it, on the device of this machine unless it names its own."""
    device = role.device or settings.machine.device
    endpoint = config_of(role).model_copy(update={"device": device, **changes})
    batch = {"batch_size": _HOSTED_BATCH} if role.in_use else {}
    return {"results_dir": str(settings.paths.results), "endpoint": endpoint, **batch}


@contextmanager
def open_resources(settings: Settings, *names: str) -> Iterator[list[Any]]:
    """These resources as a run has them; what they start ends with the block."""
    made = resources_for(settings)
    with ExitStack() as opened:
        ready = (made[name].process_config_and_initialize_cm() for name in names)
        yield [opened.enter_context(one) for one in ready]


def pools_of(settings: Settings) -> dict[str, str]:
    """The pool of each asset that uses a GPU, here or through a server started for it."""
    engine, on_gpu = settings.verifier.engine, settings.machine.on_gpu
    using = {
        "difficulty_band": engine == "minicheck_hosted" or (engine != "embedded" and on_gpu),
        "predictions": on_gpu or settings.evaluation.place == "server",
        "policy": on_gpu,
        "rule_filtered": on_gpu and bool(settings.text.spacy),
    }
    encodes = on_gpu and settings.embedder.engine == "sentence_transformers"
    using |= dict.fromkeys(("deduplicated", "decontaminated", "diversity_selected"), encodes)
    return {stage: "gpu" for stage, used in sorted(using.items()) if used}


def _mapper(settings: Settings, *, mapped: bool, model: bool) -> MapperChoice:
    """Where batches run; a ``model`` on a GPU has one of its own for each worker."""
    at = parse_mapper(settings.machine.mapper, "mapper") if mapped else IN_PROCESS
    on_gpu = model and settings.machine.on_gpu
    workers = at.workers or int(on_gpu and at.where == "processes")
    return MapperChoice(where=at.where, workers=workers, address=at.address, gpus=float(on_gpu))


def _command(settings: Settings) -> dict[str, Any]:
    """How a server is started; it sees no key but the hub's."""
    models = (settings.evaluation, settings.endpoint, *settings.served.values())
    keys = {one.key_variable for one in (*models, *entries_for(settings))} - {""}
    withheld = {*names_of_keys(), *keys} - _OF_THE_HUB
    machine = settings.machine
    return {"vllm": list(machine.vllm), "cards": machine.cards, "withheld": sorted(withheld)}


def _policy_trainer(settings: Settings) -> PolicyTrainerResource:
    training, machine = settings.training, settings.machine
    address = "".join(training.jobs)
    shown = job_variables(settings) if address else {}
    return PolicyTrainerResource(
        jobs=TrainingJobs(address=address, gpus=float(machine.on_gpu), variables=shown),
        module="dagster_project.worker",
        device=machine.device,
        encoder=training.encoder,
        generation=training.generation,
        generation_url="".join(training.generation_url),
        prompts_dir=settings.paths.prompts,
    )


def evaluation_model(settings: Settings) -> EvaluationModelResource:
    """The models that are evaluated; a server is started where the settings say so."""
    return EvaluationModelResource(
        open_models=_evaluated(settings.evaluation, continues=not settings.evaluation.at_openai),
        openai=_evaluated(settings.openai),
        endpoint=_evaluated(settings.endpoint),
        server=ServerFields(**_command(settings)),
        policies=settings.evaluation.policies,
        device=settings.machine.device,
        prompts_dir=settings.paths.prompts,
        results_dir=str(settings.paths.results),
    )


def _evaluated(role: Role, *, continues: bool = False) -> EndpointConfig:
    """A role as the evaluation has it; ``continues`` unless the settings say otherwise."""
    given = continues if role.continues is None else role.continues
    return config_of(role).model_copy(update={"continues": given})
