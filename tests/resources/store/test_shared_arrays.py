"""Arrays in a folder that the workers of a step share."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from decomposerl.funnel.parts import postings_a_task, text_parts
from decomposerl.funnel.settings import DedupSettings
from decomposerl.kernels.cosine_filter import keep_first_cosine
from decomposerl.kernels.cosine_parts import VectorBlocks, keep_first_in_blocks
from decomposerl.kernels.facility_location import facility_location
from decomposerl.kernels.greedi import greedi
from decomposerl.kernels.set_join import keep_first_duplicates
from decomposerl.kernels.set_parts import keep_first_in_parts
from decomposerl.kernels.set_spread import TextPart
from perf.inputs import clustered_vectors, synthetic_claims
from ray_parts import two_nodes
from resources.mapper.in_process import InProcessMapper
from resources.mapper.processes import ProcessMapper
from resources.mapper.ray_mapper import RayMapper
from resources.store.shared_arrays import FolderArrays, shared_tasks


def test_groups_are_written_replaced_mapped_and_removed(tmp_path: Path):
    """What is read is on disk and read-only; replacing one array of a group leaves the others."""
    arrays = FolderArrays(tmp_path)
    arrays.write("a", {"x": np.arange(5), "y": np.ones((0, 3), np.float32)})
    before = arrays.read("a")["x"]
    arrays.write("a", {"x": np.arange(9)})
    assert isinstance(before, np.memmap)
    assert not before.flags.writeable
    assert [0, 1, 2, 3, 4] == before.tolist()  # a reader keeps what it has mapped
    assert {"x": 9, "y": 0} == {name: len(array) for name, array in arrays.read("a").items()}
    arrays.remove("a")
    assert [] == list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match="no arrays are stored there"):
        arrays.read("a")


def test_a_task_and_its_repetition_may_write_at_once(tmp_path: Path):
    """A node that seemed lost may still write what another one writes in its place."""
    arrays, same = FolderArrays(tmp_path), {"x": np.arange(1_000)}
    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(arrays.write, "a", same) for _ in range(200)]:
            done.result()
    assert ["x.npy"] == [path.name for path in (tmp_path / "a").iterdir()]
    assert same["x"].tolist() == arrays.read("a")["x"].tolist()


def test_the_folder_goes_with_the_step_also_after_an_error(tmp_path: Path):
    """Nothing stays on disk; in this process a task may use every core."""

    def fails() -> None:
        with shared_tasks(InProcessMapper(), tmp_path / "tasks") as tasks:
            tasks.arrays.write("a", {"x": np.arange(5)})
            assert tasks.threads == 0
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert [] == list((tmp_path / "tasks").iterdir())


def test_a_step_without_tasks_needs_no_cluster(tmp_path: Path):
    """One that fits into this process runs although its profile names a cluster that is away."""
    with shared_tasks(RayMapper("127.0.0.1:9"), tmp_path) as tasks:
        tasks.arrays.write("a", {"x": np.arange(5)})
        assert [0, 1, 2, 3, 4] == tasks.arrays.read("a")["x"].tolist()
        tasks.arrays.remove("a")


def test_mapped_files_serve_all_searches(tmp_path: Path):
    """Processes join a frame's texts; cosines and selection of blocks; nothing stays on disk."""
    claims, vectors = pl.Series(synthetic_claims(1_500)), clustered_vectors(300, 48)
    settings = DedupSettings(task_memory_mb=2)
    with shared_tasks(ProcessMapper(2), tmp_path) as tasks:
        parts = text_parts(claims, settings)
        words = keep_first_in_parts(parts, 0.7, tasks, postings=postings_a_task(settings))
    with shared_tasks(InProcessMapper(), tmp_path) as tasks:
        split = (vectors[start : start + 125] for start in range(0, len(vectors), 125))
        blocks = VectorBlocks.write(tasks.arrays, "vectors", split)
        meaning = keep_first_in_blocks(blocks, 0.7, tasks)
        picked = greedi(blocks, 20, 1, tasks)
        blocks.remove()
        assert [] == list(tmp_path.glob("*/*"))
    assert len(parts) > 2
    assert np.array_equal(keep_first_duplicates(claims.to_list(), 0.7).matched, words.matched)
    assert np.array_equal(keep_first_cosine(vectors, 0.7).matched, meaning.matched)
    assert np.array_equal(facility_location(vectors, 20).picks, picked.greedy.picks)


def test_nodes_that_share_no_disk_find_the_same(tmp_path: Path):
    """On a Ray cluster of two nodes arrays go through the node that the stage runs on."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    claims = synthetic_claims(600)
    with two_nodes() as nodes, shared_tasks(RayMapper(nodes.address), tmp_path) as tasks:
        assert (tasks.threads, tasks.mapper.engine) == (1, "ray (2 nodes)")
        found = keep_first_in_parts(parts_of(claims), 0.7, tasks, postings=2_000)
        assert list(tmp_path.glob("*"))
    assert [] == list(tmp_path.glob("*"))
    assert np.array_equal(keep_first_duplicates(claims, 0.7).matched, found.matched)


def parts_of(claims: list[str]) -> list[TextPart]:
    """Four parts."""
    size = len(claims) // 4 + 1
    return [partial(list, claims[start : start + size]) for start in range(0, len(claims), size)]
