"""The tokenizer of the tiny policy: byte-level BPE over the invented world's texts.

Takes texts, gives a transformers tokenizer with a chat template. Any text can be encoded and
decodes to itself.

transformers reads every tokenizer of a Qwen2 folder as Qwen2's own: it keeps vocabulary and merges,
but uses Qwen2's pre-tokenizer and NFC. Ours splits at least as finely wherever a merge could span,
so both give the same tokens.
"""

import re
from collections.abc import Iterable
from typing import Any

from resources.policy_tiny.folder import END, PAD, START, TAGS

EVIDENCE, CLAIM = "<evidence>", "<claim>"
"""The openings of the two parts of a prompt."""
_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['content'] + '<|im_end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>' }}{% endif %}"
)
_PIECES = r"\n|\d| ?[^\s\w]| ?[^\W\d_]+|_| +(?!\S)| +"
"""A line break, a digit, a mark or a word; the last two include one preceding space."""
_TAG = re.compile("|".join(TAGS))


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:  # noqa: ANN401 - a transformers tokenizer
    """A ``PreTrainedTokenizerFast`` of ``vocabulary`` entries plus the tags."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((_TAG.sub("", text) for text in texts), trainer)
    # Tags are not special tokens: TRL decodes without those, and a missing tag earns no reward.
    tokenizer.add_tokens(
        [AddedToken(tag, special=False, normalized=False) for tag in (*TAGS, EVIDENCE, CLAIM)]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        chat_template=_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
