"""The calibrations of systems as files of the data folder."""

from pathlib import Path

from pydantic import ValidationError

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.calibration import Calibration
from decomposerl.schemas import CALIBRATIONS
from resources.store.temporary import replace_file


def calibration_path(data: Path, system: str) -> Path:
    """The file of a system's calibration, next to its table."""
    return data / CALIBRATIONS.name / f"{system}.json"


def write_calibration(data: Path, system: str, calibration: Calibration) -> Path:
    """Write it for the system's next predictions; returns its path."""
    path, text = calibration_path(data, system), calibration.model_dump_json(indent=2)
    replace_file(path, lambda aside: aside.write_text(text, "utf-8"))
    return path


def usable_calibration(
    data: Path, system: str, *, model: str, prompt_hash: str
) -> Calibration | None:
    """The system's calibration, None where there is none.

    Raises:
        EvaluationError: it is damaged, or was fitted to another model or prompt; says what to do.
    """
    path = calibration_path(data, system)
    if not path.is_file():
        return None
    remedy = (
        "dagster asset materialize -m dagster_project.definitions --select "
        f"'key:\"{CALIBRATIONS.name}\"' --partition {system}, "
        f"or remove {path.name} to predict without one"
    )
    try:
        calibration = Calibration.model_validate_json(path.read_text("utf-8"))
        calibration.refuse_others(model=model, prompt_hash=prompt_hash)
    except (ValidationError, UnicodeDecodeError) as error:
        raise EvaluationError(f"{path} is not a calibration; {remedy}") from error
    except EvaluationError as error:
        raise EvaluationError(f"{path}: {error}; {remedy}") from error
    return calibration
