"""The prompt files of methods: a call's section with its variables in their places.

Takes a prompt file's name and a call, gives the words that a model reads; and the hash that says
under which words and settings an answer came.

Left out deliberately: messages (each caller has its own form of a turn).
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache

from decomposerl.baselines.method import ModelCall
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile
from resources.store.prompts import load_prompt

CONTINUATION = "continuation"
"""The prompt file that asks to go on with a transcript."""


class MethodPrompts:
    """A folder's prompt files, the package's where it has none, each read once."""

    def __init__(self, folder: str = "", given: Mapping[str, PromptFile] | None = None) -> None:
        """``folder`` may hold prompt files of a person's own; ``given`` ones come before them."""
        self.file = cache(lambda name: (given or {}).get(name) or load_prompt(name, folder))

    def filled(self, prompt: str, call: ModelCall) -> str:
        """The call's section with its variables in their places, no tag of ours in any.

        Raises:
            ConfigError: there is no such section, or values and places do not match.
        """
        values = {name: escaped(value) for name, value in call.variables.items()}
        return str(self.file(prompt).filled(call.template, **values))

    def section(self, prompt: str, call: ModelCall) -> str:
        """The words of the call's section, with its places as they are."""
        return str(self.file(prompt).sections[call.template])

    def hash(self, prompt: str, settings: object) -> str:
        """SHA-256 over the prompt file, the words of a continuation, and the settings."""
        digests = [self.file(name).digest for name in (prompt, CONTINUATION)]
        text = json.dumps([prompt, digests, settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
