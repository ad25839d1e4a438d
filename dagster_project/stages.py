"""The stages of the graph by name: its assets, and what each one reads.

A word of ``decomposerl run`` names an asset without partitions, such as ``claims/hover``, or a
group that has only such assets, such as ``funnel``.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import dagster as dg

from decomposerl.errors import ConfigError

_ALIKE = 0.55
_COMMANDS = {
    "policy": "decomposerl train RECIPE",
    "predictions": "decomposerl evaluate SYSTEM",
    "scores": "decomposerl evaluate SYSTEM",
    "calibrations": "dagster job execute -m dagster_project.definitions -j calibrate",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """An asset: ``what`` is the first line of its description.

    ``upstream`` are the keys of all assets before it; it reads those in ``inputs`` as frames and
    fails without them.
    """

    key: str
    group: str
    what: str
    upstream: tuple[str, ...] = ()
    inputs: frozenset[str] = frozenset()
    partitioned: bool = False


Stages = Mapping[str, Stage]


def stages_of(definitions: dg.Definitions) -> Stages:
    """Every asset by key, in the order of the graph: what is upstream comes first."""
    graph = definitions.resolve_asset_graph()
    keys = [key for level in graph.toposorted_asset_keys_by_level for key in sorted(level)]
    nodes = [graph.get(key) for key in keys]
    stages = []
    for node in nodes:
        asset = node.assets_def
        kinds = asset.node_def.input_dict
        inputs = {
            parent.to_user_string()
            for name, parent in asset.keys_by_input_name.items()
            if not kinds[name].dagster_type.is_nothing
        }
        stages.append(
            Stage(
                key=node.key.to_user_string(),
                group=node.group_name,
                what=(node.description or "").partition("\n")[0],
                upstream=tuple(parent.to_user_string() for parent in sorted(node.parent_keys)),
                inputs=frozenset(inputs),
                partitioned=node.is_partitioned,
            )
        )
    return {stage.key: stage for stage in stages}


def groups_of(stages: Stages) -> dict[str, list[str]]:
    """The keys of each group without a partitioned asset."""
    mixed = {stage.group for stage in stages.values() if stage.partitioned}
    groups: dict[str, list[str]] = {}
    for stage in stages.values():
        if stage.group not in mixed:
            groups.setdefault(stage.group, []).append(stage.key)
    return groups


def stages_named(words: Sequence[str], stages: Stages) -> list[str]:
    """The keys that words name, each once.

    Raises:
        ConfigError: there is no word, or one names nothing; the message has the nearest names.
    """
    groups = groups_of(stages)
    if not words:
        names = [*groups, *groups.get("funnel", ())]
        raise ConfigError(f"name one or more stages, such as {', '.join(names)}")
    names = [*groups, *(key for key, stage in stages.items() if not stage.partitioned)]
    for word in words:
        if word in stages and stages[word].partitioned:
            command = _COMMANDS.get(word.partition("/")[0], "dagster asset materialize")
            raise ConfigError(f"'{word}' has partitions: use {command}")
        if word not in names:
            near = " or ".join(nearest(word, names))
            raise ConfigError(f"there is no stage '{word}'; the nearest is {near}")
    return list(dict.fromkeys(key for word in words for key in groups.get(word, [word])))


def missing_upstream(
    keys: Collection[str], stages: Stages, exists: Callable[[str], bool]
) -> dict[str, list[str]]:
    """Stages before ``keys`` that are not on disk, each with those that cannot run without it.

    What is before a stage on disk is not looked at; partitioned assets are left out. The order is
    that of ``stages``.
    """
    needed: dict[str, list[str]] = {}
    waiting, seen = list(keys), set(keys)
    while waiting:
        stage = stages[waiting.pop(0)]
        absent = [one for one in stage.upstream if one not in keys and not exists(one)]
        for one in (one for one in absent if not stages[one].partitioned):
            readers = needed.setdefault(one, [])
            readers += [stage.key] if one in stage.inputs else []
            waiting += [] if one in seen else [one]
            seen.add(one)
    return {key: needed[key] for key in stages if key in needed}


def condensed(keys: Collection[str], stages: Stages) -> str:
    """The keys for a sentence: a group in place of its members where all of them are there."""
    names = list(keys)
    for group, members in groups_of(stages).items():
        if set(members) <= set(names):
            names = [group, *(key for key in names if key not in members)]
    return ", ".join(names)


def nearest(word: str, names: Collection[str]) -> list[str]:
    """Up to three names like ``word``, at least the most similar one."""
    return get_close_matches(word, names, 3, _ALIKE) or get_close_matches(word, names, 1, 0)
