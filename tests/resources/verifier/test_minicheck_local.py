"""MiniCheck's encoders in process against a plain computation, one question at a time."""

import os
import random
import shutil
import subprocess
import sys
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

from decomposerl.errors import EngineMissing
from decomposerl.prompts.minicheck import MiniCheckForm
from decomposerl.prompts.template import parse_prompt
from project import ROOT
from resources.store.result_store import ResultStores
from resources.verifier.chunks import chunks
from resources.verifier.minicheck_form import own_form
from resources.verifier.minicheck_local import MODELS, LocalMiniCheck
from resources.verifier.stored import StoredVerifier
from tiny_models import tiny_deberta, tiny_roberta, tiny_t5

BUILDERS = {
    "flan-t5-large": tiny_t5,
    "deberta-v3-large": tiny_deberta,
    "roberta-large": tiny_roberta,
}
NAMES = sorted(BUILDERS)
PREFIX = "the mat: "
FORM = MiniCheckForm(
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


def given() -> MiniCheckForm:
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


@pytest.mark.parametrize("name", NAMES)
def test_batches_with_padding_give_the_plain_numbers(folders: dict[str, Path], name: str):
    """Any batch width gives what one unpadded row at a time gives, to 1e-5."""
    pairs, reference = some_pairs(24, 9), Reference(name, folders[name])
    expected = [reference.probability(document.strip(), claim) for document, claim in pairs]
    assert np.ptp(expected) > 0.1, "a model that answers everything alike proves nothing"
    for most in (1, 700, 100_000):
        verifier = LocalMiniCheck(name, str(folders[name]), batch_tokens=most, form=given)
        assert np.allclose(expected, verifier.support_probability(pairs), rtol=0, atol=CLOSE)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_pairs_changes_nothing(folders: dict[str, Path], name: str):
    """Pairs asked backwards get the same numbers backwards."""
    pairs = some_pairs(12, 9)
    verifier = LocalMiniCheck(name, str(folders[name]), batch_tokens=512, form=given)
    forward = verifier.support_probability(pairs)
    backward = verifier.support_probability(pairs[::-1])
    assert np.allclose(forward, backward[::-1], rtol=0, atol=CLOSE)


@pytest.mark.parametrize("name", NAMES)
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


@pytest.mark.parametrize("name", NAMES)
def test_the_weakest_sentence_decides_where_claims_are_split(folders: dict[str, Path], name: str):
    """The split claim scores as its weakest sentence, the whole claim as one text."""
    reference, evidence = Reference(name, folders[name]), "The dog was born in London."
    claim = "The cat sat. Paris won a prize. The mat ran to the dog."
    parts = [part + "." for part in claim.rstrip(".").split(". ")]
    scores = {
        split: LocalMiniCheck(
            name, str(folders[name]), claim_split=split, form=given
        ).support_probability([(evidence, claim)])[0]
        for split in ("whole", "min_over_sentences")
    }
    weakest = min(reference.probability(evidence, part) for part in parts)
    assert scores["min_over_sentences"] == pytest.approx(weakest, abs=CLOSE)
    assert scores["whole"] == pytest.approx(reference.probability(evidence, claim), abs=CLOSE)


def test_a_question_over_the_length_limit_keeps_its_claim(folders: dict[str, Path]):
    """One endless sentence is cut to 512 tokens from its own end; the claim stays whole."""
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


def test_blank_evidence_and_a_blank_claim_are_asked_as_they_are(folders: dict[str, Path]):
    """Nothing to read is a question like another; no pair at all is no question."""
    reference = Reference("flan-t5-large", folders["flan-t5-large"])
    verifier = LocalMiniCheck(
        path=str(folders["flan-t5-large"]), claim_split="min_over_sentences", form=given
    )
    found = verifier.support_probability([(" \n ", "The cat."), ("The cat.", "")])
    expected = [reference.probability("", "The cat."), reference.probability("The cat.", "")]
    assert np.allclose(expected, found, rtol=0, atol=CLOSE)
    assert (0,) == verifier.support_probability([]).shape


def test_engine_names_keep_apart_whatever_decides(folders: dict[str, Path], tmp_path: Path):
    """Model, weights, number type and claim split each change the name; the device does not."""
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


def test_the_form_names_flan_t5_and_changes_what_it_reads(folders: dict[str, Path]):
    """Its origin and text are in the engine's name; the other two read no words and need none."""
    path, pairs = str(folders["flan-t5-large"]), some_pairs(6, 3)

    def missing() -> MiniCheckForm:
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


def test_number_types_agree_roughly(folders: dict[str, Path]):
    """Half the bits give nearly the same probabilities, as float64 in 0..1."""
    pairs, path = some_pairs(8, 3), str(folders["deberta-v3-large"])
    full, half = (
        LocalMiniCheck("deberta-v3-large", path, dtype=dtype).support_probability(pairs)
        for dtype in ("float32", "bfloat16")
    )
    assert np.allclose(full, half, rtol=0, atol=0.15)
    assert not np.array_equal(full, half)
    assert np.float64 == half.dtype


def test_stored_scores_load_no_model_again(folders: dict[str, Path], tmp_path: Path):
    """A second run over the same pairs asks nothing and gives the same numbers."""
    pairs, path = some_pairs(5, 3), str(folders["flan-t5-large"])
    first = StoredVerifier(LocalMiniCheck(path=path), ResultStores(tmp_path))
    second = StoredVerifier(engine := LocalMiniCheck(path=path), ResultStores(tmp_path))
    expected = first.support_probability(pairs)
    assert np.array_equal(expected, second.support_probability(pairs))
    assert (0, 5) == (second.calls, second.hits)
    assert "_model" not in vars(engine)


def test_a_missing_model_names_its_download(tmp_path: Path):
    """Neither an empty folder nor an empty cache is a riddle: the message is a command."""
    with pytest.raises(EngineMissing, match="hf download lytang/MiniCheck-Flan-T5-Large") as error:
        LocalMiniCheck(path=str(tmp_path)).support_probability([("a", "b")])
    assert f"--local-dir {tmp_path}" in str(error.value)
    with pytest.raises(EngineMissing, match="MiniCheck-RoBERTa-Large --revision 0123abc"):
        _ = LocalMiniCheck("roberta-large", revision="0123abc").engine


def test_a_downloaded_model_is_named_by_its_commit(folders: dict[str, Path], tmp_path: Path):
    """A branch in the hub's local cache stands for its commit, and its weights are read there."""
    repository = tmp_path / "models--lytang--MiniCheck-RoBERTa-Large"
    commit = "0123456789abcdef" * 2 + "01234567"
    shutil.copytree(folders["roberta-large"], repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    code = (
        "from resources.verifier.minicheck_local import LocalMiniCheck\n"
        "verifier = LocalMiniCheck('roberta-large')\n"
        "print(verifier.engine, *verifier.support_probability([('a cat', 'a dog')]))"
    )
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    engine, probability = done.stdout.split()
    assert engine == "minicheck:roberta-large@0123456789ab:float32:400tokens:whole:r1"
    expected = Reference("roberta-large", folders["roberta-large"]).probability("a cat", "a dog")
    assert float(probability) == pytest.approx(expected, abs=CLOSE)


def test_a_missing_gpu_is_said_before_weights_are_read(folders: dict[str, Path]):
    """Asking for CUDA where there is none names the setting to change."""
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    verifier = LocalMiniCheck(path=str(folders["flan-t5-large"]), device="cuda")
    with pytest.raises(EngineMissing, match="no GPU for device 'cuda'"):
        verifier.support_probability([("a", "b")])
