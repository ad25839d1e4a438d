"""Profile to resources: the only module that reads the environment.

Takes the environment variables documented in ``.env.example`` and gives a ``Profile`` of
plain values; ``resources_for`` turns a profile into Dagster resources. A profile is a
choice of engines behind the same ports, nothing else changes.

Left out deliberately: keys. An engine that needs one reads it from the variable whose
*name* the profile carries, so no key ever stands in a configuration.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from dotenv import dotenv_values

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.generic import parse_benchmark_toml, parse_source_toml
from decomposerl.claims.source import Benchmark, Source
from decomposerl.errors import ConfigError

ProfileName = Literal["embedded", "local", "paper"]
_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Profile:
    """Where data lies and which engines run.

    ``corpora`` is the folder of raw corpora, None for the bundled sample. ``data`` is the
    folder for Parquet, DuckDB and stored engine results.
    """

    name: ProfileName
    corpora: Path | None
    data: Path


def profile_from_environment(environment: Mapping[str, str] | None = None) -> Profile:
    """Read the profile; relative folders are taken from the working directory.

    Without an argument, a ``.env`` file of the working directory fills in what the
    environment does not say, as it does for the ``dagster`` commands.

    Raises:
        ConfigError: the profile is unknown or the corpora folder does not exist.
    """
    env = _environment() if environment is None else environment
    name = env.get("DECOMPOSERL_PROFILE") or "embedded"
    if name not in get_args(ProfileName):
        choices = ", ".join(get_args(ProfileName))
        raise ConfigError(f"DECOMPOSERL_PROFILE is '{name}'; it must be one of {choices}")
    corpora = Path(env["DECOMPOSERL_CORPORA"]).resolve() if env.get("DECOMPOSERL_CORPORA") else None
    if corpora is not None and not corpora.is_dir():
        raise ConfigError(f"DECOMPOSERL_CORPORA names no folder: {corpora}")
    data = Path(env.get("DECOMPOSERL_DATA") or _ROOT / "data").resolve()
    return Profile(name=cast("ProfileName", name), corpora=corpora, data=data)


def _environment() -> dict[str, str]:
    written = {name: value for name, value in dotenv_values(".env").items() if value is not None}
    return {**written, **os.environ}


def resources_for(profile: Profile) -> dict[str, Any]:
    """The Dagster resources of a profile, by the names that assets ask for.

    Raises:
        ConfigError: the profile's engines are not part of this version.
    """
    from resources.engines import (
        DecomposerResource,
        EmbedderResource,
        EntitiesResource,
        TokensResource,
        VerifierResource,
    )
    from resources.reading import CorporaResource
    from resources.tables import DataFolder, ParquetTables

    if profile.name != "embedded":
        raise ConfigError(
            f"profile '{profile.name}' is not available in this version: only the engines of "
            "the embedded profile are built so far. Unset DECOMPOSERL_PROFILE."
        )
    results = str(profile.data / "engine_results")
    return {
        "io_manager": ParquetTables(base_dir=str(profile.data)),
        "data_folder": DataFolder(base_dir=str(profile.data)),
        "corpora": CorporaResource(
            root=str(profile.corpora or ""), sample_root=str(profile.data / "sample")
        ),
        "tokens": TokensResource(),
        "entities": EntitiesResource(results_dir=results),
        "verifier": VerifierResource(results_dir=results),
        "embedder": EmbedderResource(results_dir=results),
        "decomposer": DecomposerResource(results_dir=results),
    }


def sources_for(profile: Profile) -> tuple[Source, ...]:
    """The catalogue's sources, then the user's own from ``<corpora>/*/source.toml``.

    Raises:
        ConfigError: a file is malformed, or a name is taken.
    """
    own = tuple(parse_source_toml(text, where) for where, text in _own_corpora(profile))
    _refuse_taken_names(own, [*SOURCES, *own])
    return (*SOURCES, *own)


def benchmarks_for(profile: Profile) -> tuple[Benchmark, ...]:
    """The catalogue's benchmarks, then the test files that the user's own corpora name.

    Raises:
        ConfigError: a file is malformed, or a name is taken.
    """
    parsed = (parse_benchmark_toml(text, where) for where, text in _own_corpora(profile))
    own = tuple(benchmark for benchmark in parsed if benchmark is not None)
    _refuse_taken_names(own, [*BENCHMARKS, *own])
    return (*BENCHMARKS, *own)


def _own_corpora(profile: Profile) -> list[tuple[str, str]]:
    paths = sorted(profile.corpora.glob("*/source.toml")) if profile.corpora else []
    return [(str(path), _text_of(path)) for path in paths]


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as UTF-8 text: {error}") from error


def _refuse_taken_names(
    own: Sequence[Source | Benchmark], every: Sequence[Source | Benchmark]
) -> None:
    names = [corpus.name for corpus in every]
    taken = sorted({corpus.name for corpus in own if names.count(corpus.name) > 1})
    if taken:
        raise ConfigError(f"source.toml: the corpus name '{taken[0]}' is taken; choose another")
