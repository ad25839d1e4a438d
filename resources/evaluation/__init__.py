"""Running systems on test sets: callers, the runner, predictions, and files of the evaluation."""
