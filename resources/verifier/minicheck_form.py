"""The input form that a MiniCheck engine uses: the user's, the publisher's, or this project's."""

from collections.abc import Callable, Sequence

from decomposerl.errors import EngineMissing
from decomposerl.prompts.minicheck import NAME, MiniCheckForm, Use
from resources.store.prompts import load_prompt
from resources.verifier.published_form import INSTALL, published_prompt

FormSource = Callable[[], MiniCheckForm]
"""Called with the first item, so that a missing form is no error before."""
VARIABLE = "DECOMPOSERL_VERIFIER__ALLOW_OWN_PROMPT"
FIX = f"{INSTALL}, or name a folder whose {NAME}.md holds it in DECOMPOSERL_PATHS__PROMPTS"


def own_form() -> MiniCheckForm:
    """This project's text."""
    return MiniCheckForm("own", load_prompt(NAME))


def minicheck_form(
    use: Use, folder: str = "", *, allow_own: bool = False, search: Sequence[str] | None = None
) -> MiniCheckForm:
    """The form in ``folder``, else the installed package's, else this project's if allowed.

    A copy of this project's file is this project's text wherever it lies. ``search`` are folders in
    place of the Python path.

    Raises:
        EngineMissing: there is none, and this project's is not allowed; the message has the fixes.
        ConfigError: the folder or its file is malformed.
    """
    own, given = own_form(), load_prompt(NAME, folder)
    if given.digest != own.prompt.digest:
        return MiniCheckForm("file", given)
    try:
        return MiniCheckForm("published", published_prompt(use, search))
    except EngineMissing as missing:
        if allow_own:
            return own
        raise EngineMissing(
            f"the input form that MiniCheck was trained on is missing ({missing}): {FIX}; "
            f"allow_own_prompt ({VARIABLE}=yes) runs with this project's own text instead"
        ) from missing
