"""Where MiniCheck's input form comes from: a file, the installed package, or our own text."""

from pathlib import Path

import pytest

from decomposerl.errors import ConfigError, EngineMissing
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
    """Line breaks and spaces at the ends included; the package is never imported."""
    search, document = [write_package(tmp_path)], "[CLAIM] {claim} x"
    form = minicheck_form("chat", search=search)
    system, user = minicheck_request(form.prompt, document, "y").messages
    assert ("published", SYSTEM) == (form.origin, system.content)
    assert f"Paper: {document}\nStatement: y" == user.content
    assert PREFIX == minicheck_form("pair", search=search).prefix


def test_each_text_has_its_own_digest(tmp_path: Path):
    """So answers to another version of the package are never mixed with these."""
    texts = [(SYSTEM, USER), (SYSTEM + " ", USER), (SYSTEM, USER + " ")]
    labels = {
        minicheck_form("chat", search=[write_package(tmp_path / str(n), *both)]).label
        for n, both in enumerate(texts)
    }
    assert len(texts) == len(labels)
    assert all(label.startswith("prompt=published@") for label in labels)


@every_use
def test_the_users_file_comes_first(tmp_path: Path, use: Use):
    """Before the package, and before our own text although that is allowed."""
    search, folder = [write_package(tmp_path)], folder_with(tmp_path, FILE)
    form = minicheck_form(use, folder, allow_own=True, search=search)
    assert ("file", parse_prompt("minicheck", FILE)) == (form.origin, form.prompt)
    assert "held: " == form.prefix


@every_use
def test_without_either_it_is_refused_with_both_fixes(tmp_path: Path, use: Use):
    """One sentence: what is missing, the install command, the folder, and the way to go on."""
    (tmp_path / "empty").mkdir()
    for folder in ("", str(tmp_path / "empty")):
        with pytest.raises(EngineMissing) as error:
            minicheck_form(use, folder, search=[str(tmp_path)])
        said = str(error.value)
        assert "minicheck is not installed" in said
        assert "git+https://github.com/Liyan06/MiniCheck.git" in said
        assert "minicheck.md" in said
        assert "DECOMPOSERL_PROMPTS" in said
        assert "DECOMPOSERL_ALLOW_OWN_PROMPT=yes" in said
        assert "\n" not in said


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


def test_every_origin_has_its_own_name():
    """The same text from another place is another engine; only ours has the note."""
    prompt = load_prompt("minicheck")
    forms = [
        MiniCheckForm("published", prompt),
        MiniCheckForm("file", prompt),
        MiniCheckForm("own", prompt),
    ]
    assert len(forms) == len({form.label for form in forms})
    assert [False, False, True] == [bool(own_prompt_note(form.label)) for form in forms]


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
    search, uses = (
        [write_package(tmp_path)],
        dict(zip(["utils.py", "inference.py"], USES, strict=True)),
    )
    changed = tmp_path / "minicheck" / file
    changed.unlink()
    if text is not None:
        changed.write_text(text)
    with pytest.raises(EngineMissing, match=f"{changed} does not hold the form"):
        published_prompt(uses[file], search)
    other = "pair" if file == "utils.py" else "chat"
    assert published_prompt(other, search).sections
    with pytest.raises(EngineMissing, match="another package has the same name"):
        minicheck_form(uses[file], search=search)


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
