"""The stand-in refuses what vLLM 0.31 refuses, so that a test against it says something."""

import json
from pathlib import Path

from stand_in_server import adapter, listed, refusal, sent, serving

QUESTION = [{"role": "user", "content": "abcd" * 10}]  # 10 tokens


def test_requests_are_answered_or_refused_as_by_vllm(tmp_path: Path):
    """Unknown model 404, too much 400; log probabilities as OpenAI's where they are asked for."""
    with serving(tmp_path, "--max-model-len", "100", "--says", "It holds") as url:
        chat = f"{url}/v1/chat/completions"

        def status(path: str = "/v1/chat/completions", **body: object) -> int:
            code, reply = sent(f"{url}{path}", **body)
            assert code == 200 or code == reply["error"]["code"]
            return code

        assert 404 == status(messages=QUESTION, model="x")
        assert [400, 200] == [status(messages=QUESTION, max_tokens=n) for n in (91, 90)]
        assert 400 == status(messages=[{"role": "user", "content": "abcd" * 101}])
        assert 400 == status(messages=QUESTION, top_logprobs=5)
        assert 400 == status(messages=QUESTION, logprobs=True, top_logprobs=21)
        assert 404 == sent(f"{url}/v1/embeddings", input="text")[0]
        assert 404 == sent(f"{url}/v1/load_lora_adapter", lora_name="a", lora_path="b")[0]
        _, plain = sent(chat, messages=QUESTION, model="org/m")
        assert plain["choices"][0]["logprobs"] is None
        assert {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12} == plain["usage"]
        _, asked = sent(chat, messages=QUESTION, logprobs=True, top_logprobs=3, max_tokens=1)
        (token,) = asked["choices"][0]["logprobs"]["content"]
        assert {"token", "logprob", "bytes", "top_logprobs"} == set(token)
        assert (list(b"It"), 3) == (token["bytes"], len(token["top_logprobs"]))
        assert "length" == asked["choices"][0]["finish_reason"]


def test_adapters_are_models_with_a_rank(tmp_path: Path):
    """Each is a name of its own; at work they come and go with the variable alone."""
    named, other = adapter(tmp_path / "named"), adapter(tmp_path / "other")
    big = adapter(tmp_path / "big", 128)
    allowed = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    words = ["--enable-lora", "--max-lora-rank", "64", "--lora-modules", f"tuned={named}"]
    with serving(tmp_path, *words, **allowed) as url:
        models = listed(url)
        assert {"org/m": 32_768, "tuned": None} == {n: models[n]["max_model_len"] for n in models}
        _, reply = sent(f"{url}/v1/chat/completions", model="tuned", messages=QUESTION)
        assert "tuned" == reply["model"]

        def load(name: str, folder: Path) -> int:
            return sent(f"{url}/v1/load_lora_adapter", lora_name=name, lora_path=str(folder))[0]

        absent = load("absent", tmp_path / "absent")
        assert (200, 400) == (load("more", other), load("more", other))
        assert (404, 500) == (absent, load("big", big))
        unload = f"{url}/v1/unload_lora_adapter"
        assert [200, 404] == [sent(unload, lora_name="more")[0] for _ in range(2)]
    said = refusal(tmp_path, "--enable-lora", "--lora-modules", f"tuned={named}")
    assert "max_lora_rank 16" in said
    described = json.dumps({"name": "tuned", "path": str(named)})
    assert "LoRA is not enabled" in refusal(tmp_path, "--lora-modules", described)
    copies = ["--data-parallel-size", "2", "--enable-lora"]
    assert "api_server_count > 1" in refusal(tmp_path, *copies, **allowed)


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
