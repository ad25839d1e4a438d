"""Prompt files from the package or from a user's folder.

Takes a name, gives a ``PromptFile``. A file of the same name in the user's folder takes the
place of the package's; its other digest keeps its replies apart.

Left out deliberately: what a prompt means (``decomposerl.prompts``).
"""

from importlib import resources
from pathlib import Path

from decomposerl.errors import ConfigError
from decomposerl.prompts.template import PromptFile, parse_prompt


def load_prompt(name: str, folder: str = "") -> PromptFile:
    """Read ``<name>.md`` from ``folder``, or from the package where none is named.

    Raises:
        ConfigError: there is no such file, it is not UTF-8 text, or it is malformed.
    """
    place = Path(folder) if folder else resources.files("decomposerl.prompts")
    file = place / f"{name}.md"
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompt '{name}': {file} cannot be read as UTF-8 text") from error
    return parse_prompt(name, text)
