"""All errors that this project raises.

A bad row is no exception: it is quarantined as a ``Reject`` or dropped with a reason. Only a
condition that a person must act on is raised.

::

    DecomposeRLError
    ├── ConfigError            a setting or an environment variable is wrong
    ├── SourceError            a corpus cannot be used
    │   ├── SourceFileError    a file is unreadable as a whole
    │   └── TooManyRejects     more rows were quarantined than the set share allows
    ├── SchemaError            a frame does not have the columns of its table
    ├── ConservationError      a stage lost or duplicated a row
    ├── RewardError            a reward lacks a verdict, and the settings allow none to be missing
    ├── TrainingError          a run's folder, claims or batches are not what training needs
    ├── EvaluationError        predictions, labels or a calibration do not fit together
    └── EngineError            an engine behind a port failed
        └── EngineMissing      its package or model is not installed
"""


class DecomposeRLError(Exception):
    """Base of all errors below; the command line prints its message without a traceback."""


class ConfigError(DecomposeRLError):
    """A setting or an environment variable is wrong."""


class SourceError(DecomposeRLError):
    """A corpus cannot be used."""


class SourceFileError(SourceError):
    """A native file is unreadable as a whole (for example a Parquet file cut in half)."""


class TooManyRejects(SourceError):  # noqa: N818 - the name is the sentence a user reads
    """More rows of one source were quarantined than ``max_reject_share`` allows.

    ``rejects`` are those rows (``schemas.REJECTS``), so that they can be kept.
    """

    def __init__(self, message: str, rejects: object = None) -> None:
        super().__init__(message)
        self.rejects = rejects


class SchemaError(DecomposeRLError):
    """A frame does not have the columns, types or unique keys of its table."""


class ConservationError(DecomposeRLError):
    """A stage lost a row or counted it twice."""


class RewardError(DecomposeRLError):
    """A reward lacks a verdict, and the settings allow none to be missing."""


class TrainingError(DecomposeRLError):
    """A training run's folder, claims or batches are not what training needs."""


class EvaluationError(DecomposeRLError):
    """Predictions, labels or a calibration do not fit together."""


class EngineError(DecomposeRLError):
    """An engine behind a port failed."""


class EngineMissing(EngineError):  # noqa: N818 - the name is the sentence a user reads
    """An engine's package or model is not installed; the message has the command."""
