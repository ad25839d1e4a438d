"""The page of all prompts; that it is current is tested with the other pages."""

import re

from decomposerl.baselines.catalogue import ENTRY_METHODS
from project import ROOT
from resources.store.prompts import load_prompt
from studies.prompt_contracts import CONTRACTS
from studies.prompt_page import every_prompt

PAGE = (ROOT / "docs/reference/prompts.md").read_text("utf-8")
SHORT = re.compile(r"^\[(\d+) worked examples\]$", re.MULTILINE)


def test_what_is_left_out_of_a_prompt_is_said():
    """Each prompt is on the page as sent, but for its worked examples and the verdict rule."""
    rule = load_prompt("question").sections["evidence"]
    for one in every_prompt():
        shown = PAGE.split(f"\n## {one.file} {one.section}\n")[1].split("````")[1]
        counted = [int(number) for number in SHORT.findall(shown)]
        kept = [line for line in shown.splitlines()[1:] if not SHORT.fullmatch(line)]
        assert not set(kept) - {"[verdict rule]"} - set(one.text.splitlines())
        assert sum(counted) in {0, len(re.findall(r"^Example \d+$", one.text, re.MULTILINE))}
        assert (rule in one.text) == (rule in shown or "[verdict rule]" in shown)
        assert one.text.split("This is your task:")[-1].replace(rule, "[verdict rule]") in (
            shown.replace(rule, "[verdict rule]")
        )


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
