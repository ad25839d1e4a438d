"""All heads of the tiny judge beside its encoder alone, in sequences a second.

``python -m perf.heads_case --device cuda`` builds ModernBERT-large's architecture with random
weights and one adapter a head, and prints one line of JSON. ``merged`` is the judge's way: the
sequences in eight parts, each head merged for its own. ``mixed`` is peft's: rows of all heads in
one pass. Needs no network.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from decomposerl.judge.distillation import HEADS, MOST_CLASSES
from resources.judge.tiny_judge import with_adapter

MODERNBERT_LARGE = {
    "vocab_size": 50_368,
    "hidden_size": 1_024,
    "intermediate_size": 2_624,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
}
"""From the model's public ``config.json``; the rest is transformers' default."""
TINY = MODERNBERT_LARGE | {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


@dataclass(frozen=True, slots=True)
class HeadsCase:
    """``sequences`` of ``tokens`` each in passes of ``batch``; adapters of ``rank``."""

    sequences: int = 1_024
    tokens: int = 512
    batch: int = 128
    rank: int = 16
    device: str = "cuda"
    tiny: bool = False
    mixed: bool = True


def measure(case: HeadsCase) -> dict[str, float]:
    """Sequences a second: ``plain``, ``merged`` and, where asked for, ``mixed``.

    In bfloat16 on a card, in float32 on a processor; after one uncounted pass of each kind.
    """
    import torch
    from transformers import ModernBertConfig, ModernBertForSequenceClassification

    torch.manual_seed(0)
    sizes = TINY if case.tiny else MODERNBERT_LARGE
    dtype = torch.bfloat16 if case.device.startswith("cuda") else torch.float32
    config = ModernBertConfig(**sizes, num_labels=MOST_CLASSES)
    with torch.device(case.device):
        model = ModernBertForSequenceClassification(config).to(dtype).eval()
        ids = torch.randint(3, 50_000, (case.sequences, case.tokens))
    passes = [{"input_ids": one, "attention_mask": torch.ones_like(one)} for one in _cut(ids, case)]
    adapters = [_adapter(model, case.rank) for _ in HEADS]

    def merged() -> None:
        for adapter, part in zip(adapters, ids.chunk(len(HEADS)), strict=True):
            classifier = with_adapter(model, adapter, 2.0)
            for one in _cut(part, case):
                classifier(input_ids=one, attention_mask=torch.ones_like(one))

    def plain() -> None:
        for fields in passes:
            model(**fields)

    rates = {"plain": _rate(plain, case), "merged": _rate(merged, case)}
    if case.mixed:
        mixed, names = _mixed(model, case.rank), [head.name for head in HEADS]

        def together() -> None:
            for fields in passes:
                rows = len(fields["input_ids"])
                mixed(**fields, adapter_names=(names * rows)[:rows])

        rates["mixed"] = _rate(together, case)
    return rates


def _cut(ids: Any, case: HeadsCase) -> Sequence[Any]:  # noqa: ANN401 - a tensor
    parts: Sequence[Any] = ids.split(case.batch)
    return parts


def _adapter(model: Any, rank: int) -> dict[str, Any]:  # noqa: ANN401 - of transformers
    """Random matrices of low rank for every linear layer but the classifier, by peft's names."""
    import torch

    linear = [(n, m) for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)]
    made = dict[str, Any]()
    for name, layer in linear:
        if name != "classifier":
            device = {"device": layer.weight.device}
            made[f"{name}.lora_A.weight"] = torch.randn(rank, layer.in_features, **device)
            made[f"{name}.lora_B.weight"] = torch.randn(layer.out_features, rank, **device)
    return made


def _mixed(model: Any, rank: int) -> Any:  # noqa: ANN401 - peft carries no types
    """The model with one of peft's adapters a head, which changes it in place."""
    from peft import LoraConfig, TaskType, get_peft_model

    lora = LoraConfig(task_type=TaskType.SEQ_CLS, r=rank, target_modules="all-linear")
    first, *others = (head.name for head in HEADS)
    mixed = get_peft_model(model, lora, adapter_name=first)
    for name in others:
        mixed.add_adapter(name, lora)
    return mixed.eval()


def _rate(work: Callable[[], None], case: HeadsCase) -> float:
    import torch

    seconds = []
    with torch.inference_mode():
        for _ in range(2):
            started = time.perf_counter()
            work()
            if case.device.startswith("cuda"):
                torch.cuda.synchronize(case.device)
            seconds.append(time.perf_counter() - started)
    return case.sequences / seconds[-1]


def main(words: Sequence[str] | None = None) -> None:
    """Measure the case given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("sequences", "tokens", "batch", "rank"):
        parser.add_argument(f"--{name}", type=int, default=getattr(HeadsCase(), name))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--no-mixed", dest="mixed", action="store_false")
    case = HeadsCase(**vars(parser.parse_args(words)))
    sys.stdout.write(json.dumps(measure(case)) + "\n")


if __name__ == "__main__":
    main()
