"""``fetch``, ``init corpus`` and ``build-pages``: corpora from elsewhere and of one's own."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.environment import corpora_for
from decomposerl.claims.downloads import ACCESS
from environment import lacking, settings_of
from file_server import Fault, FileServer
from made_dumps import made_dump, rows_in, write_claims
from page_commands import blocks, project_in
from project import ROOT
from resources.corpora.lock_file import LOCK_FILE
from resources.corpora.page_build import PAGE_SETS, PageSet, megabytes

SCITAB = ACCESS["scitab"].downloads[0]
CONTENT = b"[]"


def command(*words: object, **env: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", **env}).invoke(app, list(map(str, words)))


def run(*words: str) -> Result:
    return command("fetch", *words)


@pytest.fixture
def mirror() -> Iterator[FileServer]:
    """A mirror with SciTab's file, whose content is not the published one."""
    with FileServer({"/" + SCITAB.url.partition("://")[2]: CONTENT}) as server:
        yield server


def refused(result: Result, *words: str) -> None:
    assert 2 == result.exit_code
    assert "Traceback" not in result.stderr
    assert all(word in result.stderr for word in words), result.stderr


def test_terms_come_first_and_are_accepted_once(tmp_path: Path, mirror: FileServer):
    """Nothing is requested before they are accepted; shown again once they have changed."""
    words = ("scitab", "--corpora", str(tmp_path), "--mirror", mirror.url())
    shown = run(*words, "--accept-changed")
    refused(shown, "--accept-terms")
    assert all(word in shown.stdout for word in ("SciTab (scitab)", "2.3 MB", "MIT"))
    assert [] == mirror.seen
    refused(run(*words, "--accept-terms"), "2 bytes", "2,292,807", "--accept-changed")
    assert not (tmp_path / "scitab/sci_tab.json").exists()
    accepted = run(*words, "--accept-terms", "--accept-changed")
    assert 0 == accepted.exit_code, accepted.stderr
    assert CONTENT == (tmp_path / "scitab/sci_tab.json").read_bytes()
    again = run(*words, "--accept-changed")
    assert f"kept: {tmp_path}/scitab/sci_tab.json\n" == again.stdout
    assert 2 == len(mirror.seen)
    lock = tmp_path / LOCK_FILE
    text = lock.read_text("utf-8")
    digest = text.partition('accepted" = "')[2].split(" on ")[0]
    assert 12 == len(digest)
    lock.write_text(text.replace(digest, "0" * 12), "utf-8")
    refused(run(*words, "--accept-changed"), "--accept-terms")


def test_a_step_for_a_person_is_said_and_ends_with_1(tmp_path: Path):
    """What to open, which files, which folder; once they are there nothing is left."""
    words = ("ambifc", "--corpora", str(tmp_path), "--accept-terms")
    said = run(*words)
    assert 1 == said.exit_code
    assert "https://drive.google.com/drive/folders/" in said.stdout
    assert "train.certain.jsonl" in said.stdout
    for_programs = run(*words, "--json")
    assert ([], True) == (json.loads(for_programs.stdout), "train.certain" in for_programs.stderr)
    for path in ACCESS["ambifc"].files():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"{}\n")
    done = run(*words)
    assert (0, "") == (done.exit_code, done.stdout)


def test_one_failure_does_not_stop_the_others(tmp_path: Path, mirror: FileServer):
    """Every failed corpus is named; the exit code says that not all are there."""
    mirror.faults["/" + SCITAB.url.partition("://")[2]] = [Fault(503), Fault(200, body=CONTENT)]
    words = ("pubmedclaim", "scitab", "--corpora", str(tmp_path), "--mirror", mirror.url())
    result = run(*words, "--accept-terms", "--accept-changed")
    refused(result, "pubmedclaim: pubmedqa/ori_pqal.json: 127.0.0.1")
    assert f"fetched: {tmp_path}/scitab/sci_tab.json" == result.stdout.splitlines()[-1]


def test_the_list_has_every_corpus_with_what_a_user_needs(tmp_path: Path):
    """JSON: all facts of the table. Text: one row each, and what is on disk."""
    rows = json.loads(run("--list", "--json").stdout)
    assert list(ACCESS) == [row["name"] for row in rows]
    for row in rows:
        assert all((row["license"], row["terms"], row["homepage"].startswith("https://")))
        manual = row["obtained"] == "manual"
        assert all(one["checked_in"] and (one["url"] or manual) for one in row["downloads"])
    by_name = {row["name"]: row for row in rows}
    assert "hub, gated" == by_name["llm_aggrefact"]["obtained"]
    assert "decomposerl fetch hover --pages" == by_name["hover"]["command"]
    (tmp_path / "scitab").mkdir()
    (tmp_path / "scitab" / "sci_tab.json.gz").write_bytes(b"")
    shown = run("--list", "scitab", "wice", "--corpora", str(tmp_path))
    assert [] == lacking(shown.stdout, "1 of 1", "0 of 5")
    assert "hover" not in shown.stdout


def test_a_cut_file_of_a_person_counts_as_damaged_until_it_is_dealt_with(
    tmp_path: Path, mirror: FileServer
):
    """The list, a fetch and its next steps: move it away, or keep it as it is."""
    folder = tmp_path / "scitab"
    folder.mkdir()
    (folder / "sci_tab.json").write_bytes(b"[{")
    to = ("scitab", "--corpora", str(tmp_path))
    shown = run("--list", *to)
    assert "0 of 1" in shown.stdout
    step = "2 bytes where 2,292,807 are published; move it away, then decomposerl fetch scitab"
    assert step in " ".join(shown.stderr.split())
    words = (*to, "--mirror", mirror.url(), "--accept-terms")
    refused(run(*words), "sci_tab.json was there before", "Move it away", "--accept-changed")
    assert b"[{" == (folder / "sci_tab.json").read_bytes()
    assert 0 == run(*words, "--accept-changed").exit_code
    assert [] == mirror.seen
    (folder / "sci_tab.json").write_bytes(b"edited since")
    again = run(*words, "--accept-changed")
    assert "what was at scitab/sci_tab.json is sci_tab.json.replaced-" in again.stderr
    assert CONTENT == (folder / "sci_tab.json").read_bytes()


# ``init corpus``

ROWS: list[dict[str, object]] = [
    {
        "note_id": n,
        "statement": f"Bridge {n} was painted in 2011.",
        "report": {"text": f"Bridge {n} was painted in 2011. It took a month. It is blue."},
        "verdict": ("holds", "fails", "unclear", "odd")[n % 4],
    }
    for n in range(12)
]
FLAT = [{**row, "report": f"{row['statement']} It took a month. It is blue."} for row in ROWS]


def init(name: str, file: Path, corpora: Path, *words: str) -> Result:
    return command("init", "corpus", name, "--from", file, "--corpora", corpora, *words)


def test_a_file_in_the_corpora_folder_is_named_where_it_is(tmp_path: Path):
    """No copy; a test file becomes a test set."""
    (tmp_path / "raw").mkdir()
    file = tmp_path / "raw/notes_test.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    done = init("bridge_notes", file, tmp_path, "--supported", "odd", "--supported", "holds")
    assert 0 == done.exit_code, done.output
    assert ["source.toml"] == [path.name for path in (tmp_path / "bridge_notes").iterdir()]
    own = corpora_for(settings_of(tmp_path, tmp_path))[1][-1]
    assert ["raw/notes_test.jsonl"] == [each.path for each in own.files]
    assert {"odd", "holds"} == own.labels.supported
    assert "decomposerl run benchmark/bridge_notes" in done.stdout


def test_nothing_is_overwritten(tmp_path: Path):
    """Neither a source.toml nor rows of the same name; labels far down the file are counted."""
    file, corpora = tmp_path / "notes.jsonl", tmp_path / "corpora"
    many = [{**ROWS[0], "note_id": n} for n in range(700)] + [ROWS[1]]
    file.write_text("\n".join(map(json.dumps, many)), "utf-8")
    assert 0 == init("own", file, corpora).exit_code
    text = (corpora / "own/source.toml").read_text("utf-8")
    assert 'refuted = ["fails"]  # rows: 1' in text
    again = init("own", file, corpora)
    assert (2, 1) == (again.exit_code, len(again.stderr.splitlines()))
    assert "source.toml" in again.stderr
    assert text == (corpora / "own/source.toml").read_text("utf-8")
    (corpora / "own/source.toml").unlink()
    file.write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    kept = init("own", file, corpora)
    assert (2, True) == (kept.exit_code, "notes.jsonl" in kept.stderr)
    assert file.read_bytes() != (corpora / "own/notes.jsonl").read_bytes()


def everything(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_source_toml_that_is_there_is_shown_with_its_rejects(tmp_path: Path):
    """Training and test files; the labels that no list has; how many rejects are too many."""
    folder = tmp_path / "notes"
    folder.mkdir()
    shutil.copy(Path(__file__).with_name("notes.toml"), folder / "source.toml")
    words = ("init", "corpus", "notes", "--corpora", tmp_path, "--preview", "5")
    empty = command(*words)
    assert (0, True) == (empty.exit_code, "status not_available" in empty.stdout)
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, FLAT)), "utf-8")
    bare = {**FLAT[0], "report": None}
    (folder / "test.jsonl").write_text(json.dumps(bare) + "\n" + json.dumps(FLAT[2]), "utf-8")
    before = everything(tmp_path)
    done = command(*words)
    assert (0, before) == (done.exit_code, everything(tmp_path)), done.output
    trained, tested = done.stdout.split("benchmark/notes: ")
    assert list("12345") == re.findall(r"^(\d)\. ", trained, re.MULTILINE)
    rejected = "rejected: unknown_label label, first notes/a.jsonl:4: odd"
    assert [] == lacking(trained, f"  3  {rejected}\n", "'odd' (3)", "25.0%", "5.0%")
    assert [] == lacking(tested, "2 rows from notes/test.jsonl", "1. no label (native 'unclear')")
    assert "rejected: missing_field report, first notes/test.jsonl:1" in tested


# ``build-pages``


def build(corpora: Path, *words: str) -> Result:
    return command("build-pages", *words, "--corpora", corpora)


@pytest.mark.parametrize("pages", PAGE_SETS.values(), ids=PAGE_SETS)
def test_the_dump_is_found_in_its_place(tmp_path: Path, pages: PageSet):
    """Without --from; a second call refuses; --replace --only-needed makes the small one."""
    place, target = tmp_path / pages.places[-1], tmp_path / pages.target
    place.mkdir()

    def refuses(word: str, *more: str) -> None:
        done = build(tmp_path, pages.name, *more)
        assert (2, True) == (done.exit_code, word in done.output), done.output

    for word in (pages.file, pages.license, pages.address):
        refuses(word)
    made_dump(pages.name, place)
    done = build(tmp_path, pages.name)
    assert 0 == done.exit_code, done.output
    count = len(rows_in(target))
    assert f"{target}: {count} pages, 0.0 MB, from {pages.file}" in done.output
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
    claims = json.dumps([row | {"supporting_facts": facts}])
    (tmp_path / "hover/hover_train_release_v1.1.json").write_text(claims)
    done = build(tmp_path, "hover", "--only-needed", "--from", str(dump))
    assert "7 of the 8 pages that claims name are not in the dump: Absent 0" in done.output
    assert "Absent 4, …" in done.output
    whole = build(tmp_path, "fever", "--from", str(made_dump("fever", tmp_path)))
    assert "will need about 0.0 MB" in whole.output


def test_the_commands_of_the_page_run(tmp_path: Path):
    """As printed, with the dumps where the page's table puts them."""
    page = (ROOT / "docs/how-to/page-databases.md").read_text("utf-8")
    corpora = tmp_path / "corpora"
    for pages in PAGE_SETS.values():
        write_claims(pages.name, corpora)
        made_dump(pages.name, corpora / pages.places[0])
    (corpora / "ex_fever" / PAGE_SETS["hover"].file).unlink()
    commands = page.replace("/path/to/corpora", str(corpora))
    status, printed = project_in(tmp_path, "").run(commands, blocks(commands))
    assert 0 == status, printed
    assert all((corpora / pages.target).is_file() for pages in PAGE_SETS.values())


def test_the_page_names_every_dump_with_its_size():
    """The address, the published size and the size of all pages, as the table in the code."""
    page = (ROOT / "docs/how-to/page-databases.md").read_text("utf-8")
    for pages in PAGE_SETS.values():
        row = next(line for line in page.splitlines() if f"]({pages.address})" in line)
        assert f"| {megabytes(pages.size)} | {megabytes(pages.database)} |" in row
        assert pages.file.split("pages-meta")[0] in row
        assert any(f"(`{place}`)" in row for place in pages.places)
