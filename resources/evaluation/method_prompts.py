"""The prompt files of methods: sections filled with a call's variables, and their hash."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache

from decomposerl.baselines.method import ModelCall
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile, PromptSettings
from resources.store.prompts import AGAIN, load_prompt

CONTINUATION = "continuation"
"""The prompt file that asks a model to continue a transcript."""


class MethodPrompts:
    """Prompt files of a folder, or of the package where it has none; each is read once."""

    def __init__(
        self,
        folder: str = "",
        given: Mapping[str, PromptFile] | None = None,
        settings: PromptSettings | None = None,
    ) -> None:
        """``folder`` may have your own prompt files; ``given`` ones take precedence."""
        wording = settings or PromptSettings()
        self.file = cache(
            lambda name: (given or {}).get(name) or load_prompt(name, folder, wording)
        )

    def filled(self, prompt: str, call: ModelCall) -> str:
        """The call's section with its variables filled in; tags in their values are escaped.

        A repeated call ends with the line that names its form.

        Raises:
            ConfigError: there is no such section, or values and variables do not match.
        """
        values = {name: escaped(value) for name, value in call.variables.items()}
        text = str(self.file(prompt).filled(call.template, **values))
        return f"{text}\n\n{self.file(AGAIN).filled(call.form)}" if call.form else text

    def section(self, prompt: str, call: ModelCall) -> str:
        """The text of the call's section, variables not filled in."""
        return str(self.file(prompt).sections[call.template])

    def hash(self, prompt: str, settings: object) -> str:
        """SHA-256 over the prompt file, the prompts that all methods share, and the settings."""
        digests = [self.file(name).digest for name in (prompt, CONTINUATION, AGAIN)]
        text = json.dumps([prompt, digests, settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
