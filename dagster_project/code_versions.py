"""The code version of each asset: what of this project and its settings decides its result.

Two parts, ``code.engines``. The first is a hash of the definitions that the asset's function uses,
with those behind it that it gets as an argument. The second is one of the chosen engines: the
revision that each declares, the fields of their resources that decide an answer, and their prompts.
Both only read files of this project, so definitions load fast.

Not part of it: the code of engines and stores, because an engine whose answers change changes its
name; and the commits of hub models, which the data folder locks at the first use. All partitions of
an asset share a version, so a method's new revision marks the predictions of every system.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project.code_reader import ROOT, CodeReader, Symbol, short_digest
from decomposerl.baselines.catalogue import METHODS
from decomposerl.errors import EngineMissing
from decomposerl.training.studies import STUDIES
from resources.decomposer.rule_engine import RuleDecomposer
from resources.embedder.minilm import MiniLM
from resources.entities.rule_engine import RuleEntities
from resources.evaluation.trained_policy import REVISION
from resources.judge.rule_judge import RuleJudge
from resources.tokens.word_tokens import WordTokens
from resources.verifier.lexical import LexicalVerifier

_EMBEDDED: Mapping[str, Callable[[], str]] = {
    "tokens": lambda: WordTokens().unit,
    "entities": lambda: RuleEntities().engine,
    "verifier": lambda: LexicalVerifier().engine,
    "embedder": lambda: MiniLM().engine,
    "question_embedder": lambda: MiniLM().engine,
    "decomposer": lambda: RuleDecomposer().engine,
    "judge": lambda: RuleJudge().engine,
}
DECIDE = frozenset(
    (
        *("settings", "engine", "model", "models", "revision", "model_path", "minicheck", "dtype"),
        *("tokenizer", "instruction", "dimensions", "claim_split", "score", "allow_own_prompt"),
        *("structured", "thinking", "thinking_tokens", "bound_thinking", "temperature", "seed"),
        *("reply_tokens", "context", "prefix_caching", "vllm_arguments", "importance_correction"),
        *("most_cycles", "verdict_rule", "demonstrations", "beyond_context", "folder", "encoder"),
    )
)
"""Fields of the resources that decide an answer; the others say where, how fast, at what cost."""
_PROMPTS = {
    "decomposer": ("silver", "again", "question"),
    "verifier": ("minicheck",),
    "judge": ("answerability", "atomicity", "correctness", "coverage", "again", "question"),
    "policy_trainer": ("policy",),
}
_EVALUATED = "evaluation_model"
"""Its prompts are those of the methods: every other file."""
_LOADS: Mapping[str, Symbol] = {
    "claims": ("decomposerl.claims.load", "load_source"),
    "benchmark": ("decomposerl.claims.load", "load_benchmark"),
}
_READ_BY = (("sources", "SOURCE"), ("benchmarks", "BENCHMARK"))
_TRAINS = (
    ("decomposerl.training.experiments", "RECIPES"),
    ("decomposerl.judge.plan", "plan"),
    ("decomposerl.rewards.composite", "reward_batch"),
    ("decomposerl.training.evidence_view", "evidence_view"),
)
_BEHIND: Mapping[str, tuple[Symbol, ...]] = {
    "policy": _TRAINS,
    **{
        f"study/{study.name}": (("decomposerl.training.studies", "STUDIES"), *_TRAINS)
        for study in STUDIES
    },
}
"""What an asset's function gets as an argument, or what runs in a process of its own."""


def code_version(asset: dg.AssetsDefinition, facts: Mapping[str, object], code: CodeReader) -> str:
    """The version of an asset with one key; ``facts`` are those of ``engine_facts``."""
    function: Any = asset.op.compute_fn
    decorated = function.decorated_fn
    own = (decorated.__module__, decorated.__qualname__.partition(".")[0])
    written = json.dumps(facts, sort_keys=True, default=str)
    return f"{code.digest([own, *_behind(asset.key)])}.{short_digest(written)}"


def _behind(key: dg.AssetKey) -> list[Symbol]:
    folder, *name = key.path
    if folder not in _LOADS:
        return list(_BEHIND.get(key.to_user_string(), ()))
    own = ("decomposerl.claims.generic", "parse_source_toml")
    files = [(f"decomposerl.claims.{kind}.{name[0]}", constant) for kind, constant in _READ_BY]
    return [_LOADS[folder], own, *files]


def engine_facts(resources: Mapping[str, object]) -> dict[str, Any]:
    """What decides the answers of an asset's resources, by their names; the rest is left out."""
    every = {name: _facts(name, one) for name, one in sorted(resources.items())}
    if _EVALUATED in every:
        every["methods"] = {one.name: one.revision for one in METHODS} | {"policy": REVISION}
    return {name: facts for name, facts in every.items() if facts}


def _facts(name: str, resource: object) -> dict[str, Any]:
    fields = sorted(DECIDE & set(getattr(type(resource), "model_fields", ())))
    facts = {one: getattr(resource, one) for one in fields}
    if facts.get("engine") == "embedded":
        with suppress(EngineMissing):  # not installed: nothing can have been made with it
            return {"engine": _EMBEDDED[name]()}
    if name in {*_PROMPTS, _EVALUATED}:
        facts["prompts"] = _prompts_digest(name, getattr(resource, "prompts_dir", ""))
    return facts


def _prompts_digest(name: str, folder: str) -> str:
    """Of a resource's prompt files, a user's in place of the project's."""
    shipped = sorted((ROOT / "decomposerl/prompts").glob("*.md"))
    others = {path.stem for path in shipped} - {one for names in _PROMPTS.values() for one in names}
    wanted = set(_PROMPTS.get(name, others))
    own = [Path(folder) / path.name if folder else path for path in shipped]
    texts = [
        (mine if mine.is_file() else path).read_text("utf-8", "replace")
        for mine, path in zip(own, shipped, strict=True)
        if path.stem in wanted
    ]
    return short_digest(*texts)
