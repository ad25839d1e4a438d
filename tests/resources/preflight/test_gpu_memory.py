"""The peak of GPU memory while something runs."""

from pathlib import Path

from resources.preflight.gpu_memory import PeakMemory


def command(folder: Path, body: str) -> str:
    """A program in place of ``nvidia-smi``."""
    file = folder / "smi"
    file.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    file.chmod(0o755)
    return str(file)


def test_the_peak_is_that_of_the_fullest_gpu(tmp_path: Path):
    """Over all samples, of which there is at least one."""
    with PeakMemory(command(tmp_path, "echo 120; echo 71234")) as peak:
        pass
    assert 71_234 == peak.mib


def test_a_machine_without_a_gpu_has_no_peak(tmp_path: Path):
    """No program, one that fails, and one that says something else."""
    with PeakMemory(str(tmp_path / "absent")) as peak:
        pass
    assert peak.mib is None
    for body in ("exit 9", "echo x"):
        with PeakMemory(command(tmp_path, body)) as peak:
            pass
        assert peak.mib is None
