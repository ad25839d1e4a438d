"""The warm start: the same settings give the same folder."""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from decomposerl.errors import ConfigError
from decomposerl.training.experiment import EvidenceView
from resources.policy_tiny.folder import PROMPT, VIEW, base_policy_facts
from resources.training.data import policy_prompt, training_prompts
from sample.policy_lessons import HELD, MISSING, Lesson, lessons
from studies.tiny_policy.examples import batches, encoded
from studies.tiny_policy.warm_start import WarmStart, _factor, _Trainer, warm_start
from training_parts import run_of

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerFast as Tokenizer
    from transformers import Qwen2ForCausalLM

SMALL = WarmStart(
    vocabulary=700,  # with fewer the marks are no tokens
    hidden=48,
    layers=3,
    heads=3,
    intermediate=32,
    pool=48,
    steps=24,
    batch=8,
    warmup=4,
    flawed_share=0.25,
)
FIRST = 18
"""Steps on clean traces: three quarters of all."""
Losses = list[tuple[int, float]]


@dataclass(frozen=True)
class Made:
    """A warm start with a control beside it: the two folders, and the reported losses."""

    policy: Path
    control: Path
    losses: Losses


def started(settings: WarmStart, folder: Path, control: Path | None = None) -> Losses:
    losses: Losses = []
    warm_start(settings, folder, lambda step, loss: losses.append((step, loss)), control)
    return losses


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("warm")
    losses = started(SMALL, folder / "policy", folder / "control")
    return Made(folder / "policy", folder / "control", losses)


@pytest.fixture(scope="module")
def tokenizer(made: Made) -> "Tokenizer":
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(made.policy)


@pytest.fixture(scope="module")
def model(made: Made) -> "Qwen2ForCausalLM":
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(made.policy, dtype="float32").eval()


def some(count: int) -> list[Lesson]:
    return list(islice(lessons(99, VIEW), count))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def padded(heads: Sequence[Sequence[int]], pad: int) -> "tuple[Tensor, Tensor]":
    """Rows of tokens with padding on the left, and their mask."""
    import torch

    longest = max(map(len, heads))
    rows = torch.tensor([[pad] * (longest - len(head)) + list(head) for head in heads])
    return rows, (rows != pad).long()


def test_the_same_settings_give_the_same_bytes(made: Made, tmp_path: Path):
    """Whatever torch drew before; other settings give other weights."""
    import torch

    torch.rand(5)
    before = torch.get_num_threads(), torch.get_rng_state().tolist()
    losses = started(SMALL, tmp_path / "again")
    assert before == (torch.get_num_threads(), torch.get_rng_state().tolist())
    assert contents(made.policy) == contents(tmp_path / "again")
    assert losses == made.losses[:FIRST] + made.losses[SMALL.steps :]
    short = replace(SMALL, steps=2, seed=SMALL.seed + 5)
    other = started(short, tmp_path / "other")
    assert [1, 2] == [step for step, _ in other]
    assert other[0] != made.losses[0]
    assert weights_of(made.policy).keys() == weights_of(tmp_path / "other").keys()
    assert differing(made.policy, tmp_path / "other")


def weights_of(folder: Path) -> dict[str, object]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def differing(one: Path, other: Path) -> list[str]:
    """Tensors that are not the same in two folders."""
    first, second = weights_of(one), weights_of(other)
    return [name for name in first if not bool((first[name] == second[name]).all())]


def test_the_control_parts_from_the_policy_after_the_clean_steps(made: Made):
    """Both share the first steps, then learn as many other traces; the loss falls in both parts."""
    steps = [step for step, _ in made.losses]
    last = list(range(FIRST + 1, SMALL.steps + 1))
    assert steps == [*range(1, FIRST + 1), *last, *last]
    control, policy = made.losses[FIRST : SMALL.steps], made.losses[SMALL.steps :]
    assert control != policy
    assert differing(made.control, made.policy)
    theirs, mine = contents(made.control), contents(made.policy)
    assert {"model.safetensors"} == {name for name in mine if mine[name] != theirs[name]}
    means = [loss for _, loss in made.losses]
    assert means[FIRST - 1] < means[0] - 0.1  # a running mean, which follows slowly
    assert means[-1] < means[FIRST - 1]


def test_a_vocabulary_without_the_marks_is_refused(tmp_path: Path):
    """Nothing is written then; and the flawed traces alone tell control and policy apart."""
    import torch

    before = torch.get_num_threads(), torch.get_rng_state().tolist()
    with pytest.raises(ConfigError, match="no token for ✓ and ✗"):
        started(replace(SMALL, vocabulary=260), tmp_path / "policy")
    assert before == (torch.get_num_threads(), torch.get_rng_state().tolist())
    assert [] == list(tmp_path.iterdir())
    settings = replace(SMALL, steps=6, flawed_share=0.0)
    started(settings, tmp_path / "policy", tmp_path / "control")
    assert contents(tmp_path / "policy") == contents(tmp_path / "control")


def test_the_folder_is_a_model_of_the_settings_shape(
    model: "Qwen2ForCausalLM", tokenizer: "Tokenizer", made: Made
):
    """Loaders read it, in 16 bits, with the tokenizer's marks; its facts are its files'."""
    import torch

    config = model.config
    assert config.model_type == "qwen2"
    shape = config.hidden_size, config.num_hidden_layers, config.num_attention_heads
    assert (SMALL.hidden, SMALL.layers, SMALL.heads) == shape
    assert config.tie_word_embeddings
    tensors = weights_of(made.policy).values()
    assert {torch.float16} == {tensor.dtype for tensor in tensors}
    assert all(bool(tensor.isfinite().all()) for tensor in tensors)
    assert model.get_input_embeddings().num_embeddings == len(tokenizer)
    assert max(tokenizer.get_vocab().values()) < len(tokenizer)
    for stored in (model.config, model.generation_config):
        assert stored.eos_token_id == tokenizer.eos_token_id
        assert stored.pad_token_id == tokenizer.pad_token_id
        assert stored.bos_token_id is None
    facts = base_policy_facts(made.policy)
    content = (made.policy / "model.safetensors").read_bytes()
    assert facts.digest == hashlib.sha256(content).hexdigest()
    assert facts.parameters == sum(weight.numel() for weight in model.parameters())
    assert facts.settings == asdict(SMALL)
    assert SMALL == WarmStart(**json.loads((made.policy / "warm_start.json").read_text("utf-8")))
    assert facts.digest != base_policy_facts(made.control).digest


def test_the_policy_continues_a_prompt(model: "Qwen2ForCausalLM", tokenizer: "Tokenizer"):
    """Padding on the left changes no greedy completion."""
    heads = [head for head, _ in encoded(some(2), tokenizer)]
    rows, mask = padded(heads, tokenizer.pad_token_id)
    options = {"max_new_tokens": 6, "do_sample": False}
    together = model.generate(rows, attention_mask=mask, **options)[:, rows.shape[1] :]
    for row, head in enumerate(heads):
        ids, ones = padded([head], tokenizer.pad_token_id)
        alone = model.generate(ids, attention_mask=ones, **options)
        assert alone[0, len(head) :].tolist() == together[row].tolist()


def test_training_asks_with_the_prompt_that_the_policy_knows(
    made: Made, tokenizer: "Tokenizer", tmp_path: Path
):
    """The tokens of a training prompt are those of the warm start, for the same claim and view."""
    lesson = some(1)[0]
    run = run_of(tmp_path / "run", made.policy)
    said = {"claim": pl.lit(lesson.claim), "evidence": pl.lit(lesson.view)}
    pl.read_parquet(run.claims).head(1).with_columns(**said).write_parquet(run.claims)
    sampling = replace(run.experiment.sampling, max_prompt_tokens=2_000)
    recipe = replace(run.experiment, sampling=sampling, evidence_view=EvidenceView(9))
    (row,) = training_prompts(replace(run, experiment=recipe), tokenizer).rows
    ((head, tail),) = encoded([lesson], tokenizer)
    assert head == row["prompt_ids"]
    assert tokenizer.decode(tail, skip_special_tokens=True) == lesson.trace
    assert tail[-1] == tokenizer.eos_token_id
    assert policy_prompt(run).digest == policy_prompt(replace(run, base=str(PROMPT.parent))).digest
    assert (made.policy / "policy.md").read_bytes() == PROMPT.read_bytes()


def token_losses(model: "Qwen2ForCausalLM", example: tuple[list[int], list[int]]) -> list[float]:
    """What each token of an example but the first costs, alone and without padding."""
    import torch

    ids = torch.tensor([*example[0], *example[1]])
    with torch.no_grad():
        scores = model(input_ids=ids[None]).logits[0].log_softmax(-1)
    return [-scores[at, token].item() for at, token in enumerate(ids[1:])]


@pytest.mark.parametrize(("prompt", "decision"), [(0.0, 1.0), (0.2, 6.0), (1.0, 0.5)])
def test_the_loss_is_the_weighted_mean_over_tokens(
    model: "Qwen2ForCausalLM", tokenizer: "Tokenizer", prompt: float, decision: float
):
    """By ``decision_weight`` and ``prompt_weight``; padding and neighbours count nothing."""
    import torch

    batch = encoded(some(3), tokenizer)
    opens = tokenizer.convert_tokens_to_ids(["<answer>", "<verification>"])
    marks = [tokenizer.encode(f" {mark}")[0] for mark in (HELD, MISSING)]
    assert len({len(head) + len(tail) for head, tail in batch}) > 1
    costs: list[tuple[float, float]] = []
    for head, tail in batch:
        weights = [prompt] * (len(head) - 1)
        for before, now in pairwise([head[-1], *tail]):
            weights.append(decision if before in opens or now in marks else 1.0)
        costs += zip(token_losses(model, (head, tail)), weights, strict=True)
    mean = sum(loss * weight for loss, weight in costs) / sum(weight for _, weight in costs)
    settings = replace(SMALL, prompt_weight=prompt, decision_weight=decision)
    course = _Trainer(settings, model, tokenizer, lambda _step, _loss: None)
    with torch.no_grad():
        given = course._loss(batch).item()
    assert given == pytest.approx(mean, rel=1e-5)


def test_a_pass_gives_every_example_once():
    """Each pass in another order, the same by seed; the rate rises, stays and falls."""
    pool = [([index] * (1 + index % 7), [index]) for index in range(90)]
    drawn = list(islice(batches(pool, 8, random.Random(5)), 36))
    assert drawn == list(islice(batches(pool, 8, random.Random(5)), 36))
    first, second, third = drawn[:12], drawn[12:24], drawn[24:]
    for each in (first, second, third):
        assert Counter(range(90)) == Counter(one[1][0] for batch in each for one in batch)
        assert {8, 2} == {len(batch) for batch in each}
    assert first != second != third
    settings = replace(SMALL, steps=1_000, warmup=50)
    shares = [_factor(step, settings) for step in range(1_000)]
    assert shares[:50] == sorted(shares[:50])
    assert shares[0] == pytest.approx(1 / 50)
    assert {1.0} == set(shares[50:500])
    assert shares[500:] == sorted(shares[500:], reverse=True)
    assert shares[-1] == pytest.approx(0.02)
