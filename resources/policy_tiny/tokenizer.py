"""The tokenizer of the tiny policy: byte-level BPE over the invented world's texts.

Takes texts, gives a transformers tokenizer with a chat template. Any text can be encoded and
comes back as it was. The tags of a trace are single tokens but not special ones: TRL
decodes without special tokens, and a tag that vanished could not be rewarded.

transformers reads every tokenizer beside a Qwen2 as Qwen2's own: it keeps vocabulary and merges,
puts Qwen2's cut and NFC in place of ours, and adds ``<|endoftext|>`` where it is missing, which
would be a token without an embedding. So padding is that token, and our cut is nowhere coarser
than Qwen2's in what the merges can tell: both give the same tokens.

Left out deliberately: the model (``resources.policy_tiny.warm_start``).
"""

import re
from collections.abc import Iterable
from typing import Any

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TAGS = tuple(
    f"<{slash}{kind}>"
    for kind in ("think", "question", "answer", "verification")
    for slash in ("", "/")
)
EVIDENCE, CLAIM = "<evidence>", "<claim>"
"""What the two parts of a prompt open with."""
_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['content'] + '<|im_end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>' }}{% endif %}"
)
_PIECES = r"\n|\d| ?[^\s\w]| ?[^\W\d_]+|_| +(?!\S)| +"
"""A line break, a digit, a mark, a word; one space belongs to what follows it."""
_TAG = re.compile("|".join(TAGS))


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:  # noqa: ANN401 - a transformers tokenizer
    """A ``PreTrainedTokenizerFast`` of ``vocabulary`` entries, and the tags besides."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator((_TAG.sub("", text) for text in texts), trainer)
    made.add_tokens(
        [AddedToken(tag, special=False, normalized=False) for tag in (*TAGS, EVIDENCE, CLAIM)]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=made,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        chat_template=_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
