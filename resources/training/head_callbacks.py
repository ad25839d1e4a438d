"""What the trainer of a head calls after every epoch: its score, early stopping, notes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from decomposerl.evaluation.agreement import macro_f1
from decomposerl.judge.heads import Head

Note = Callable[[str], None]
SCORE, GIVEN = "macro_f1", "classes_given"


def scoring(head: Head) -> Callable[[Any], dict[str, float]]:
    """What the trainer measures of dev: ``SCORE``, and ``GIVEN``, the classes that are given."""
    classes = len(head.classes)

    def scored(predicted: Any) -> dict[str, float]:  # noqa: ANN401 - transformers' EvalPrediction
        given = np.asarray(predicted.predictions)[:, :classes].argmax(axis=1)
        cells = np.asarray(predicted.label_ids) * classes + given
        table = np.bincount(cells, minlength=classes * classes).reshape(classes, classes)
        return {SCORE: float(macro_f1(table)), GIVEN: float(table.any(axis=0).sum())}

    return scored


def stopping(patience: int) -> Any:  # noqa: ANN401 - transformers', loaded lazily
    """Early stopping that counts from the first epoch whose head gives more than one class.

    An adapter starts at nothing, so that a hard head may be constant for some epochs.
    """
    from transformers import EarlyStoppingCallback

    class Stopping(EarlyStoppingCallback):
        learning = False

        def on_evaluate(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - theirs
            self.learning |= kwargs["metrics"][f"eval_{GIVEN}"] > 1
            if self.learning:
                super().on_evaluate(*args, **kwargs)  # type: ignore[no-untyped-call]

    return Stopping(patience)


def noting(head: Head, note: Note) -> Any:  # noqa: ANN401 - transformers', loaded lazily
    """A callback that notes the macro-F1 of every epoch."""
    from transformers import TrainerCallback

    class Noting(TrainerCallback):
        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ANN401, ARG002 - theirs
            score = kwargs["metrics"][f"eval_{SCORE}"]
            note(f"{head.name}: epoch {state.epoch:.0f}, macro-F1 {score:.3f}")

    return Noting()
