"""Verifiers in process against a plain computation: MiniCheck, and classifiers of your own."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

from decomposerl.errors import ConfigError, EngineMissing
from decomposerl.prompts.template import inline_prompt, parse_prompt
from decomposerl.prompts.verifier import VerifierForm, minicheck
from resources.verifier.chunks import chunks
from resources.verifier.local import MODELS, ClassifierVerifier, LocalMiniCheck
from resources.verifier.minicheck_form import own_form
from tiny_models import tiny_deberta, tiny_gpt2, tiny_roberta, tiny_t5

BUILDERS = {
    "flan-t5-large": tiny_t5,
    "deberta-v3-large": tiny_deberta,
    "roberta-large": tiny_roberta,
}
every_model = pytest.mark.parametrize("name", sorted(BUILDERS))
PREFIX = "the mat: "
FORM = minicheck(
    "published",
    parse_prompt(
        "minicheck", f"<!-- section: pair -->\n{PREFIX}{{document}}{{separator}}{{claim}}"
    ),
)
CLOSE = 1e-5


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: build(root / name) for name, build in BUILDERS.items()}


def given() -> VerifierForm:
    """The form of these tests, with a prefix that tiny T5 can read."""
    return FORM


def prose(rng: random.Random, count: int) -> str:
    """Sentences of 3 to 9 small words, now and then on a new line."""
    words = "cat sat mat dog ran Paris London was born in won a prize the".split()
    parts = [" ".join(rng.choices(words, k=rng.randint(3, 9))) for _ in range(count)]
    return "".join(f"The {part}.{rng.choice([' ', ' ', chr(10)])}" for part in parts)


def some_pairs(count: int, most_sentences: int, seed: int = 7) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    sizes = [rng.randint(1, most_sentences) for _ in range(count)]
    return [(prose(rng, size), prose(rng, 1).strip()) for size in sizes]


class Reference:
    """The published recipe, one chunk at a time, without padding, masks or batches."""

    def __init__(self, name: str, folder: Path) -> None:
        """Load the model anew."""
        kind: Any = AutoModelForSequenceClassification
        if name == "flan-t5-large":
            kind = AutoModelForSeq2SeqLM
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
        self.model, self.is_t5 = kind.from_pretrained(folder).eval(), kind is AutoModelForSeq2SeqLM

    def probability(self, chunk: str, claim: str) -> float:
        """P(supported) by exponentials written out."""
        prefix = PREFIX if self.is_t5 else ""
        text = prefix + chunk + str(self.tokenizer.eos_token) + claim
        return self.of_ids(self.tokenizer(text)["input_ids"])

    def of_ids(self, ids: list[int]) -> float:
        """P(supported) of one row of token ids."""
        row = torch.tensor([ids])
        with torch.no_grad():
            if self.is_t5:
                logits = self.model(input_ids=row, decoder_input_ids=torch.tensor([[0]])).logits
                no, yes = logits[0, 0, 3].item(), logits[0, 0, 209].item()
            else:
                no, yes = self.model(input_ids=row).logits[0].tolist()
        return 1.0 / (1.0 + float(np.exp(no - yes)))

    def sizes(self, texts: Sequence[str]) -> list[int]:
        """Words for T5, tokens for the others."""
        if self.is_t5:
            return [len(text.split()) for text in texts]
        return [len(self.tokenizer.tokenize(text)) for text in texts]


@every_model
def test_batches_with_padding_give_the_plain_numbers(folders: dict[str, Path], name: str):
    """Any batch width and order gives what one unpadded row at a time gives, to 1e-5."""
    pairs, reference = some_pairs(24, 9), Reference(name, folders[name])
    expected = [reference.probability(document.strip(), claim) for document, claim in pairs]
    assert np.ptp(expected) > 0.1, "a model that answers everything alike proves nothing"
    for most in (1, 700, 100_000):
        verifier = LocalMiniCheck(name, str(folders[name]), batch_tokens=most, form=given)
        assert np.allclose(expected, verifier.support_probability(pairs), rtol=0, atol=CLOSE)
    backward = verifier.support_probability(pairs[::-1])
    assert np.allclose(expected, backward[::-1], rtol=0, atol=CLOSE)


@every_model
def test_long_evidence_scores_as_its_best_chunk(folders: dict[str, Path], name: str):
    """Evidence over the budget is read in pieces; the best of them counts."""
    rng = random.Random(3)
    lines = [prose(rng, 12).replace("\n", " ").strip() for _ in range(14)]
    reference, claim = Reference(name, folders[name]), "The cat ran."
    verifier = LocalMiniCheck(name, str(folders[name]), form=given)
    pieces = chunks("\n".join(lines), MODELS[name].budget, reference.sizes)
    assert len(pieces) > 1
    expected = [reference.probability(piece, claim) for piece in pieces]
    (found,) = verifier.support_probability([("\n".join(lines), claim)])
    assert found == pytest.approx(max(expected), abs=CLOSE)
    assert found > min(expected) + 10 * CLOSE


def test_a_question_keeps_its_claim(folders: dict[str, Path]):
    """An endless sentence loses its end, the claim nothing; blank texts are asked as they are."""
    name, claim = "roberta-large", "The cat ran."
    reference = Reference(name, folders[name])
    ids = reference.tokenizer("the cat " * 100, add_special_tokens=False)["input_ids"]
    tail = reference.tokenizer(f"{reference.tokenizer.eos_token}{claim}")["input_ids"][1:]
    kept = [0, *ids[: 512 - 1 - len(tail)], *tail]
    assert 512 == len(kept) < len(ids)
    (found,) = LocalMiniCheck(name, str(folders[name])).support_probability(
        [("the cat " * 100, claim)]
    )
    assert found == pytest.approx(reference.of_ids(kept), abs=CLOSE)
    path = folders["flan-t5-large"]
    reference = Reference("flan-t5-large", path)
    verifier = LocalMiniCheck(path=str(path), claim_split="min_over_sentences", form=given)
    found = verifier.support_probability([(" \n ", "The cat."), ("The cat.", "")])
    expected = [reference.probability("", "The cat."), reference.probability("The cat.", "")]
    assert np.allclose(expected, found, rtol=0, atol=CLOSE)
    assert (0,) == verifier.support_probability([]).shape


def test_engine_names_keep_apart_whatever_decides(folders: dict[str, Path], tmp_path: Path):
    """Model, weights, number type, split, not the device; half the bits say nearly the same."""
    path = str(folders["roberta-large"])
    other = tiny_roberta(tmp_path / "roberta-large", seed=1)
    different = [
        LocalMiniCheck("roberta-large", path),
        LocalMiniCheck("roberta-large", str(other)),
        LocalMiniCheck("roberta-large", path, dtype="bfloat16"),
        LocalMiniCheck("roberta-large", path, claim_split="min_over_sentences"),
        LocalMiniCheck("deberta-v3-large", str(folders["deberta-v3-large"])),
    ]
    assert len(different) == len({verifier.engine for verifier in different})
    assert different[0].engine == LocalMiniCheck("roberta-large", path, device="cuda").engine
    pairs, path = some_pairs(8, 3), str(folders["deberta-v3-large"])
    full, half = (
        LocalMiniCheck("deberta-v3-large", path, dtype=dtype).support_probability(pairs)
        for dtype in ("float32", "bfloat16")
    )
    assert np.allclose(full, half, rtol=0, atol=0.15)
    assert not np.array_equal(full, half)
    assert np.float64 == half.dtype


def test_the_form_names_flan_t5_and_changes_what_it_reads(folders: dict[str, Path]):
    """Its origin and text are in the engine's name; the other two read no words and need none."""
    path, pairs = str(folders["flan-t5-large"]), some_pairs(6, 3)

    def missing() -> VerifierForm:
        raise EngineMissing("no form")

    own, published = LocalMiniCheck(path=path), LocalMiniCheck(path=path, form=given)
    assert "prompt=own@" in own.engine
    assert published.engine == own.engine.replace(own_form().label, FORM.label)
    apart = np.abs(own.support_probability(pairs) - published.support_probability(pairs))
    assert apart.max() > 10 * CLOSE
    with pytest.raises(EngineMissing, match="no form"):
        _ = LocalMiniCheck(path=path, form=missing).engine
    other = LocalMiniCheck("roberta-large", str(folders["roberta-large"]), form=missing)
    assert "prompt" not in other.engine
    assert (6,) == other.support_probability(pairs).shape


def test_what_is_missing_is_named_with_its_command(folders: dict[str, Path], tmp_path: Path):
    """An empty folder or cache by the download; a GPU, before weights are read, by its setting."""
    with pytest.raises(EngineMissing, match="hf download lytang/MiniCheck-Flan-T5-Large") as error:
        LocalMiniCheck(path=str(tmp_path)).support_probability([("a", "b")])
    assert f"--local-dir {tmp_path}" in str(error.value)
    with pytest.raises(EngineMissing, match="MiniCheck-RoBERTa-Large --revision 0123abc"):
        _ = LocalMiniCheck("roberta-large", revision="0123abc").engine
    if not torch.cuda.is_available():
        verifier = LocalMiniCheck(path=str(folders["flan-t5-large"]), device="cuda")
        with pytest.raises(EngineMissing, match="'cuda'"):
            verifier.support_probability([("a", "b")])


PAIR = inline_prompt("verifier", {"pair": "{document} So: {claim}?"})
PAIRS = [("the cat sat on a mat", "the dog ran"), ("the dog ran to Paris", "a cat was born")]
LONG = ("The cat sat on a mat. The dog ran to London. The prize was won in Paris.", "the dog ran")


def plainly(folder: Path, *texts: str) -> float:
    """P(supported) of one unpadded row."""
    reference = Reference("classifier", folder)
    return reference.of_ids(reference.tokenizer(*texts)["input_ids"])


@pytest.mark.parametrize("name", ["roberta-large", "deberta-v3-large"])
def test_a_classifier_reads_a_pair_or_the_text_of_its_form(folders: dict[str, Path], name: str):
    """As the model reads one unpadded row; the class of support is a setting."""
    folder = folders[name]
    pairs = [plainly(folder, *one) for one in PAIRS]
    forms = [plainly(folder, f"{one} So: {claim}?") for one, claim in PAIRS]
    made = ClassifierVerifier(str(folder)).support_probability(PAIRS)
    formed = ClassifierVerifier(str(folder), form=PAIR).support_probability(PAIRS)
    other = ClassifierVerifier(str(folder), supported_class=0).support_probability(PAIRS)
    assert np.allclose(pairs, made, rtol=0, atol=CLOSE)
    assert np.allclose(forms, formed, rtol=0, atol=CLOSE)
    assert np.allclose(1.0, made + other, rtol=0, atol=CLOSE)
    assert np.ptp([*pairs, *forms]) > CLOSE, "a model that answers all alike proves nothing"


def test_a_long_text_is_never_too_long(folders: dict[str, Path]):
    """A chunk that is longer than the context loses its end, not the claim."""
    folder = folders["roberta-large"]
    cut = ClassifierVerifier(str(folder), chunk=400, context=40)
    kept = cut._encoded(*LONG)["input_ids"]
    assert 40 == len(kept)
    whole = cut._tokenizer.decode(kept)
    assert whole.count(LONG[1]) == 1
    assert whole.startswith("<s>The cat")


def test_a_decoder_is_a_classifier_too(tmp_path: Path, folders: dict[str, Path]):
    """Rows of any length in a batch; the command that brings one, a class that it lacks."""
    folder = tiny_gpt2(tmp_path / "gpt2")
    together = ClassifierVerifier(str(folder), form=PAIR).support_probability(PAIRS)
    alone = [plainly(folder, f"{document} So: {claim}?") for document, claim in PAIRS]
    assert together == pytest.approx(alone, abs=CLOSE)
    with pytest.raises(EngineMissing, match="hf download nobody/nothing --revision main"):
        ClassifierVerifier("nobody/nothing").support_probability(PAIRS)
    with pytest.raises(EngineMissing, match="neither a folder nor a hub model"):
        ClassifierVerifier("/no/such/folder").support_probability(PAIRS)
    wrong = ClassifierVerifier(str(folders["roberta-large"]), supported_class=2)
    with pytest.raises(ConfigError, match="has 2 classes, 0 to 1; supported_class is 2"):
        wrong.support_probability(PAIRS)
