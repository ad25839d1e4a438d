"""The ledger's row of the graph: assets, checks, jobs and resources, as Dagster has them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project.definitions import build_definitions
from dagster_project.profiles import profile_from_environment
from ledger import digest
from ledger_inputs import plain_environment

PROFILES = ("embedded", "local", "paper")


def graph_entries(folder: Path) -> Mapping[str, Any]:
    """The embedded profile's graph, and the fields of the resources of each profile."""
    with plain_environment():
        graphs = {name: _definitions(name, folder) for name in PROFILES}
    definitions = graphs["embedded"]
    graph = definitions.resolve_asset_graph()
    nodes = [graph.get(key) for key in sorted(graph.get_all_asset_keys())]
    partitions = {node.key.to_user_string(): _partitions(node) for node in nodes}
    return {
        "assets": {node.key.to_user_string(): _asset(node) for node in nodes},
        "settings of assets": dict(sorted(_settings(definitions).items())),
        "partitions": {key: digest(names) for key, names in partitions.items() if names},
        "systems": partitions["predictions/fever"],
        "recipes": partitions["policy"],
        "jobs": {job.name: _job(job) for job in definitions.resolve_all_job_defs()},
        "resources": {name: _resources(one, folder) for name, one in graphs.items()},
        "pools": {
            name: sorted({pool for node in _nodes(one) for pool in node.pools})
            for name, one in graphs.items()
        },
    }


def _definitions(profile: str, folder: Path) -> dg.Definitions:
    variables = {"DECOMPOSERL_PROFILE": profile, "DECOMPOSERL_DATA": str(folder / "data")}
    return build_definitions(profile_from_environment(variables))


def _nodes(definitions: dg.Definitions) -> list[Any]:
    graph = definitions.resolve_asset_graph()
    return [graph.get(key) for key in sorted(graph.materializable_asset_keys)]


def _asset(node: Any) -> dict[str, Any]:  # noqa: ANN401 - a class of Dagster's inner modules
    """Group, dependencies, checks, kinds and tags; not its code version, which follows the code."""
    columns = node.metadata.get("dagster/column_schema")
    return {
        "group": node.group_name,
        "depends on": [key.to_user_string() for key in sorted(node.parent_keys)],
        "checks": sorted(key.name for key in node.check_keys),
        "tags": sorted(f"{name}={value}" for name, value in node.tags.items()),
        "automatic": node.automation_condition is not None,
        "columns": digest([[one.name, one.type] for one in columns.columns]) if columns else None,
    }


def _partitions(node: Any) -> list[str]:  # noqa: ANN401 - the same
    return list(node.partitions_def.get_partition_keys()) if node.partitions_def else []


def _settings(definitions: dg.Definitions) -> dict[str, Any]:
    """The names, types and defaults of each asset's settings."""
    found = {}
    for asset in definitions.resolve_asset_graph().assets_defs:
        fields = getattr(getattr(asset.node_def, "config_field", None), "config_type", None)
        if fields := getattr(fields, "fields", None):
            found[asset.node_def.name] = {
                name: f"{one.config_type.given_name or one.config_type.key}"
                f" = {one.default_value_as_json_str if one.default_provided else 'required'}"
                for name, one in sorted(fields.items())
            }
    return found


def _job(job: dg.JobDefinition) -> dict[str, Any]:
    """The assets of a job, its partitions, and the configuration its launchpad opens with."""
    shown = job.run_config
    if job.partitions_def is not None:
        shown = job.get_run_config_for_partition_key(job.partitions_def.get_partition_keys()[0])
    selected = [key.to_user_string() for key in sorted(job.asset_layer.selected_asset_keys)]
    return {
        "assets": selected
        if len(selected) < len(job.asset_layer.asset_graph.get_all_asset_keys())
        else "all",
        "partitioned": job.partitions_def is not None,
        "prefilled": digest(shown) if shown else None,
    }


def _resources(definitions: dg.Definitions, folder: Path) -> dict[str, Any]:
    """The fields of each resource with their values; nested ones as Dagster shows them."""
    plain = {}
    for name, resource in sorted((definitions.resources or {}).items()):
        fields = resource.model_dump(mode="python") if hasattr(resource, "model_dump") else {}
        text = json.dumps(fields, sort_keys=True, default=str).replace(str(folder), "FOLDER")
        plain[name] = json.loads(text)
    return plain
