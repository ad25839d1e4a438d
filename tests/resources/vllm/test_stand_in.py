"""The stand-in refuses what vLLM 0.31 refuses, so that a test against it says something."""

import json
from pathlib import Path

import pytest

from stand_in_server import adapter, listed, refusal, sent, serving

QUESTION = [{"role": "user", "content": "abcd" * 10}]  # 10 tokens


def test_a_request_that_vllm_refuses_is_refused_in_its_words(tmp_path: Path):
    """Unknown model 404; too long, too many log probabilities, and those unasked for, 400."""
    with serving(tmp_path, "--max-model-len", "100") as url:
        chat = f"{url}/v1/chat/completions"
        assert (404, "The model `x` does not exist.", "NotFoundError", "model") == errors(
            chat, model="x"
        )
        code, message, *_ = errors(chat, max_tokens=91)
        assert code == 400
        assert message.startswith(
            "This model's maximum context length is 100 tokens. However, you requested 91 output "
            "tokens and your prompt contains 10 input tokens, for a total of 101 tokens."
        )
        long = [{"role": "user", "content": "abcd" * 101}]
        assert 400 == sent(chat, messages=long)[0]
        assert 200 == sent(chat, messages=QUESTION, max_tokens=90)[0]
        assert 400 == errors(chat, top_logprobs=5)[0]
        assert errors(chat, logprobs=True, top_logprobs=21)[1].endswith("max allowed: 20")
        assert 404 == sent(f"{url}/v1/embeddings", input="text")[0]
        assert 404 == sent(f"{url}/v1/load_lora_adapter", lora_name="a", lora_path="b")[0]


def errors(url: str, **body: object) -> tuple[int, str, str, str | None]:
    """The error of a chat request that is refused."""
    status, reply = sent(url, **{"messages": QUESTION, **body})
    error = reply["error"]
    assert status == error["code"]
    return status, error["message"], error["type"], error["param"]


def test_log_probabilities_have_the_form_of_openai(tmp_path: Path):
    """None unless asked for; each token with its bytes and as many likely ones as asked for."""
    with serving(tmp_path, "--says", "It holds") as url:
        chat = f"{url}/v1/chat/completions"
        _, plain = sent(chat, messages=QUESTION, model="org/m")
        assert plain["choices"][0]["logprobs"] is None
        assert {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12} == plain["usage"]
        _, asked = sent(chat, messages=QUESTION, logprobs=True, top_logprobs=3, max_tokens=1)
        (token,) = asked["choices"][0]["logprobs"]["content"]
        assert {"token", "logprob", "bytes", "top_logprobs"} == set(token)
        assert list(b"It") == token["bytes"]
        assert 3 == len(token["top_logprobs"])
        assert "length" == asked["choices"][0]["finish_reason"]


def test_adapters_are_models_with_a_rank(tmp_path: Path):
    """Each is a name of its own; at work they come and go with the variable alone."""
    named, other = adapter(tmp_path / "named"), adapter(tmp_path / "other")
    allowed = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    words = ["--enable-lora", "--max-lora-rank", "64", "--lora-modules", f"tuned={named}"]
    with serving(tmp_path, *words, **allowed) as url:
        models = listed(url)
        assert {"org/m", "tuned"} == set(models)
        assert (32_768, None) == tuple(models[name]["max_model_len"] for name in ("org/m", "tuned"))
        assert (
            "tuned"
            == sent(f"{url}/v1/chat/completions", model="tuned", messages=QUESTION)[1]["model"]
        )
        load, unload = f"{url}/v1/load_lora_adapter", f"{url}/v1/unload_lora_adapter"
        assert 200 == sent(load, lora_name="more", lora_path=str(other))[0]
        assert 400 == sent(load, lora_name="more", lora_path=str(other))[0]
        assert 404 == sent(load, lora_name="absent", lora_path=str(tmp_path / "absent"))[0]
        big = adapter(tmp_path / "big", 128)
        assert 500 == sent(load, lora_name="big", lora_path=str(big))[0]
        assert 200 == sent(unload, lora_name="more")[0]
        assert 404 == sent(unload, lora_name="more")[0]
    said = refusal(tmp_path, "--enable-lora", "--lora-modules", f"tuned={named}")
    assert "LoRA rank 64 is greater than max_lora_rank 16" in said
    described = json.dumps({"name": "tuned", "path": str(named)})
    assert "LoRA is not enabled" in refusal(tmp_path, "--lora-modules", described)
    copies = ["--data-parallel-size", "2", "--enable-lora"]
    assert "api_server_count > 1" in refusal(tmp_path, *copies, **allowed)


def test_a_pooling_server_embeds_and_does_not_generate(tmp_path: Path):
    """The same vector for the same text, and none for a text beyond the context."""
    with serving(tmp_path, "--runner", "pooling", "--max-model-len", "100") as url:
        embed = f"{url}/v1/embeddings"
        _, reply = sent(embed, input=["one text", "one text", "another"], model="org/m")
        first, again, other = (one["embedding"] for one in reply["data"])
        assert first == again != other
        assert 400 == sent(embed, input="abcd" * 101, model="org/m")[0]
        assert 404 == sent(f"{url}/v1/chat/completions", messages=QUESTION)[0]


@pytest.mark.parametrize(
    ("model", "words", "said"),
    [
        ("org/m", ["--max-model-length", "9"], "unrecognized arguments"),
        ("org/m", ["--dtype", "int4"], "invalid choice"),
        ("Qwen/Qwen2.5-32B-Instruct", [], "estimated maximum model length is 30"),
        ("Qwen/Qwen2.5-7B-Instruct", ["--max-model-len", "64k"], "greater than the derived"),
        ("Qwen/Qwen2.5-32B-Instruct", ["--gpu-memory-utilization", "0.8"], "No available memory"),
    ],
)
def test_a_server_that_cannot_start_says_why(
    tmp_path: Path, model: str, words: list[str], said: str
):
    """Unknown words and values, and too little memory for one request, end it at once."""
    assert said in refusal(tmp_path, *words, model=model)


def test_copies_take_a_share_of_further_cards(tmp_path: Path):
    """Two copies need two cards, and leave no room on either for a second server."""
    copies = ["--data-parallel-size", "2"]
    with serving(tmp_path, *copies) as url:
        assert "org/m" in listed(url)
        said = refusal(tmp_path, CUDA_VISIBLE_DEVICES="1")
        assert "Free memory on device cuda:1" in said
        assert "number of GPUs (1)" in refusal(tmp_path, *copies, CUDA_VISIBLE_DEVICES="2")
