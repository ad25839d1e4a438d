"""The input form that a MiniCheck engine uses: the user's, the publisher's, or this project's.

The publisher's is in the package ``minicheck`` of github.com/Liyan06/MiniCheck. Importing it would
load torch and the packages of its engines, so its files are parsed and only string constants are
taken from them.
"""

import ast
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from decomposerl.errors import EngineMissing
from decomposerl.prompts.template import PromptFile
from decomposerl.prompts.verifier import NAME, Use, VerifierForm, minicheck
from resources.store.prompts import load_prompt

PACKAGE = "minicheck"
INSTALL = "pip install --no-deps 'minicheck @ git+https://github.com/Liyan06/MiniCheck.git@main'"
_MARKS = {"[DOCUMENT]": "{document}", "[CLAIM]": "{claim}"}
_ENCODING = "batch_tokenize"  # the function that builds the text for Flan-T5
FormSource = Callable[[], VerifierForm]
"""Called with the first item, so that a missing form is no error before."""
VARIABLE = "DECOMPOSERL_VERIFIER__ALLOW_OWN_PROMPT"
FIX = f"{INSTALL}\nor name a folder whose {NAME}.md holds it in DECOMPOSERL_PATHS__PROMPTS"
_FIXES = ", ".join(FIX.splitlines())  # the command, and what else helps


def own_form() -> VerifierForm:
    """This project's text."""
    return minicheck("own", load_prompt(NAME))


def minicheck_form(
    use: Use, folder: str = "", *, allow_own: bool = False, search: Sequence[str] | None = None
) -> VerifierForm:
    """The form in ``folder``, else the installed package's, else this project's if allowed.

    A copy of this project's file is this project's text wherever it lies. ``search`` are folders in
    place of the Python path.

    Raises:
        EngineMissing: there is none, and this project's is not allowed; the message has the fixes.
        ConfigError: the folder or its file is malformed.
    """
    own, given = own_form(), load_prompt(NAME, folder)
    if given != own.prompt:
        return minicheck("file", given)
    try:
        return minicheck("published", published_prompt(use, search))
    except EngineMissing as missing:
        if allow_own:
            return own
        raise EngineMissing(
            f"the input form that MiniCheck was trained on is missing ({missing}): {_FIXES}; "
            f"allow_own_prompt ({VARIABLE}=yes) runs with this project's own text instead"
        ) from missing


def published_prompt(use: Use, search: Sequence[str] | None = None) -> PromptFile:
    """The sections for ``use``; ``search`` are folders in place of the Python path.

    Raises:
        EngineMissing: the package is not installed, or the form is not where it is published.
    """
    folder = _package_folder(search)
    sections = _chat_sections(folder) if use == "chat" else _pair_section(folder)
    text = "".join(f"<!-- section: {name} -->\n{body}\n" for name, body in sections.items())
    return PromptFile(NAME, hashlib.sha256(text.encode()).hexdigest(), sections)


def _package_folder(search: Sequence[str] | None) -> Path:
    spec = find_spec(PACKAGE) if search is None else PathFinder.find_spec(PACKAGE, search)
    if spec is None or not spec.submodule_search_locations:
        raise EngineMissing(f"the package {PACKAGE} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def _chat_sections(folder: Path) -> Mapping[str, str]:
    file = folder / "utils.py"
    constants = {
        target.id: str(node.value.value)
        for node in _parsed(file).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    system, user = (constants.get(f"{role}_PROMPT", "") for role in ("SYSTEM", "USER"))
    if not system or any(user.count(mark) != 1 for mark in _MARKS):
        raise _unlike(file)
    for mark, placeholder in _MARKS.items():
        user = user.replace(mark, placeholder)
    return {"system": system, "user": user}


def _pair_section(folder: Path) -> Mapping[str, str]:
    file = folder / "inference.py"
    prefixes = {
        node.left.value
        for function in ast.walk(_parsed(file))
        if isinstance(function, ast.FunctionDef) and function.name == _ENCODING
        for node in ast.walk(function)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
    }
    if len(prefixes) != 1:
        raise _unlike(file)
    return {"pair": prefixes.pop() + "{document}{separator}{claim}"}


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise _unlike(file) from error


def _unlike(file: Path) -> EngineMissing:
    return EngineMissing(f"{file} does not hold the form (another package has the same name)")
