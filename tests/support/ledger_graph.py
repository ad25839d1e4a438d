"""The ledger's row of the graph: assets, checks, jobs and resources, as Dagster has them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project.definitions import build_definitions
from dagster_project.environment import read_settings
from ledger import digest
from ledger_inputs import plain_environment


def graph_entries(folder: Path) -> Mapping[str, Any]:
    """The embedded profile's graph, and resources and pools of each profile."""
    with plain_environment():
        graphs = {name: _definitions(name, folder) for name in ("embedded", "local", "paper")}
    embedded = graphs["embedded"]
    nodes = {node.key.to_user_string(): node for node in _nodes(embedded)}
    partitions = {
        name: list(node.partitions_def.get_partition_keys())
        for name, node in nodes.items()
        if node.partitions_def
    }
    return {
        "assets": {name: _asset(node) for name, node in nodes.items()},
        "settings of assets": _settings(embedded),
        "partitions": {name: digest(keys) for name, keys in partitions.items() if keys},
        "systems": partitions["predictions/fever"],
        "recipes": partitions["policy"],
        "jobs": {job.name: _job(job) for job in embedded.resolve_all_job_defs()},
        "resources": {name: _resources(one, folder) for name, one in graphs.items()},
        "pools": {
            name: sorted({pool for node in _nodes(one) for pool in node.pools})
            for name, one in graphs.items()
        },
    }


def _definitions(profile: str, folder: Path) -> dg.Definitions:
    """The graph under a profile, its data in the folder."""
    variables = {"DECOMPOSERL_PROFILE": profile, "DECOMPOSERL_DATA": str(folder / "data")}
    return build_definitions(read_settings(variables))


def _nodes(definitions: dg.Definitions) -> Iterable[Any]:
    """Each asset, files from elsewhere included."""
    return definitions.resolve_asset_graph().asset_nodes


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


def _settings(definitions: dg.Definitions) -> dict[str, Any]:
    """The names, types and defaults of each asset's settings."""
    settings = {}
    for asset in definitions.resolve_asset_graph().assets_defs:
        fields = getattr(getattr(asset.node_def, "config_field", None), "config_type", None)
        if fields := getattr(fields, "fields", None):
            settings[asset.node_def.name] = {
                name: f"{one.config_type.given_name or one.config_type.key}"
                f" = {one.default_value_as_json_str if one.default_provided else 'required'}"
                for name, one in sorted(fields.items())
            }
    return settings


def _job(job: dg.JobDefinition) -> dict[str, Any]:
    """The assets of a job, its partitions, and the configuration its launchpad opens with."""
    shown = job.run_config
    if job.partitions_def is not None:
        shown = job.get_run_config_for_partition_key(job.partitions_def.get_partition_keys()[0])
    selected = [key.to_user_string() for key in sorted(job.asset_layer.selected_asset_keys)]
    everything = len(selected) == len(job.asset_layer.asset_graph.get_all_asset_keys())
    return {
        "assets": "all" if everything else selected,
        "partitioned": job.partitions_def is not None,
        "prefilled": digest(shown) if shown else None,
    }


def _resources(definitions: dg.Definitions, folder: Path) -> dict[str, Any]:
    """The fields of each resource with their values; nested ones as Dagster shows them."""
    fields = {
        name: resource.model_dump() if hasattr(resource, "model_dump") else {}
        for name, resource in (definitions.resources or {}).items()
    }
    return json.loads(json.dumps(fields, default=str).replace(str(folder), "FOLDER"))
