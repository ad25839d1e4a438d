"""The stand-in refuses what vLLM 0.31 refuses, so that a test against it says something."""

from pathlib import Path

from stand_in_server import listed, refusal, serving


def test_a_server_that_cannot_start_says_why(tmp_path: Path):
    """Unknown words and values, too little memory, and two copies without two cards."""
    large, small = "Qwen/Qwen2.5-32B-Instruct", "Qwen/Qwen2.5-7B-Instruct"
    assert "unrecognized arguments" in refusal(tmp_path, "--max-model-length", "9")
    assert "invalid choice" in refusal(tmp_path, "--dtype", "int4")
    assert "maximum model length is 30" in refusal(tmp_path, model=large)
    assert "derived" in refusal(tmp_path, "--max-model-len", "64k", model=small)
    assert "memory" in refusal(tmp_path, "--gpu-memory-utilization", "0.8", model=large)
    copies = ["--data-parallel-size", "2"]
    with serving(tmp_path, *copies) as url:
        assert "org/m" in listed(url)
        said = refusal(tmp_path, CUDA_VISIBLE_DEVICES="1")
        assert "cuda:1" in said
        assert "GPUs (1)" in refusal(tmp_path, *copies, CUDA_VISIBLE_DEVICES="2")
