"""What is stored is read as it was written, or an error says what to do."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from decomposerl.errors import ConfigError, DecomposeRLError, SourceFileError, TooManyRejects
from decomposerl.extras import explained
from decomposerl.schemas import REJECTS
from flipped import KEYS, flips, kinds
from resources.catalogue.database import FILE, build_catalogue, read_table
from resources.chat.reply_store import ReplyStore
from resources.store.chat_replies import DamagedReplyWarning
from resources.store.integrity import record_folder, run_path, verified, write_record
from resources.store.parquet import DataFolder, write_parquet
from resources.training.run_store import Checkpoints

_FLIPS = 8  # of each kind; the 600 are among the tests of the workshop


def test_no_flipped_bit_is_read_as_other_data(tmp_path: Path):
    """Of any kind of file: an error, an entry that is asked again, or the same data."""
    outcomes = [flip for kind in kinds(tmp_path) for flip in flips(kind, _FLIPS, seed=1)]
    assert [] == [flip for flip in outcomes if "silent" in flip]
    assert sum("noticed" in flip for flip in outcomes) > len(outcomes) / 2


# What an error tells to do


def empty_table(folder: Path) -> None:
    table = folder / "data/decontaminated.parquet"
    write_parquet(pl.read_parquet(table).clear(), table)
    DataFolder(base_dir=str(folder / "data")).read("decontaminated")


def damaged_drops(folder: Path) -> None:
    (folder / "data/drops/decontaminated.parquet").write_bytes(b"PAR1")
    build_catalogue(folder / "data")


def missing_predictions(folder: Path) -> None:
    data = folder / "data"
    record = run_path(data, "predictions/fever/zero_shot")
    write_record(record, {}, {"predictions/fever/zero_shot.parquet": "0" * 64})
    DataFolder(base_dir=str(data)).read("predictions/fever/zero_shot")


def cut_record(folder: Path) -> None:
    run_path(folder / "data", "decontaminated").write_text("[" * 100_000)
    DataFolder(base_dir=str(folder / "data")).run("decontaminated")


def damaged_catalogue(folder: Path) -> None:
    with (folder / "catalogue" / FILE).open("r+b") as file:
        file.write(b"\0" * 64)
    read_table(folder / "catalogue", "attrition")


def cut_checkpoint(folder: Path) -> None:
    step = folder / "checkpoints/step-000050"
    shutil.copytree(folder / "run/checkpoint", step)
    os.truncate(step / "state.pt", 100)
    Checkpoints(folder / "checkpoints", 2).latest()


def bracket_in_the_path(folder: Path) -> None:
    shutil.copytree(folder / "data", folder / "data[1]")
    assert DataFolder(base_dir=str(folder / "data[1]")).read("decontaminated").height
    build_catalogue(folder / "data[1]")


ERRORS: dict[Callable[[Path], None], tuple[type[DecomposeRLError], str]] = {
    empty_table: (SourceFileError, "was changed: .* decomposerl run decontaminated"),
    damaged_drops: (SourceFileError, "drops.* is damaged.* decomposerl run decontaminated"),
    missing_predictions: (
        SourceFileError,
        "is gone.*decomposerl evaluate zero_shot --benchmarks fever ",
    ),
    cut_record: (SourceFileError, "not a run record.* decomposerl run decontaminated"),
    damaged_catalogue: (DecomposeRLError, "damaged; the tables are not.*decomposerl run catalog"),
    cut_checkpoint: (SourceFileError, r"state.pt is damaged.*Delete it"),
    bracket_in_the_path: (ConfigError, r"'\['.*rename"),
}


@pytest.mark.parametrize("broken", ERRORS, ids=lambda broken: broken.__name__)
def test_an_error_names_the_next_step(tmp_path: Path, broken: Callable[[Path], None]):
    """One sentence of the project's own, with the command or what to delete."""
    kinds(tmp_path)
    error, words = ERRORS[broken]
    with pytest.raises(error, match=words):
        broken(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_without_room_is_explained(number: int):
    """What to do, and that nothing is lost."""
    shown = explained(f"/data/x: {os.strerror(number)}")
    assert shown.startswith("/data/x: ")
    assert shown.endswith("then start again; what was stored before is safe")


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_paid_replies_of_a_cut_store_are_kept(tmp_path: Path, share: float):
    """Those on the pages that are left, each as it was; the damaged file stays beside the new."""
    kinds(tmp_path)
    path = tmp_path / "stores/chat/replies.sqlite"
    with ReplyStore(path, "model") as store:
        whole = store.get(KEYS)
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.warns(DamagedReplyWarning, match="put into a new file"):
        store = ReplyStore(path, "model")
    with store:
        kept = store.get(KEYS)
    assert kept.items() <= whole.items()
    assert len(whole) * share / 2 < len(kept) < len(whole)
    assert 1 == len(list(path.parent.glob("replies.sqlite.damaged-*[0-9]")))


def test_what_a_user_brought_is_read_as_it_is(tmp_path: Path):
    """Without a record, or with an earlier version's, which has no digests."""
    folder = DataFolder(base_dir=str(tmp_path))
    for rows in (1, 2):
        write_parquet(pl.DataFrame({"n": range(rows)}), folder.file("mine"))
        assert rows == folder.read("mine").height
    write_record(run_path(tmp_path, "mine"), {"rows_kept": 7, "data_version": ""}, {})
    assert 2 == folder.read("mine").height


def test_a_folder_is_compared_whole_and_a_replaced_file_again(tmp_path: Path):
    """But for subfolders that are left out."""
    for name in ("a", "left/b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    record_folder(tmp_path, "Delete it", without=["left"])
    assert tmp_path == verified(tmp_path)
    (tmp_path / "left/b").write_text("2")
    assert tmp_path == verified(tmp_path)
    (tmp_path / "a").write_text("22")
    with pytest.raises(SourceFileError, match="Delete it"):
        verified(tmp_path)


def test_rejects_of_a_failed_run_take_the_place_of_recorded_ones(tmp_path: Path):
    """The record of the run before stays, with their digest."""
    folder = DataFolder(base_dir=str(tmp_path))
    write_record(run_path(tmp_path, "claims/x"), {}, {"rejects/x.parquet": "0" * 64})
    with pytest.raises(TooManyRejects), folder.keeping_rejects("claims/x"):
        raise TooManyRejects("too many", REJECTS.empty())
    assert 0 == folder.read("rejects/x").height
