"""Where MiniCheck's input form comes from: a file, the installed package, or our own text."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dagster_project.engine_choices import ProfileName, engine_choices
from dagster_project.engine_resources import engine_resources
from decomposerl.errors import ConfigError, EngineError, EngineMissing
from decomposerl.prompts.minicheck import (
    MiniCheckForm,
    Use,
    check_form,
    minicheck_request,
    own_prompt_note,
)
from decomposerl.prompts.template import parse_prompt
from minicheck_package import PREFIX, SYSTEM, USER, write_package
from project import ROOT
from resources.store.prompts import load_prompt
from resources.verifier.minicheck_form import minicheck_form, own_form
from resources.verifier.published_form import published_prompt

FILE = """<!-- section: system -->
Weigh.
<!-- section: user -->
D {document} C {claim}
<!-- section: pair -->
held: {document}{separator}{claim}
"""
USES: list[Use] = ["chat", "pair"]
every_use = pytest.mark.parametrize("use", USES)


def folder_with(tmp_path: Path, text: str) -> str:
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "minicheck.md").write_text(text, "utf-8")
    return str(folder)


def test_the_installed_package_gives_its_texts_to_the_letter(tmp_path: Path):
    """The package is never imported; each text and origin has a name of its own."""
    search, document = [write_package(tmp_path)], "[CLAIM] {claim} x"
    form = minicheck_form("chat", search=search)
    system, user = minicheck_request(form.prompt, document, "y").messages
    assert ("published", SYSTEM) == (form.origin, system.content)
    assert f"Paper: {document}\nStatement: y" == user.content
    assert PREFIX == minicheck_form("pair", search=search).prefix
    texts = [(SYSTEM, USER), (SYSTEM + " ", USER), (SYSTEM, USER + " ")]
    labels = {
        minicheck_form("chat", search=[write_package(tmp_path / str(n), *both)]).label
        for n, both in enumerate(texts)
    }
    assert len(texts) == len(labels)
    assert all(label.startswith("prompt=published@") for label in labels)
    prompt, origins = load_prompt("minicheck"), ("published", "file", "own")
    forms = [MiniCheckForm(origin, prompt) for origin in origins]
    assert len(forms) == len({form.label for form in forms})
    assert [False, False, True] == [bool(own_prompt_note(form.label)) for form in forms]


@every_use
def test_the_users_file_comes_first(tmp_path: Path, use: Use):
    """Before the package, and before our own text although that is allowed."""
    search, folder = [write_package(tmp_path)], folder_with(tmp_path, FILE)
    form = minicheck_form(use, folder, allow_own=True, search=search)
    assert ("file", parse_prompt("minicheck", FILE)) == (form.origin, form.prompt)
    assert "held: " == form.prefix


@every_use
def test_without_either_it_is_refused_with_both_fixes(tmp_path: Path, use: Use):
    """With what is missing, the install command, the folder, and the way to go on."""
    (tmp_path / "empty").mkdir()
    for folder in ("", str(tmp_path / "empty")):
        with pytest.raises(EngineMissing) as error:
            minicheck_form(use, folder, search=[str(tmp_path)])
        named = ("minicheck is not installed", "git+https://github.com/Liyan06/MiniCheck.git")
        named += ("minicheck.md", "DECOMPOSERL_PROMPTS", "DECOMPOSERL_ALLOW_OWN_PROMPT=yes")
        assert [] == [one for one in named if one not in str(error.value)]


@every_use
def test_our_own_text_is_used_only_where_it_is_allowed_and_nothing_better_is_here(
    tmp_path: Path, use: Use
):
    """And it is named as ours, also as a copy in the user's folder."""
    nowhere = [str(tmp_path / "nowhere")]
    form = minicheck_form(use, allow_own=True, search=nowhere)
    assert own_form() == form
    assert form.label.startswith("prompt=own@")
    copied = folder_with(tmp_path, (ROOT / "decomposerl/prompts/minicheck.md").read_text("utf-8"))
    assert form == minicheck_form(use, copied, allow_own=True, search=nowhere)
    with pytest.raises(EngineMissing, match="is missing"):
        minicheck_form(use, copied, search=nowhere)
    search = [write_package(tmp_path / "here")]
    assert "published" == minicheck_form(use, allow_own=True, search=search).origin


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("utils.py", "SYSTEM_PROMPT = 'only this'\n"),
        ("utils.py", "SYSTEM_PROMPT = 'a'\nUSER_PROMPT = '[DOCUMENT] without the other'\n"),
        ("utils.py", "SYSTEM_PROMPT = f'{1}'\nUSER_PROMPT = '[DOCUMENT] [CLAIM]'\n"),
        ("utils.py", "def broken(:\n"),
        ("utils.py", "\0"),
        ("utils.py", None),
        ("inference.py", "def batch_tokenize(texts):\n    return texts\n"),
        ("inference.py", "def other(texts):\n    return 'a: ' + texts\n"),
        ("inference.py", None),
    ],
)
def test_another_package_of_that_name_is_not_taken_for_it(
    tmp_path: Path, file: str, text: str | None
):
    """What is not where it is published is missing, and the message names the file."""
    search, changed = [write_package(tmp_path)], tmp_path / "minicheck" / file
    changed.unlink()
    if text is not None:
        changed.write_text(text)
    use, other = USES if file == "utils.py" else USES[::-1]
    with pytest.raises(EngineMissing, match=str(changed)):
        published_prompt(use, search)
    assert published_prompt(other, search).sections
    with pytest.raises(EngineMissing, match=str(changed)):
        minicheck_form(use, search=search)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- section: user -->\n{document}{claim}\n", "no section 'pair'"),
        ("<!-- section: pair -->\n{claim}{separator}{document}\n", "must end with"),
        ("<!-- section: pair -->\n{document} {claim}\n", "placeholders"),
    ],
)
def test_a_file_that_does_not_fit_the_small_models_is_refused(tmp_path: Path, text: str, said: str):
    """Its section 'pair' is a prefix before document, separator and claim."""
    form = minicheck_form("pair", folder_with(tmp_path, text))
    with pytest.raises(ConfigError, match=said):
        _ = form.prefix
    with pytest.raises(ConfigError, match=said):
        check_form(form, "pair")


@contextmanager
def first_on_the_path(folder: str) -> Iterator[None]:
    """Imports look in the folder first."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


@pytest.mark.parametrize("profile", ["local", "paper"])
def test_minicheck_runs_in_the_form_it_was_trained_on_or_is_refused(
    profile: ProfileName, tmp_path: Path
):
    """Each origin is a name of its own; a refusal comes before a server is started."""
    begun, model, program = tmp_path / "begun", tmp_path / "model", tmp_path / "vllm"
    model.mkdir()
    (model / "config.json").write_text("{}")
    program.write_text(f"#!/bin/sh\ntouch {begun}\nexit 1\n")
    program.chmod(0o755)
    hiding = tmp_path / "hiding"  # an installed one
    (hiding / "minicheck").mkdir(parents=True)
    prompts, published = folder_with(tmp_path, FILE), write_package(tmp_path / "published")

    def engine(path: Path | str, **changed: str) -> str:
        choices = engine_choices(profile, {"DECOMPOSERL_VLLM": str(program), **changed})
        verifier = engine_resources(choices, str(tmp_path))["verifier"]
        changes = {"model_path": str(model), "revision": "0123456789abcdef" * 2 + "01234567"}
        port = verifier.model_copy(update=changes).open()
        with first_on_the_path(str(path)):
            if profile == "paper":
                with pytest.raises(EngineError):
                    port.support_probability([("e", "c")])
            return str(port.engine)

    with pytest.raises(EngineMissing, match="DECOMPOSERL_PROMPTS"):
        engine(hiding)
    assert not begun.exists()
    assert "prompt=own@" in engine(hiding, DECOMPOSERL_ALLOW_OWN_PROMPT="yes")
    assert (profile == "paper") == begun.exists()
    assert "prompt=file@" in engine(hiding, DECOMPOSERL_PROMPTS=prompts)
    assert "prompt=published@" in engine(published)
