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
    """Over all samples; none where there is no program, or one that fails or says else."""
    bodies = {"echo 120; echo 71234": 71_234, "exit 9": None, "echo x": None}
    for body, expected in bodies.items():
        with PeakMemory(command(tmp_path, body)) as peak:
            pass
        assert expected == peak.mib, body
    with PeakMemory(str(tmp_path / "absent")) as peak:
        pass
    assert peak.mib is None
