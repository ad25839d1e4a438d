"""Prompt files from the package or from a user's folder.

A file in the user's folder replaces the package's file of the same name. Its different digest
gives it its own stored replies. Shared wording (``question.md``) is put in as a file is loaded and
is part of the digest.
"""

from importlib import resources
from pathlib import Path

from decomposerl.errors import ConfigError
from decomposerl.prompts.policy import NAME as POLICY
from decomposerl.prompts.template import (
    QUESTION,
    PromptFile,
    PromptSettings,
    parse_prompt,
    with_labels,
    with_shared_text,
)

_DEFAULT = PromptSettings()

AGAIN = "again"
"""The prompt file whose sections name the form of a reply that could not be read."""


def load_prompt(name: str, folder: str = "", settings: PromptSettings = _DEFAULT) -> PromptFile:
    """Read ``<name>.md`` from ``folder`` if it is there, else from the package.

    Raises:
        ConfigError: the folder does not exist or holds a prompt that nothing uses, or the file
            is malformed or not UTF-8 text.
    """
    return _resolved(_read(name, folder, settings), folder, settings)


def load_policy_prompt(
    base: str, folder: str = "", settings: PromptSettings = _DEFAULT
) -> PromptFile:
    """The prompt of a policy whose base weights are ``base``.

    The user's in ``folder`` comes first, then the base's own: a base that was warm-started on a
    prompt has a file ``policy.md`` in its folder. The default is the project's.

    Raises:
        ConfigError: the file is not UTF-8 text or malformed.
    """
    bundled = Path(base) / f"{POLICY}.md"
    if bundled.is_file() and not (folder and (Path(folder) / f"{POLICY}.md").is_file()):
        text = with_labels(bundled.read_text("utf-8"), settings.verdict_rule)
        own = parse_prompt(POLICY, text)
        return _resolved(own, folder, settings)
    return load_prompt(POLICY, folder, settings)


def _resolved(prompt: PromptFile, folder: str, settings: PromptSettings) -> PromptFile:
    if prompt.name == QUESTION:
        return prompt
    return with_shared_text(prompt, _read(QUESTION, folder, settings), settings)


def _read(name: str, folder: str, settings: PromptSettings) -> PromptFile:
    """The file as it is written, with the verdicts to choose from."""
    package = resources.files("decomposerl.prompts")
    file = package / f"{name}.md"
    if folder:
        own = Path(folder)
        known = {one.name for one in package.iterdir() if one.name.endswith(".md")}
        _refuse_strange_folder(own, known)
        file = own / f"{name}.md" if (own / f"{name}.md").is_file() else file
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompt '{name}': {file} cannot be read as UTF-8 text") from error
    return parse_prompt(name, with_labels(text, settings.verdict_rule))


def _refuse_strange_folder(folder: Path, known: set[str]) -> None:
    """A misspelled file would be ignored silently."""
    if not folder.is_dir():
        raise ConfigError(f"there is no folder of prompts at {folder}")
    strange = sorted({path.name for path in folder.glob("*.md")} - known)
    if strange:
        raise ConfigError(
            f"{folder} holds {strange[0]}, which no engine asks for; the prompts are "
            f"{', '.join(sorted(known))}"
        )
