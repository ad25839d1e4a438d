"""Training the heads of the tiny judge: one LoRA adapter after the other (paper, G.6).

Each head is a classifier on the frozen encoder, trained by transformers' ``Trainer`` and peft, with
early stopping on macro-F1 over the dev documents. A head is written when it is done, so that a run
that was stopped goes on with the next one; a head whose examples, encoder or settings changed is
trained again.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from decomposerl.evaluation.metrics import macro_f1
from decomposerl.judge.distillation import HEADS, Head, HeadExamples, HeadSettings, head_examples
from decomposerl.reports.tables import markdown_table
from decomposerl.settings import Settings
from resources.judge.tiny_judge import HEAD_FILE, JUDGE_FILE, RULES, Encoder, read_head
from resources.store.integrity import read_parquet, record_folder
from resources.store.temporary import empty_folder, folder_aside, publish_folder
from resources.training.run_store import write_json

Note = Callable[[str], None]
SCORE, GIVEN = "macro_f1", "classes_given"
_EVALUATED = 64  # examples of dev at a time


class HeadsRun(Settings):
    """What a process that trains heads needs. ``examples`` is a file of ``JUDGE_EXAMPLES``.

    ``folder`` receives the heads (``resources.judge.tiny_judge``); ``encoder`` is a hub model, a
    folder or ``minilm``, ``revision`` the hub's commit.
    """

    examples: Path
    folder: Path
    encoder: str
    revision: str = ""
    settings: HeadSettings = HeadSettings()
    device: str = "cpu"
    threads: int = 1
    dtype: Literal["float32", "bfloat16"] = "float32"

    @cached_property
    def shared(self) -> Encoder:
        """The encoder."""
        return Encoder(self.encoder, self.revision, self.settings.most_tokens)


def heads_markdown(folder: Path) -> str:
    """A row per trained head: its examples, epochs, macro-F1 on dev, seconds."""
    names = ("train", "dev", "epochs", SCORE, "shortened", "constant", "seconds")
    records = {head.name: read_head(folder / head.name) for head in HEADS}
    rows = [(name, *(one.get(field, "") for field in names)) for name, one in records.items()]
    return markdown_table(("head", *names), rows)


def train_heads(run: HeadsRun, note: Note) -> None:
    """Train every head that is not there yet; ``note`` takes a line for each epoch and head.

    Raises:
        TrainingError: the examples lack a head, or documents for early stopping.
        EngineMissing: the encoder is not there.
    """
    frame = read_parquet(run.examples)
    data = {head.name: head_examples(frame, head, run.settings.least) for head in HEADS}
    for head in HEADS:
        key, done = _key(run, data[head.name]), run.folder / head.name / HEAD_FILE
        if done.is_file() and json.loads(done.read_text("utf-8"))["key"] == key:
            note(f"{head.name}: trained before, on the same examples")
            continue
        # Without this file nothing judges with some heads of this training and some of the last.
        (run.folder / JUDGE_FILE).unlink(missing_ok=True)
        _make(run, head, data[head.name], key, note)
    record = {
        "encoder": run.encoder,
        "revision": run.revision,
        "identity": run.shared.identity,
        "rules": RULES,
        "most_tokens": run.settings.most_tokens,
        "teacher": frame["teacher"][0],
        "settings": run.settings.model_dump(),
    }
    write_json(run.folder / JUDGE_FILE, record)


def _key(run: HeadsRun, examples: HeadExamples) -> str:
    """16 hex digits over all that decides a head."""
    columns, settings = ("text", "context", "label"), run.settings.model_dump()
    rows = [part.select(columns).rows() for part in (examples.train, examples.dev)]
    parts = [RULES, run.shared.identity, settings, run.dtype, examples.constant, rows]
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _make(run: HeadsRun, head: Head, examples: HeadExamples, key: str, note: Note) -> None:
    """Train a head and write its folder, whole or not at all."""
    target = run.folder / head.name
    aside = folder_aside(target)
    empty_folder(aside)
    started = time.perf_counter()
    learnt: Mapping[str, float] = {}
    if examples.constant:
        note(f"{head.name}: always {examples.constant}, the rulings are too one-sided to learn")
    else:
        model = head_model(run)
        learnt = fit_head(run, model, head, examples, note)
        model.save_pretrained(aside, save_embedding_layers=False)
        (aside / "README.md").unlink(missing_ok=True)  # peft's empty model card
    record = {
        "key": key,
        "constant": examples.constant,
        "train": examples.train.height,
        "dev": examples.dev.height,
        "seconds": round(time.perf_counter() - started, 1),
        **learnt,
    }
    write_json(aside / HEAD_FILE, record)
    record_folder(aside, "Make it again with: decomposerl run tiny_judge_heads")
    publish_folder(aside, target)


def fit_head(
    run: HeadsRun,
    model: Any,  # noqa: ANN401 - transformers' or peft's
    head: Head,
    examples: HeadExamples,
    note: Note,
) -> Mapping[str, float]:
    """Train a classifier in place, up to its best epoch by macro-F1 over dev.

    Gives that ``macro_f1``, the ``epochs`` run, and ``shortened``, the texts that were cut.
    Checkpoints are in the run's folder meanwhile, and are removed.
    """
    from transformers import DataCollatorWithPadding, PrinterCallback, Trainer, TrainingArguments

    settings, work = run.settings, folder_aside(run.folder / "checkpoints")
    train, cut = _rows(run.shared, head, examples.train)
    dev, cut_dev = _rows(run.shared, head, examples.dev)
    arguments = TrainingArguments(
        output_dir=str(work),
        learning_rate=settings.learning_rate,
        warmup_steps=settings.warmup,
        weight_decay=settings.weight_decay,
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch,
        per_device_eval_batch_size=_EVALUATED,
        # Not by length: a small set would be sorted, and batches of one length are of one class.
        train_sampling_strategy="random",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model=SCORE,
        greater_is_better=True,
        label_names=["labels"],
        seed=settings.seed,
        use_cpu=run.device == "cpu",
        bf16=run.dtype == "bfloat16",
        dataloader_pin_memory=run.device != "cpu",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=train,
        eval_dataset=dev,
        data_collator=DataCollatorWithPadding(run.shared.tokenizer),
        compute_metrics=_scoring(head),
        callbacks=[_stopping(head, settings.patience, note)],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    shutil.rmtree(work, ignore_errors=True)
    return {
        SCORE: float(trainer.state.best_metric or 0.0),
        "epochs": round(float(trainer.state.epoch), 2),
        "shortened": cut + cut_dev,
    }


def head_model(run: HeadsRun) -> Any:  # noqa: ANN401 - peft carries no types
    """The encoder with a new adapter on every linear layer, and a classifier; seeded."""
    from peft import LoraConfig, TaskType, get_peft_model
    from transformers import set_seed

    settings = run.settings
    set_seed(settings.seed)
    lora = LoraConfig(
        task_type=TaskType.SEQ_CLS,
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules="all-linear",
    )
    return get_peft_model(run.shared.model(), lora)


def _scoring(head: Head) -> Callable[[Any], dict[str, float]]:
    """What the trainer measures of dev: ``SCORE``, and ``GIVEN``, the classes that are given."""
    classes = len(head.classes)

    def scored(predicted: Any) -> dict[str, float]:  # noqa: ANN401 - transformers' EvalPrediction
        given = np.asarray(predicted.predictions)[:, :classes].argmax(axis=1)
        cells = np.asarray(predicted.label_ids) * classes + given
        table = np.bincount(cells, minlength=classes * classes).reshape(classes, classes)
        return {SCORE: float(macro_f1(table)), GIVEN: float(table.any(axis=0).sum())}

    return scored


def _stopping(head: Head, patience: int, note: Note) -> Any:  # noqa: ANN401 - loaded lazily
    """Notes every epoch; stops early, counted from the first epoch that gives two classes.

    An adapter starts at nothing, so that a hard head may be constant for some epochs.
    """
    from transformers import EarlyStoppingCallback

    class Stopping(EarlyStoppingCallback):
        learning = False

        def on_evaluate(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - theirs
            epoch, measured = args[1].epoch, kwargs["metrics"]
            self.learning |= measured[f"eval_{GIVEN}"] > 1
            if self.learning:
                super().on_evaluate(*args, **kwargs)  # type: ignore[no-untyped-call]
            note(f"{head.name}: epoch {epoch:.0f}, macro-F1 {measured[f'eval_{SCORE}']:.3f}")

    return Stopping(patience)


def _rows(encoder: Encoder, head: Head, frame: pl.DataFrame) -> tuple[list[dict[str, Any]], int]:
    """The tokenizer's fields with the class's number; how many texts were shortened."""
    encoded, shortened = encoder.encoded(frame.select("text", "context").rows())
    labels = [head.classes.index(label) for label in frame["label"]]
    rows = zip(encoded, labels, strict=True)
    return [{**fields, "labels": label} for fields, label in rows], shortened
