"""What the doctor says of the entries of ``systems.toml``: each endpoint, key, adapter and model.

A missing one is a note with the entry's name: only the evaluation of that entry needs it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dagster_project.environment import read_key
from dagster_project.settings import Settings
from decomposerl.errors import ConfigError, EngineMissing
from decomposerl.evaluation.entries import SystemEntry
from decomposerl.extras import install_command
from decomposerl.reports.readiness import ReadinessCheck
from resources.hub.adapters import adapter_folder
from resources.hub.locks import MAIN
from resources.preflight import probes, servers
from resources.vllm.process import program_of


def entry_checks(entries: Sequence[SystemEntry], settings: Settings) -> Iterator[ReadinessCheck]:
    """Every entry's checks in the order of the file, named by the entry."""
    every = (one for entry in entries for one in (entry, entry.writer) if one is not None)
    for entry in every:
        for check in _checks(entry, settings):
            state = "note" if check.state == "missing" else check.state
            yield replace(check, what=f"[{entry.name}] {check.what}", state=state)


def _checks(entry: SystemEntry, settings: Settings) -> Iterator[ReadinessCheck]:
    if entry.adapter:
        yield _adapter(entry)
    if entry.key:
        yield probes.key(entry.key, read_key(entry.key))
    key = read_key(entry.key)
    for url in entry.base_url if key.get_secret_value() or not entry.key else ():
        yield servers.endpoint(url, entry.model, key, "start it, or change base_url or model")
    if entry.place == "in_process":
        yield probes.hub_model(entry.model, revision=entry.revision or MAIN)
        yield probes.package("transformers", install_command("transformers"))
    if entry.place == "server":
        fix = f"{install_command('vllm')}\nor name it in DECOMPOSERL_MACHINE__VLLM"
        yield probes.vllm_program(program_of(settings.machine.vllm), fix)


def _adapter(entry: SystemEntry) -> ReadinessCheck:
    try:
        folder = adapter_folder(entry)
    except (ConfigError, EngineMissing) as error:
        said = str(error).removeprefix(f"[{entry.name}] adapter: ")
        fix = "train it, or name another folder" if isinstance(error, ConfigError) else "see there"
        return ReadinessCheck("adapter", entry.adapter, "missing", said, fix)
    return ReadinessCheck("adapter", entry.adapter, "ok", str(folder))
