"""Tiny models of real architectures with fixed seeds, saved as ordinary model folders.

Their answers mean nothing; they are the same on every run and depend on the input, which
is all that a test of batching, chunking and reading of probabilities needs.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from project import SUPPORT

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import (
        PreTrainedModel,
        PreTrainedTokenizerBase,
        PreTrainedTokenizerFast,
        Qwen2ForCausalLM,
    )

SEED = 2024
SIZES = json.loads((SUPPORT / "tiny_models.json").read_text("utf-8"))
LETTERS = [chr(code) for code in range(33, 127)]
WORDS = "the cat sat on a mat dog ran to Paris London was born in won prize Document Claim".split()


def _saved(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", folder: Path) -> Path:
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _seeded(seed: int = SEED) -> None:
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(seed)


def _pieces(*first: str) -> list[tuple[str, float]]:
    """A unigram vocabulary: ``first`` with score 0, then words, then single characters."""
    whole = [(f"▁{word}", -2.0 - 0.01 * rank) for rank, word in enumerate(WORDS)]
    return [(piece, 0.0) for piece in first] + whole + [(letter, -5.0) for letter in LETTERS]


def tiny_t5(folder: Path) -> Path:
    """A T5 like MiniCheck-Flan-T5-Large, with ids 3 and 209 among its 256."""
    from transformers import T5Config, T5ForConditionalGeneration, T5TokenizerFast

    _seeded()
    config = T5Config(**SIZES["T5Config"])
    tokenizer = T5TokenizerFast(vocab=_pieces("<pad>", "</s>", "<unk>", "▁"), extra_ids=0)
    model = T5ForConditionalGeneration(config)
    model.lm_head.weight.data.mul_(0.1)  # otherwise every softmax over two ids is 0 or 1
    return _saved(model, tokenizer, folder)


def tiny_roberta(folder: Path, seed: int = SEED) -> Path:
    """A two-way RoBERTa classifier over bytes, 512 positions."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import RobertaConfig, RobertaForSequenceClassification, RobertaTokenizerFast

    _seeded(seed)
    letters = ["<s>", "<pad>", "</s>", "<unk>", *sorted(ByteLevel.alphabet()), "<mask>"]
    config = RobertaConfig(**SIZES["RobertaConfig"], vocab_size=len(letters))
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    tokenizer = RobertaTokenizerFast(vocab=vocabulary, merges=[])
    return _saved(RobertaForSequenceClassification(config), tokenizer, folder)


def tiny_gpt2(folder: Path) -> Path:
    """A two-way GPT-2 classifier over bytes, whose configuration names no padding."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import GPT2Config, GPT2ForSequenceClassification, GPT2TokenizerFast

    _seeded()
    letters = ["<|endoftext|>", *sorted(ByteLevel.alphabet())]
    config = GPT2Config(**SIZES["GPT2Config"], vocab_size=len(letters))
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    tokenizer = GPT2TokenizerFast(vocab=vocabulary, merges=[])
    return _saved(GPT2ForSequenceClassification(config), tokenizer, folder)


def tiny_deberta(folder: Path) -> Path:
    """A two-way DeBERTa-v3 classifier (relative positions, shared attention keys)."""
    from transformers import (
        DebertaV2Config,
        DebertaV2ForSequenceClassification,
        DebertaV2TokenizerFast,
    )

    _seeded()
    pieces = _pieces("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "▁")
    config = DebertaV2Config(**SIZES["DebertaV2Config"], vocab_size=len(pieces))
    tokenizer = DebertaV2TokenizerFast(vocab=pieces, unk_id=3)
    return _saved(DebertaV2ForSequenceClassification(config), tokenizer, folder)


def tiny_modernbert(folder: Path, seed: int = SEED, positions: int = 130) -> Path:
    """A ModernBERT without a classifier over ``WORDS`` and letters, read in lower case."""
    from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

    _seeded(seed)
    marks = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    cutter = _word_tokenizer([*marks.values()])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=cutter, model_input_names=["input_ids", "attention_mask"], **marks
    )
    config = ModernBertConfig(
        **SIZES["ModernBertConfig"], vocab_size=len(tokenizer), max_position_embeddings=positions
    )
    return _saved(ModernBertModel(config), tokenizer, folder)


def _word_tokenizer(marks: Sequence[str]) -> "Tokenizer":
    """Whole words of a few, else letters; pairs as BERT's."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing

    letters = [chr(code) for code in range(33, 127) if chr(code).lower() == chr(code)]
    pieces = [*marks, *sorted({word.lower() for word in WORDS} - set(letters)), *letters]
    pieces += [f"##{letter}" for letter in letters]
    cutter = Tokenizer(
        WordPiece({piece: row for row, piece in enumerate(pieces)}, unk_token=marks[3])
    )
    cutter.normalizer, cutter.pre_tokenizer = Lowercase(), BertPreTokenizer()
    cutter.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return cutter


CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ANSWERS = ("Yes", "No", "yes", " Yes", "NO")


OPENINGS = tuple(
    f"<questions>\n<question>{text}?</question>\n" for text in ("Is ice cold", "Where is Paris")
)
MIDDLE, ENDING = "<question>Does snow fall?</question>\n", "</questions>"
_STATES = 4  # the first dimensions encode the position in a reply
_HERE, _MUST, _MAY = 2.0, 1_000.0, 20.0  # weights of a position, its successors, the prompt
_SHARP = 20.0


def tiny_chat(folder: Path) -> Path:
    """A Qwen2 over bytes with a chat template, that tends to answer Yes or No in some spelling."""
    tokenizer = _chat_tokenizer(ANSWERS)
    model = tiny_qwen2(tokenizer)
    model.lm_head.weight.data[-len(ANSWERS) :] *= 4.0  # makes them often part of the top five
    model.lm_head.weight.data[tokenizer.eos_token_id] *= 2.0  # makes replies end
    return _saved(model, tokenizer, folder)


def tiny_writer(folder: Path) -> Path:
    """The same architecture, built to reply with one or two questions in tags.

    The first dimensions of each token's embedding encode its position in a reply; the layers
    do not change them, and the output allows only valid successors. The other dimensions, and
    so the whole prompt, decide between those.
    """
    tokenizer = _chat_tokenizer((*OPENINGS, MIDDLE, ENDING))
    model = tiny_qwen2(tokenizer)
    state = {OPENINGS[0]: 1, OPENINGS[1]: 1, MIDDLE: 2, ENDING: 3}
    into, out = model.model.embed_tokens.weight.data, model.lm_head.weight.data
    into[:, :_STATES] = 0.0
    into[:, 0] = _HERE
    out[:] = 0.0
    context = model.model.layers[0].mlp.gate_proj.weight.data[:, _STATES:]  # any random rows
    follows = {OPENINGS[0]: (0,), OPENINGS[1]: (0,), MIDDLE: (1,), ENDING: (1, 2)}
    for row, (text, successors) in enumerate(follows.items()):
        number = tokenizer.convert_tokens_to_ids(text)
        into[number, 0], into[number, state[text]] = 0.0, _HERE
        out[number, list(successors)] = _MUST
        out[number, _STATES:] = _MAY * context[row]
    out[tokenizer.eos_token_id, 3] = _MUST
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight.data *= _SHARP  # otherwise all long prompts look alike
        layer.self_attn.o_proj.weight.data[:_STATES] = 0.0
        layer.mlp.down_proj.weight.data[:_STATES] = 0.0
    return _saved(model, tokenizer, folder)


def _chat_tokenizer(pieces: Sequence[str]) -> "PreTrainedTokenizerFast":
    """A tokenizer of bytes, chat marks, and ``pieces`` as one token each."""
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as Decoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    letters = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    cutter = Tokenizer(BPE(vocab=letters, merges=[]))
    cutter.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=True)
    cutter.decoder = Decoder()
    return with_chat_marks(cutter, pieces, CHAT_TEMPLATE)


def with_chat_marks(
    cutter: "Tokenizer", pieces: Sequence[str], template: str, **more: str
) -> "PreTrainedTokenizerFast":
    """The tokenizer with Qwen's chat marks, and ``pieces`` as one token each."""
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    cutter.add_special_tokens(["<|pad|>", "<|im_start|>", "<|im_end|>"])
    cutter.add_tokens([AddedToken(text, normalized=False) for text in pieces])
    return PreTrainedTokenizerFast(
        tokenizer_object=cutter,
        pad_token="<|pad|>",  # noqa: S106 - a token, not a password
        eos_token="<|im_end|>",  # noqa: S106 - the same
        padding_side="left",
        chat_template=template,
        **more,
    )


def tiny_qwen2(
    tokenizer: "PreTrainedTokenizerFast", seed: int = SEED, **sizes: int
) -> "Qwen2ForCausalLM":
    """Two layers with random weights over the tokenizer's vocabulary."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    _seeded(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        initializer_range=0.2,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **(
            {"hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 65_536} | sizes
        ),
    )
    return Qwen2ForCausalLM(config)
