"""The page of all prompts."""

from decomposerl.baselines.catalogue import ENTRY_METHODS
from project import ROOT
from resources.store.prompts import load_prompt
from studies.prompt_contracts import CONTRACTS
from studies.prompt_page import every_prompt, page

PAGE = (ROOT / "docs/reference/prompts.md").read_text("utf-8")
AGAIN = "python -m studies.prompt_page docs/reference/prompts.md"


def test_the_page_is_what_the_code_sends():
    """``docs/reference/prompts.md`` is the generated text; the page names the command."""
    assert page() == PAGE, f"write it again: {AGAIN}"
    assert AGAIN in PAGE


def test_every_prompt_is_on_the_page():
    """Each section of each method, each file that a model gets, with its revision."""
    shown = {(one.file, one.section) for one in every_prompt()}
    expected = {
        (method.prompt, section)
        for method in ENTRY_METHODS
        if method.prompt
        for section in load_prompt(method.prompt).sections
    }
    assert expected <= shown
    files = {path.stem for path in (ROOT / "decomposerl/prompts").glob("*.md")}
    assert files - {"again", "question"} == {file for file, _ in shown}
    for file in files - {"question"}:
        assert f"`{load_prompt(file).digest[:12]}`" in PAGE


def test_every_contract_is_of_a_prompt():
    """No sentence is left over from a section that is gone."""
    shown = {f"{one.file}/{one.section}" for one in every_prompt()}
    assert set() == CONTRACTS.keys() - shown
