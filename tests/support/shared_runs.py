"""One run of the funnel on the bundled sample, for every test and worker that reads its results."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project.definitions import build_definitions
from dagster_project.job_runs import read_config
from environment import settings_of
from project import ROOT
from resources.corpora.bundled_sample import fingerprint
from resources.store.parquet import DataFolder
from sample import Sample
from toy_corpus import write_sample

QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}


@contextmanager
def made_once(folder: Path) -> Iterator[bool]:
    """Whether ``folder`` is still to be made; other workers wait until the block has made it."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        yield not (folder / "whole").exists()
        (folder / "whole").touch()


@dataclass(frozen=True)
class DemoRun:
    """The job ``funnel`` as in ``make demo``, which also keeps pairs: its data and its history."""

    folder: Path

    @property
    def data(self) -> DataFolder:
        """The data folder, which no test changes."""
        return DataFolder(base_dir=str(self.folder / "data"))

    def copied(self, to: Path) -> Path:
        """A data folder of its own for a test that writes."""
        return shutil.copytree(self.folder / "data", to)

    def make(self, sample: Sample) -> None:
        """Run the job once; the sample is not generated again."""
        data, home = self.folder / "data", self.folder / "home"
        for left in (data, home):  # of a worker that failed
            shutil.rmtree(left, ignore_errors=True)
        home.mkdir()
        shutil.copy(ROOT / "dagster.yaml", home)
        write_sample(sample, data / "sample" / fingerprint())
        job = build_definitions(settings_of(data)).resolve_job_def("funnel")
        ops = read_config("demo.yaml")["ops"] | read_config("pairs.yaml")["ops"]
        with dg.DagsterInstance.from_config(str(home)) as instance:
            assert job.execute_in_process(
                run_config=QUIET | {"ops": ops}, instance=instance
            ).success

    def events(self, kind: dg.DagsterEventType) -> list[Any]:
        """What the run recorded of one kind."""
        with dg.DagsterInstance.from_config(str(self.folder / "home")) as instance:
            (run,) = instance.get_runs()
            logs = instance.all_logs(run.run_id, of_type=kind)
        return [log.dagster_event.event_specific_data for log in logs if log.dagster_event]


def demo_run(of_all_workers: Path, sample: Sample) -> DemoRun:
    """The run, made by the first worker that asks for it."""
    run = DemoRun(of_all_workers / "demo_run")
    with made_once(run.folder) as first:
        if first:
            run.make(sample)
    return run
