"""A made-up package `minicheck` in the layout of the published one, with invented texts."""

from pathlib import Path

SYSTEM = '\nSay "Yes" or "No"\nand nothing else. \n'
USER = "Paper: [DOCUMENT]\nStatement: [CLAIM]"
PREFIX = "weigh this: "
_UTILS = "SYSTEM_PROMPT = {system!r}\n\nUSER_PROMPT = {user!r}\nOTHER = len(USER_PROMPT)\n"
_INFERENCE = """
import a_package_that_is_not_here

class Inferencer:
    def chunks(self, text):
        return 'not this: ' + text

    def batch_tokenize(self, texts):
        if self.model_name == 'flan-t5-large':
            return self.tokenizer([{prefix!r} + text for text in texts])
        return self.tokenizer([text for text in texts])
"""


def write_package(folder: Path, system: str = SYSTEM, user: str = USER) -> str:
    """Write the package into ``folder``, to be put on the Python path; importing it fails."""
    package = folder / "minicheck"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (package / "utils.py").write_text(_UTILS.format(system=system, user=user))
    (package / "inference.py").write_text(_INFERENCE.format(prefix=PREFIX))
    return str(folder)
