"""The verifiers behind entries of ``systems.toml``: at an endpoint, or a classifier in process.

They cut long evidence into chunks themselves, so no rule for claims beyond the context applies.
"""

from dataclasses import replace
from functools import partial

from decomposerl.chat import Sampling
from decomposerl.evaluation.entries import VERIFIER, SystemEntry
from decomposerl.evaluation.systems import System
from decomposerl.prompts.minicheck import SAMPLING as MINICHECK_SAMPLING
from decomposerl.prompts.template import inline_prompt
from decomposerl.prompts.verifier import TOP_LOGPROBS, VerifierForm
from resources.evaluation.caller import MethodCaller
from resources.evaluation.context_guard import ContextGuard
from resources.evaluation.entry_engines import EntryEngines, Opened, refuse_missing_folder
from resources.evaluation.opened_system import Details
from resources.evaluation.rule_systems import task_of
from resources.evaluation.verifier_caller import HostedVerifierCaller, VerifierCaller, scored_above
from resources.hub.locks import MAIN
from resources.store.result_store import ResultStores
from resources.verifier.chunks import ChunkTokens
from resources.verifier.classifier import ClassifierVerifier
from resources.verifier.minicheck_form import minicheck_form
from resources.verifier.own_chat import OwnChatVerifier
from resources.verifier.stored import StoredVerifier

_CONTEXT, _MARGIN = 32_768, 1_024  # tokens by default, and kept for claim and prompt
_CLASSIFIER_CONTEXT, _CLASSIFIER_CHUNK = 512, 400
_WRITTEN = 1_024  # tokens of a reply whose text is read


def opened_verifier(engines: EntryEngines, system: System, entry: SystemEntry) -> Opened:
    """The entry's task and caller. Nothing is loaded or asked yet.

    Raises:
        ConfigError: the folder of its model is missing.
    """
    refuse_missing_folder(entry)
    procedure = scored_above(entry.threshold)
    task = task_of(system, procedure, VERIFIER, entry.seed, decomposes=False)
    make = _classifier if entry.form == "classifier" else _hosted
    caller, details = make(engines, entry)
    return task, caller, details, ContextGuard(engines.rule)


def _hosted(engines: EntryEngines, entry: SystemEntry) -> tuple[MethodCaller, Details]:
    served = engines.served(entry)
    sampling = _sampling(entry, served.call_settings(entry.seed).room)
    most = sampling.max_tokens + _MARGIN  # beside the evidence
    context = entry.context or _CONTEXT
    chat = served.client(
        entry.model,
        results=engines.results,
        closers=engines.closers,
        shared=engines.shared,
        pin=engines.locks.fetched,
        needs_logprobs=entry.read == "logprobs",
        needed_context=entry.context or min(context, (entry.chunk or context) + most),
    )
    verifier = OwnChatVerifier(
        chat,
        partial(_form, engines, entry, sampling),
        budget=entry.chunk or max(context - most, context // 4),
        tokens=ChunkTokens(entry.tokenizer, entry.model, entry.revision, engines.locks.cached),
        claim_split=entry.claim_split,
        score="raw" if entry.form == "minicheck" else entry.score,
        thinking=served.call_settings(entry.seed).thinking,
    )
    return HostedVerifierCaller(verifier, entry.threshold, served.price), verifier.details


def _form(
    engines: EntryEngines, entry: SystemEntry, sampling: Sampling
) -> tuple[str, VerifierForm]:
    """A label of the prompt for the engine's name, and the form."""
    words = (entry.supported, entry.refuted, entry.read)
    if entry.form == "documents":
        form = VerifierForm(None, *words, sampling, entry.template or "{}")
        return f"documents {form.template}", form
    if entry.form == "minicheck":
        published = minicheck_form("chat", engines.prompts_dir, allow_own=engines.allow_own_prompt)
        return published.label, VerifierForm(published.prompt, sampling=sampling)
    prompt = inline_prompt(VERIFIER, {"system": entry.system, "user": entry.user})
    return f"prompt=entry@{prompt.digest[:12]}", VerifierForm(prompt, *words, sampling)


def _sampling(entry: SystemEntry, thought: int) -> Sampling:
    """One token with log probabilities, or a text, unless the entry says more.

    ``thought`` tokens are added where the model thinks first.
    """
    if entry.form == "minicheck":
        return replace(MINICHECK_SAMPLING, max_tokens=MINICHECK_SAMPLING.max_tokens + thought)
    spelled = entry.read == "text"
    return Sampling(
        temperature=entry.temperature or 0.0,
        seed=entry.seed,
        max_tokens=(entry.max_tokens or (_WRITTEN if spelled else 1)) + thought,
        top_logprobs=0 if spelled else TOP_LOGPROBS,
    )


def _classifier(engines: EntryEngines, entry: SystemEntry) -> tuple[MethodCaller, Details]:
    verifier = ClassifierVerifier(
        entry.model,
        entry.revision or MAIN,
        inline_prompt(VERIFIER, {"pair": entry.pair}) if entry.pair else None,
        entry.supported_class,
        entry.chunk or _CLASSIFIER_CHUNK,
        entry.context or _CLASSIFIER_CONTEXT,
        entry.claim_split,
        entry.device or engines.device,
        entry.dtype,
        engines.locks.cached,
    )
    stored = StoredVerifier(verifier, ResultStores(engines.results))
    return VerifierCaller(stored, entry.threshold), stored.details
