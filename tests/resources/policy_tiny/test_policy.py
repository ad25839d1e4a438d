"""The warm start: the same settings give the same folder, and it is a model folder like any."""

import hashlib
import json
import random
import shutil
from collections import Counter
from dataclasses import asdict, dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from decomposerl.errors import ConfigError
from decomposerl.training.experiment import BASE_POLICY, EvidenceView
from decomposerl.training.experiments import EXPERIMENTS
from resources.policy_tiny.examples import batches, encoded
from resources.policy_tiny.folder import PROMPT, VIEW, base_policy_facts
from resources.policy_tiny.warm_start import (
    WarmStart,
    _factor,
    _Trainer,
    warm_start,
    warm_started,
)
from resources.training.data import policy_prompt, training_prompts
from sample.policy_lessons import HELD, MISSING, Lesson, lessons
from training_parts import run_of

if TYPE_CHECKING:
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


def test_the_same_settings_give_the_same_bytes(made: Made, tmp_path: Path):
    """Every file, whatever torch drew before, and with no control; torch goes on as it was."""
    import torch

    torch.rand(5)
    before = torch.get_num_threads(), torch.get_rng_state().tolist()
    losses = started(SMALL, tmp_path / "again")
    assert before == (torch.get_num_threads(), torch.get_rng_state().tolist())
    assert contents(made.policy) == contents(tmp_path / "again")
    assert losses == made.losses[:FIRST] + made.losses[SMALL.steps :]


def test_a_base_that_was_made_with_the_same_settings_is_kept(made: Made, tmp_path: Path):
    """Other settings, or ``again``, train it anew."""
    folder, losses = tmp_path / "base", Losses()
    shutil.copytree(made.policy, folder)
    note = lambda step, loss: losses.append((step, loss))  # noqa: E731 - one line
    assert folder == warm_started(SMALL, folder, note, again=False)
    assert [] == losses
    short = replace(SMALL, steps=2)
    warm_started(short, folder, note, again=False)
    assert [1, 2] == [step for step, _ in losses]
    warm_started(short, folder, note, again=True)
    assert 4 == len(losses)


def test_another_seed_gives_another_policy(made: Made, tmp_path: Path):
    """Of the same shape, with other weights from the first step on."""
    losses = started(replace(SMALL, seed=SMALL.seed + 5), tmp_path / "other")
    assert losses[0] != made.losses[0]
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
    """Both go through the same first steps; the last ones are as many, on other traces."""
    steps = [step for step, _ in made.losses]
    last = list(range(FIRST + 1, SMALL.steps + 1))
    assert steps == [*range(1, FIRST + 1), *last, *last]
    control, policy = made.losses[FIRST : SMALL.steps], made.losses[SMALL.steps :]
    assert control != policy
    assert differing(made.control, made.policy)
    theirs, mine = contents(made.control), contents(made.policy)
    assert {"model.safetensors"} == {name for name in mine if mine[name] != theirs[name]}


def test_a_vocabulary_without_the_marks_is_refused(tmp_path: Path):
    """The circuit could not be written; nothing is, and torch is as it was."""
    import torch

    before = torch.get_num_threads(), torch.get_rng_state().tolist()
    with pytest.raises(ConfigError, match="no token for ✓ and ✗"):
        started(replace(SMALL, vocabulary=260), tmp_path / "policy")
    assert before == (torch.get_num_threads(), torch.get_rng_state().tolist())
    assert [] == list(tmp_path.iterdir())


def test_recipes_show_what_the_lessons_showed():
    """One view for the warm start and for each recipe on the tiny policy."""
    tiny = [one for one in EXPERIMENTS if one.model == BASE_POLICY]
    assert tiny
    assert {VIEW} == {one.evidence_view for one in tiny}


def test_without_flawed_steps_the_control_is_the_policy(tmp_path: Path):
    """Nothing but the flawed traces tells the two apart."""
    settings = replace(SMALL, steps=6, flawed_share=0.0)
    started(settings, tmp_path / "policy", tmp_path / "control")
    assert contents(tmp_path / "policy") == contents(tmp_path / "control")


def test_imitation_lowers_the_loss(made: Made):
    """A few steps make the traces likelier, in the clean part and after it."""
    means = [loss for _, loss in made.losses]
    assert means[FIRST - 1] < means[0] - 0.1  # a running mean, which follows slowly
    assert means[-1] < means[FIRST - 1]


def test_the_folder_is_a_model_of_the_settings_shape(model: "Qwen2ForCausalLM", made: Made):
    """The usual loaders read it; weights are in 16 bits, marks are the tokenizer's."""
    import torch

    config = model.config
    assert config.model_type == "qwen2"
    assert (SMALL.hidden, SMALL.layers, SMALL.heads) == (
        config.hidden_size,
        config.num_hidden_layers,
        config.num_attention_heads,
    )
    assert config.tie_word_embeddings
    assert {torch.float16} == {tensor.dtype for tensor in weights_of(made.policy).values()}
    assert all(bool(tensor.isfinite().all()) for tensor in weights_of(made.policy).values())


def test_model_and_tokenizer_agree_on_their_marks(
    model: "Qwen2ForCausalLM", tokenizer: "Tokenizer"
):
    """Sampling stops at the mark that ends a trace, and every token has its embedding."""
    assert model.get_input_embeddings().num_embeddings == len(tokenizer)
    assert max(tokenizer.get_vocab().values()) < len(tokenizer)
    for stored in (model.config, model.generation_config):
        assert stored.eos_token_id == tokenizer.eos_token_id
        assert stored.pad_token_id == tokenizer.pad_token_id
        assert stored.bos_token_id is None


def test_the_policy_continues_a_prompt(model: "Qwen2ForCausalLM", tokenizer: "Tokenizer"):
    """Padding on the left changes no greedy completion."""
    import torch

    heads = [head for head, _ in encoded(some(2), tokenizer)]
    longest = max(map(len, heads))
    pad = tokenizer.pad_token_id
    padded = torch.tensor([[pad] * (longest - len(head)) + head for head in heads])
    mask = (padded != pad).long()
    options = {"max_new_tokens": 6, "do_sample": False}
    together = model.generate(padded, attention_mask=mask, **options)[:, longest:]
    for row, head in enumerate(heads):
        ids = torch.tensor([head])
        alone = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        assert alone[0, len(head) :].tolist() == together[row].tolist()


def test_facts_of_a_folder(model: "Qwen2ForCausalLM", made: Made):
    """The digest is the weights', the number counts shared weights once, settings are all."""
    facts = base_policy_facts(made.policy)
    content = (made.policy / "model.safetensors").read_bytes()
    assert facts.digest == hashlib.sha256(content).hexdigest()
    assert facts.parameters == sum(weight.numel() for weight in model.parameters())
    assert facts.settings == asdict(SMALL)
    assert SMALL == WarmStart(**json.loads((made.policy / "warm_start.json").read_text("utf-8")))
    assert facts.digest != base_policy_facts(made.control).digest


def test_training_asks_with_the_prompt_that_the_policy_knows(
    made: Made, tokenizer: "Tokenizer", tmp_path: Path
):
    """The tokens of a training prompt are those of the warm start, for the same claim and view."""
    lesson = some(1)[0]
    run = run_of(tmp_path / "run", made.policy)
    frame = pl.read_parquet(run.claims).head(1)
    frame.with_columns(claim=pl.lit(lesson.claim), evidence=pl.lit(lesson.view)).write_parquet(
        run.claims
    )
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
    """A trace's token counts 1, a decision ``decision_weight``, a prompt's ``prompt_weight``.

    Padding and neighbours count nothing.
    """
    import torch

    batch = encoded(some(3), tokenizer)
    opens = tokenizer.convert_tokens_to_ids(["<answer>", "<verification>"])
    marks = [tokenizer.encode(f" {mark}")[0] for mark in (HELD, MISSING)]
    assert len({len(head) + len(tail) for head, tail in batch}) > 1
    costs: list[tuple[float, float]] = []
    for head, tail in batch:
        weights = [
            *[prompt] * (len(head) - 1),
            *(
                decision if before in opens or now in marks else 1.0
                for before, now in pairwise([head[-1], *tail])
            ),
        ]
        costs += zip(token_losses(model, (head, tail)), weights, strict=True)
    mean = sum(loss * weight for loss, weight in costs) / sum(weight for _, weight in costs)
    settings = replace(SMALL, prompt_weight=prompt, decision_weight=decision)
    course = _Trainer(settings, model, tokenizer, lambda _step, _loss: None)
    with torch.no_grad():
        given = course._loss(batch).item()
    assert given == pytest.approx(mean, rel=1e-5)


def test_a_pass_gives_every_example_once():
    """In batches of the size asked for, each pass in another order, the same from the same seed."""
    pool = [([index] * (1 + index % 7), [index]) for index in range(90)]
    drawn = list(islice(batches(pool, 8, random.Random(5)), 36))
    assert drawn == list(islice(batches(pool, 8, random.Random(5)), 36))
    first, second, third = drawn[:12], drawn[12:24], drawn[24:]
    for each in (first, second, third):
        assert Counter(range(90)) == Counter(one[1][0] for batch in each for one in batch)
        assert {8, 2} == {len(batch) for batch in each}
    assert first != second != third


def test_the_learning_rate_rises_stays_and_falls():
    """Up over the warm-up, level to the middle, down to a fiftieth, never to nothing."""
    settings = replace(SMALL, steps=1_000, warmup=50)
    shares = [_factor(step, settings) for step in range(1_000)]
    assert shares[:50] == sorted(shares[:50])
    assert shares[0] == pytest.approx(1 / 50)
    assert {1.0} == set(shares[50:500])
    assert shares[500:] == sorted(shares[500:], reverse=True)
    assert shares[-1] == pytest.approx(0.02)
