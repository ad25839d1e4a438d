"""Run a module as on a processor with AVX2 and nothing newer, by emulation.

``python -m perf.older_processor perf.bench --only semantic`` keeps every library from using
newer instructions. Clock, caches and memory are still those of this machine.
"""

import os
import runpy
import sys

INSIDE = "PERF_OLDER_PROCESSOR"
FEATURES = (
    "64bit aes avx avx2 bmi bmi2 cmov crc32 cx16 cx8 f16c fma fsgsbase fxsr invpcid lzcnt mmx "
    "movbe pclmul popcnt rdrnd sahf sse sse2 sse3 sse4.1 sse4.2 ssse3 xsave xsaveopt"
)
SETTINGS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "FAISS_OPT_LEVEL": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "NUMBA_CPU_FEATURES": ",".join(f"+{name}" for name in FEATURES.split()),
    "NUMBA_CPU_NAME": "haswell",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}


def is_emulated() -> bool:
    """Whether this process or one of its parents was started by this module."""
    return INSIDE in os.environ


def program(*modules: str) -> list[str]:
    """Arguments of ``python -m`` that run a child under the same emulation as this process."""
    return ["perf.older_processor", *modules] if is_emulated() else [*modules]


def main() -> None:
    """Restart with the settings, which libraries read when they load, then run the module."""
    if not is_emulated():
        os.environ.update(SETTINGS, **{INSIDE: "avx2"})
        os.execv(sys.executable, [sys.executable, "-m", *program(), *sys.argv[1:]])  # noqa: S606
    import torch

    # Without oneDNN torch multiplies integers in a plain loop, as on the older processor.
    torch.backends.mkldnn.set_flags(_enabled=False)
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
