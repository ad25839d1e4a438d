"""``.env.example`` and ``docs/reference/variables.md``, from the type of the settings."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any, get_args

from pydantic.fields import FieldInfo

from dagster_project.environment import SHORT, read_settings, variable_of
from dagster_project.settings import FIELDS, PROJECT, ProfileName, Settings
from decomposerl.endpoint import Endpoint
from studies.reference.markdown import MADE, code, paragraphs, plain

EXAMPLE = PROJECT / ".env.example"
EXAMPLES: Mapping[str, str] = {
    "profile": "local",
    "paths.data": "/path/to/data",
    "paths.corpora": "/path/to/corpora",
    "paths.systems": "/path/to/systems.toml",
    "paths.prompts": "/path/to/prompts",
    "silver.model": "Qwen/Qwen3-32B",
    "silver.base_url": "http://127.0.0.1:8000/v1",
    "silver.key": "MY_KEY",
    "silver.prompt_price": "0.25",
    "silver.completion_price": "2.00",
    "silver.dollars": "100",
    "judge.model": "Qwen/Qwen3-32B-FP8",
    "judge.base_url": "http://127.0.0.1:8000/v1",
    "judge.key": "JUDGE_KEY",
    "judge.thinking": "off",
    "judge.structured": "yes",
    "embedder.model": "text-embedding-3-large",
    "embedder.base_url": "https://api.openai.com/v1",
    "questions.base_url": "http://127.0.0.1:8002/v1",
    "verifier.base_url": "http://127.0.0.1:8001/v1",
    "evaluation.base_url": "http://127.0.0.1:8004/v1",
    "evaluation.context": "16384",
    "endpoint.model": "my-model",
    "endpoint.base_url": "http://127.0.0.1:8005/v1",
    "training.generation": "vllm_colocate",
    "machine.device": "cuda:0",
    "machine.mapper": "processes:4",
    "machine.vllm": "env CUDA_VISIBLE_DEVICES=1 /path/to/vllm serve",
}
"""The settings that ``.env.example`` has, with the value that it shows."""
KEY_AND_HOME: Mapping[str, tuple[str, str]] = {
    "OPENAI_API_KEY": (
        "the key of api.openai.com, sent to nothing else, and neither stored nor shown",
        "",
    ),
    "DAGSTER_HOME": (
        "read by Dagster: folder of the run history; make and decomposerl use .dagster_home",
        "/path/to/this/project/.dagster_home",
    ),
}
"""Variables that are no setting: what they are, and an example."""
_HEAD = """\
# Written by `make reference` from the settings' type. Copy to .env and edit: the dagster commands,
# `decomposerl`, `make demo` and `make ui` read .env from the working folder; variables of the
# environment override it. Every setting has such a variable, and may stand in decomposerl.toml
# instead (docs/reference/variables.md). A misspelt name is an error that names the nearest one.
"""
_INTRODUCTION = """\
A setting stands in `decomposerl.toml` of the working folder, or else of the data folder:

```toml
profile = "paper"

[judge]
base_url = ["http://127.0.0.1:8000/v1"]
key = "JUDGE_KEY" # the name of a variable, never the key

[machine]
device = "cuda"
```

or in a variable: `DECOMPOSERL_`, section, `__` and field, such as `DECOMPOSERL_JUDGE__BASE_URL`
(several values with commas between them). The environment overrides `.env` of the working folder,
that the file, and the file the profile. `DECOMPOSERL_DATA` and `DECOMPOSERL_CORPORA` are short for
`DECOMPOSERL_PATHS__DATA` and `DECOMPOSERL_PATHS__CORPORA`.

The profiles are files as well, in `dagster_project/profiles`: a copy named `decomposerl.toml` is
the profile, ready to edit. A misspelt name is an error with the nearest one and its place.
`decomposerl doctor` shows what a profile still lacks. `.env.example` has the usual variables.

A key is read from the variable that `key` names, when a request needs it; at api.openai.com from
`OPENAI_API_KEY`. Names of the version before, such as `DECOMPOSERL_JUDGE_URL`, work for this one
version, with a notice.
"""
_OF_A_MODEL = """\
In every section of a model, and in entries of `systems.toml`. A model on a public price list needs
no price; a role takes no adapter.
"""
_PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)
_LINK = re.compile(r"docs/([\w-]+/([\w-]+)\.md)")
Path_ = tuple[str, ...]


def example() -> str:
    """``.env.example``."""
    return _HEAD + "".join(f"\n{part}" for part in _entries())


def _entries() -> Iterator[str]:
    for name, shown in EXAMPLES.items():
        path = tuple(name.split("."))
        section = f"[{path[0]}] " * (len(path) > 1)
        said = f"{section}{FIELDS[path].description}. Unset: {_default_text(path)}."
        yield f"{_comment(said)}# {shortest(path)}={shown}\n"
    for variable, (said, shown) in KEY_AND_HOME.items():
        yield f"{_comment(f'{said}.')}# {variable}={shown}\n"


def _comment(text: str) -> str:
    return fill(text, 98, initial_indent="# ", subsequent_indent="# ") + "\n"


def shortest(path: Path_) -> str:
    """The variable of a setting, by its short name where it has one."""
    return SHORT.get(path, variable_of(path))


def page() -> str:
    """The page as Markdown."""
    return paragraphs("# Settings and variables", _INTRODUCTION, MADE, *_sections())


def _sections() -> Iterator[str]:
    top = {path: one for path, one in FIELDS.items() if len(path) == 1}
    yield from ("## Top level", _list(top))
    for name, section in Settings():
        if name == "profile":
            continue
        field, kind = Settings.model_fields[name], type(section)
        own = {path: one for path, one in FIELDS.items() if path[0] == name and len(path) > 1}
        if issubclass(kind, Endpoint):
            own = {path: one for path, one in own.items() if _is_own(path, one)}
        meaning = field.description or plain(kind.__doc__ or "").splitlines()[0]
        yield from (f"## [{name}]", meaning, _list(own))
    shared = {(name,): one for name, one in Endpoint.model_fields.items()}
    defaults = {path: code(_text(one.default)) for path, one in shared.items()}
    yield from ("## A model", _OF_A_MODEL, _list(shared, defaults))


def _is_own(path: Path_, field: FieldInfo) -> bool:
    """Whether a role has its own meaning, or a value of its own in some profile."""
    general = Endpoint.model_fields.get(path[-1])
    if general is None or general.description != field.description:
        return True
    priced = path[-1] in {"prompt_price", "completion_price"}  # by the model's name
    changed = (_value(profile, path) != general.default for profile in _PROFILES)
    return not priced and any(changed)


def _list(fields: Mapping[Path_, FieldInfo], defaults: Mapping[Path_, str] | None = None) -> str:
    """A line a setting, with its default in brackets where there is one."""
    lines = []
    for path, field in fields.items():
        default = _default_text(path, code) if defaults is None else defaults[path]
        shown = f" ({default})" if default not in {"", "none"} else ""
        lines.append(f"- {code(path[-1])}{shown}: {_meaning(field)}")
    return "\n".join(lines)


def _meaning(field: FieldInfo) -> str:
    return _LINK.sub(r"[\2](../\1)", field.description or "")


def _value(profile: str, path: Path_) -> Any:  # noqa: ANN401 - of any setting
    value: Any = read_settings({"DECOMPOSERL_PROFILE": profile})
    for name in path:
        value = getattr(value, name)
    return value


def _default_text(path: Path_, shown: Callable[[str], str] = str) -> str:
    """The default, with the profiles that have it where they differ; none is not said there."""
    if path in {("profile",), ("paths", "data")}:
        return "data/ of the project" if path[-1] == "data" else shown("embedded")
    profiles: dict[str, list[str]] = {}
    for profile in _PROFILES:
        profiles.setdefault(_text(_value(profile, path)), []).append(profile)
    if len(profiles) == 1:
        return shown(*profiles) or "none"
    named = [f"{', '.join(names)}: {shown(value)}" for value, names in profiles.items() if value]
    return "; ".join(named)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return (" " if value[:1] == ("vllm",) else ",").join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value in {None, 0} else f"{value:,}" if isinstance(value, int) else str(value)


def write_example(file: Path = EXAMPLE) -> None:
    """Write ``.env.example``."""
    file.write_text(example(), "utf-8")
