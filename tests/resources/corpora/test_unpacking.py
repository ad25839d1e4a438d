"""Named files out of made archives; what could harm is refused and names archive and member."""

import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from decomposerl.errors import SourceFileError
from resources.corpora.unpacking import unpack

MEMBERS = {"set/train.tsv": b"train", "set/dev.tsv": b"dev", "set/readme.txt": b"not wanted"}
MOST = 10_000
Make = Callable[[Path, Mapping[str, bytes]], Path]


def made_zip(path: Path, members: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def made_tar(path: Path, members: Mapping[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def take(archive: Path, out: Path, *names: str, most: int = MOST) -> dict[str, bytes]:
    """The wanted members as they were written; nothing else is in the folder."""
    out.mkdir()
    unpack(archive, {name: out / f"new-{name}" for name in names}, most)
    assert {f"new-{name}" for name in names} == {path.name for path in out.iterdir()}
    return {name: (out / f"new-{name}").read_bytes() for name in names}


@pytest.mark.parametrize("make", [made_zip, made_tar, lambda p, m: made_tar(p, m, "w")])
def test_wanted_members_are_written_and_no_other(tmp_path: Path, make: Make):
    """By name without folders, from zip, tar.gz and tar; resource forks of a Mac do not count."""
    members = {**MEMBERS, "__MACOSX/set/train.tsv": b"fork", "set/sub/train_1.tsv": b"fold"}
    archive = make(tmp_path / "archive", members)
    found = take(archive, tmp_path / "out", "train.tsv", "dev.tsv")
    assert {"train.tsv": b"train", "dev.tsv": b"dev"} == found


@pytest.mark.parametrize("make", [made_zip, made_tar])
@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"../../train.tsv": b"x"}, "member ../../train.tsv leaves"),
        ({"/etc/train.tsv": b"x"}, "member /etc/train.tsv leaves"),
        ({"a/train.tsv": b"x", "b/train.tsv": b"y"}, "several .*train.tsv"),
        ({"a/dev.tsv": b"x"}, "no member train.tsv"),
        ({"a/train.tsv": b"x" * (MOST + 1)}, "a/train.tsv unpacks to more"),
    ],
    ids=["above", "absolute", "twice", "missing", "bomb"],
)
def test_unsafe_and_incomplete_archives_are_refused(
    tmp_path: Path, make: Make, members: dict[str, bytes], said: str
):
    """Nothing is written outside the given paths, and the bound holds."""
    archive = make(tmp_path / "archive", members)
    with pytest.raises(SourceFileError, match=said):
        take(archive, tmp_path / "out", "train.tsv")
    assert {"archive", "out"} == {path.name for path in tmp_path.iterdir()}
    written = sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    assert written <= MOST


def test_a_link_is_no_file(tmp_path: Path):
    """A symbolic link in a zip or tar is refused, whatever it points to."""
    link = zipfile.ZipInfo("set/train.tsv")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    info = tarfile.TarInfo("set/train.tsv")
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "t", "w") as packed:
        packed.addfile(info)
    for name in ("z", "t"):
        with pytest.raises(SourceFileError, match=r"train\.tsv"):
            take(tmp_path / name, tmp_path / f"out-{name}", "train.tsv")


def test_a_bomb_beside_the_wanted_member_is_bounded(tmp_path: Path):
    """A tar is read from its start, so a huge member before the wanted one is refused too."""
    archive = made_tar(tmp_path / "t", {"huge": b"0" * 5_000_000, "train.tsv": b"x"})
    with pytest.raises(SourceFileError, match="unpacks to more"):
        take(archive, tmp_path / "out", "train.tsv")


def test_damage_names_archive_and_member(tmp_path: Path):
    """A cut or altered archive, one that is none, and one with a password."""
    members = {"set/train.tsv": bytes(range(256)) * 30}
    cut = made_tar(tmp_path / "cut", members)
    cut.write_bytes(cut.read_bytes()[:-120])
    altered = made_zip(tmp_path / "altered", members)
    data = bytearray(altered.read_bytes())
    data[60] ^= 0xFF
    altered.write_bytes(bytes(data))
    none = tmp_path / "none"
    none.write_bytes(b"<html>no archive</html>" * 40)
    locked = made_zip(tmp_path / "locked", members)
    content = locked.read_bytes().replace(
        b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"
    )
    locked.write_bytes(content.replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01"))
    for archive in (cut, altered, none, locked):
        with pytest.raises(SourceFileError, match=rf"{archive.name} (is damaged|cannot be read)"):
            take(archive, tmp_path / f"out-{archive.name}", "train.tsv")
