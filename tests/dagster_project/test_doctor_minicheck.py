"""``decomposerl doctor`` on MiniCheck's input form."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from dagster_project.doctor import check_profile
from dagster_project.engine_choices import ProfileName, engine_choices
from dagster_project.profiles import Profile
from minicheck_package import write_package
from resources.preflight import probes as look

NOBODY = "http://127.0.0.1:9/v1"  # the discard port: nobody listens
ENDPOINTS = ("CHAT", "JUDGE", "EMBEDDER", "QUESTIONS", "EVALUATION", "VERIFIER")


def test_the_form_of_minicheck_is_looked_for(tmp_path: Path):
    """Missing with the install command, ours only a note where allowed; fine where it is here."""
    nowhere = [str(tmp_path / "nowhere")]
    for use in ("chat", "pair"):
        lost = look.verifier_form(use, "", allow_own=False, search=nowhere)
        assert ("missing", True) == (lost.state, "DECOMPOSERL_ALLOW_OWN_PROMPT=yes" in lost.said)
        install = "pip install --no-deps 'minicheck @ git+https://github.com/Liyan06/MiniCheck.git"
        assert lost.fix.startswith(install)
        assert "DECOMPOSERL_PROMPTS" in lost.fix
        ours = look.verifier_form(use, "", allow_own=True, search=nowhere)
        assert ("note", True) == (ours.state, "own text" in ours.said)
        here = look.verifier_form(use, "", allow_own=False, search=[write_package(tmp_path / use)])
        assert "ok" == here.state
        assert here.said.startswith("prompt=published@")
    wrong = look.verifier_form("chat", "/no such folder", allow_own=True, search=nowhere)
    assert ("missing", "set DECOMPOSERL_PROMPTS") == (wrong.state, wrong.fix)


@pytest.mark.parametrize("profile", ["local", "paper"])
def test_the_doctor_reads_the_form_as_the_stage_does(tmp_path: Path, profile: ProfileName):
    """The user's file counts where it has the model's sections; embedded has no such line."""

    def findings(name: ProfileName, **env: str) -> list[str]:
        named = {f"DECOMPOSERL_{variable}_URL": NOBODY for variable in ENDPOINTS}
        chosen = engine_choices(name, {**named, **env})
        found = check_profile(Profile(name, None, tmp_path, chosen), lambda _: SecretStr(""))
        return [one.said for one in found.findings if one.part == "prompt"]

    pair = "<!-- section: pair -->\nweigh: {document}{separator}{claim}\n"
    chat = "<!-- section: system -->\nWeigh.\n<!-- section: user -->\n{document} {claim}\n"
    texts = {"local": pair, "paper": chat}
    (tmp_path / "minicheck.md").write_text(texts.pop(profile), "utf-8")
    (said,) = findings(profile, DECOMPOSERL_PROMPTS=str(tmp_path))
    assert said.startswith("prompt=file@")
    (tmp_path / "minicheck.md").write_text(texts.popitem()[1], "utf-8")
    (said,) = findings(profile, DECOMPOSERL_PROMPTS=str(tmp_path))
    assert "has no section" in said
    assert [] == findings("embedded")
