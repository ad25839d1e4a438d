"""``decomposerl build-pages``."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from decomposerl.claims.page_dumps import PAGE_SETS, PageSet
from made_dumps import made_dump, rows_in, write_claims
from page_commands import blocks, project_in
from project import ROOT
from resources.corpora.partial_pages import megabytes


def build(corpora: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["build-pages", *words, "--corpora", str(corpora)])


@pytest.mark.parametrize("pages", PAGE_SETS, ids=lambda pages: pages.name)
def test_the_dump_is_found_in_its_place(tmp_path: Path, pages: PageSet):
    """Without --from; a second call refuses; --replace --only-needed makes the small one."""
    place, target = tmp_path / pages.places[-1], tmp_path / pages.target
    place.mkdir()
    first = pages.dumps[0]

    def refuses(word: str, *more: str) -> None:
        done = build(tmp_path, pages.name, *more)
        assert (2, True) == (done.exit_code, word in done.output), done.output

    for word in (first.file, first.license, first.address):
        refuses(word)
    made_dump(pages.name, place)
    done = build(tmp_path, pages.name)
    assert 0 == done.exit_code, done.output
    count = len(rows_in(target))
    assert f"{target}: {count} pages, 0.0 MB, from {first.file}" in done.output
    refuses("--replace")
    refuses("no claim", "--replace", "--only-needed")
    write_claims(pages.name, tmp_path)
    small = build(tmp_path, pages.name, "--replace", "--only-needed", "--json")
    assert 0 == small.exit_code, small.output
    shown = json.loads(small.stdout)
    assert shown["pages"] == shown["needed"] == len(rows_in(target)) < count


def test_pages_that_claims_name_and_the_dump_lacks_are_listed(tmp_path: Path):
    """A claim without a page has no evidence, so it must be seen; the room is said before."""
    dump = made_dump("hover", tmp_path)
    (tmp_path / "hover").mkdir()
    facts = [["Tide", 0], *([f"Absent {n}", 0] for n in range(7))]
    row = {"uid": "u", "claim": "C.", "label": "SUPPORTED", "num_hops": 2}
    (tmp_path / "hover/hover_train_release_v1.1.json").write_text(
        json.dumps([row | {"supporting_facts": facts}])
    )
    done = build(tmp_path, "hover", "--only-needed", "--from", str(dump))
    assert "7 of the 8 pages that claims name are not in the dump: Absent 0" in done.output
    assert "Absent 4 and 2 more" in done.output
    whole = build(tmp_path, "fever", "--from", str(made_dump("fever", tmp_path)))
    assert "will need about 0.0 MB" in whole.output


def test_the_commands_of_the_page_run(tmp_path: Path):
    """As printed, with the dumps where the page's table puts them."""
    page = (ROOT / "docs/how-to/page-databases.md").read_text("utf-8")
    corpora = tmp_path / "corpora"
    for pages in PAGE_SETS:
        write_claims(pages.name, corpora)
        made_dump(pages.name, corpora / pages.places[0])
    (corpora / "ex_fever" / PAGE_SETS[0].dumps[0].file).unlink()
    commands = page.replace("/path/to/corpora", str(corpora))
    status, printed = project_in(tmp_path, "").run(commands, blocks(commands))
    assert 0 == status, printed
    assert all((corpora / pages.target).is_file() for pages in PAGE_SETS)


def test_the_page_names_every_dump_with_its_size():
    """The address, the published size and the size of all pages, as the table in the code."""
    page = (ROOT / "docs/how-to/page-databases.md").read_text("utf-8")
    for pages in PAGE_SETS:
        first = pages.dumps[0]
        row = next(line for line in page.splitlines() if f"]({first.address})" in line)
        assert f"| {megabytes(first.size)} | {megabytes(first.database)} |" in row
        assert first.file.split("pages-meta")[0] in row
        assert any(f"(`{place}`)" in row for place in pages.places)
