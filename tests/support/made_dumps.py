"""Made page dumps of the published layouts, with the claims that need their pages.

HotpotQA's introductions: a tar.bz2 of ``<root>/AA/wiki_00.bz2``, JSON lines with the seven
published keys, titles with XML entities. FEVER: a zip of ``wiki-pages/wiki-001.jsonl`` whose first
page has no name, with a file that macOS adds. FEVEROUS: ``FeverousWikiv1/wiki_000.jsonl`` in a zip.
"""

import bz2
import io
import json
import sqlite3
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from project import SUPPORT

ROOT = "enwiki-20171001-pages-meta-current-withlinks-abstracts"
TAR = f"{ROOT}.tar.bz2"
Files = Mapping[str, Sequence[object]]

DUMPS = json.loads((SUPPORT / "made_dumps.json").read_text("utf-8"))
LAKES, FEVER_PAGES, FEVEROUS_PAGES = (DUMPS[name] for name in ("lakes", "fever", "feverous"))


def hotpot_line(title: str, sentences: Sequence[str], number: int = 12) -> str:
    """One page as published: key order, link texts and offsets included."""
    page = {
        "id": str(number),
        "url": f"https://en.wikipedia.org/wiki?curid={number}",
        "title": title,
        "text": list(sentences),
        "charoffset": [[[0, len(one)]] for one in sentences],
        "text_with_links": [f'<a href="x">{one}</a>' for one in sentences],
        "charoffset_with_links": [[[0, 12]] for _ in sentences],
    }
    return json.dumps(page)


def hotpot_tar(path: Path, files: Mapping[str, Sequence[tuple[str, Sequence[str]]]]) -> Path:
    """The archive, its folders as members too; packed where the name ends in ``.bz2``."""
    with tarfile.open(path, "w:bz2" if path.suffix == ".bz2" else "w") as archive:
        for folder in dict.fromkeys(["", *(name.split("/")[0] for name in files)]):
            info = tarfile.TarInfo(f"{ROOT}/{folder}".rstrip("/"))
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
        for name, pages in files.items():
            lines = "".join(hotpot_line(*page) + "\n" for page in pages)
            data = bz2.compress(lines.encode())
            info = tarfile.TarInfo(f"{ROOT}/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def jsonl_zip(path: Path, files: Files, *, extra: Mapping[str, bytes] | None = None) -> Path:
    """A zip archive of JSON lines, its folders as members too."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder in dict.fromkeys(name.rsplit("/", 1)[0] for name in files):
            archive.writestr(f"{folder}/", "")
        for name, pages in files.items():
            archive.writestr(name, "".join(f"{json.dumps(page)}\n" for page in pages))
        for name, data in (extra or {}).items():
            archive.writestr(name, data)
    return path


def fever_zip(path: Path) -> Path:
    """FEVER's archive."""
    files = {
        "wiki-pages/wiki-001.jsonl": FEVER_PAGES[:2],
        "wiki-pages/wiki-002.jsonl": FEVER_PAGES[2:],
    }
    return jsonl_zip(path, files, extra={"__MACOSX/wiki-pages/._wiki-001.jsonl": b"\0\5\26\7"})


def feverous_zip(path: Path) -> Path:
    """FEVEROUS' archive of JSON lines."""
    return jsonl_zip(path, {"FeverousWikiv1/wiki_000.jsonl": FEVEROUS_PAGES})


def made_dump(name: str, folder: Path) -> Path:
    """The small dump of a page set."""
    if name == "fever":
        return fever_zip(folder / "wiki-pages.zip")
    if name == "feverous":
        return feverous_zip(folder / "feverous-wiki-pages.zip")
    return hotpot_tar(folder / TAR, LAKES)


def write_claims(name: str, corpora: Path) -> None:
    """Claims of the published layout that name pages of the made dump, under other spellings."""
    folder = corpora / name
    folder.mkdir(parents=True, exist_ok=True)
    if name == "hover":
        facts = [["Blue Lake", 0], ["Sugar &amp; Spice", 0], ["Caf\u00e9 Noir", 0]]
        row = {"uid": "u1", "claim": "A lake.", "supporting_facts": facts, "label": "SUPPORTED"}
        text = json.dumps([{**row, "num_hops": 3, "hpqa_id": "h"}])
        (folder / "hover_train_release_v1.1.json").write_text(text)
    elif name == "ex_fever":
        names = "\"['Blue_Lake', 'Sugar_&_Spice', 'Caf\u00e9_Noir']\""
        (folder / "train.csv").write_text(
            f"claim,explanation,label,golden entity\nA lake.,Why.,SUPPORT,{names}\n", "utf-8"
        )
    elif name == "fever":
        evidence = [[[1, 2, "Blue_Lake_-LRB-Ohio-RRB-", 0], [1, 2, "Blue_Lake_-LRB-Ohio-RRB-", 2]]]
        row = {"id": 1, "label": "SUPPORTS", "claim": "A lake.", "evidence": evidence}
        (folder / "paper_test.jsonl").write_text(json.dumps(row) + "\n")
    else:
        content = ["Caf\u00e9 Noir_sentence_0", "Caf\u00e9 Noir_cell_0_0_0"]
        row = {"id": 1, "label": "SUPPORTS", "claim": "A song.", "challenge": "Other"}
        rows = [{"id": "", "claim": ""}, {**row, "evidence": [{"content": content, "context": {}}]}]
        (folder / "feverous_train_challenges.jsonl").write_text(
            "".join(json.dumps(one) + "\n" for one in rows)
        )


def rows_in(database: Path) -> list[tuple[object, ...]]:
    """All rows of the pages' table, with their row ids."""
    opened = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        names = {row[0] for row in opened.execute("SELECT name FROM sqlite_master")}
        table = "wiki" if "wiki" in names else "documents"
        return opened.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid").fetchall()  # noqa: S608
    finally:
        opened.close()
