"""Cases of tests that are data: JSON Lines beside the test that reads them."""

import json
from pathlib import Path
from typing import Any


def cases_beside(test: str, name: str) -> list[dict[str, Any]]:
    """The rows of ``name.jsonl`` in the folder of a test file."""
    text = Path(test).with_name(f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def value_beside(test: str, name: str) -> Any:  # noqa: ANN401 - JSON
    """The value in ``name.json`` in the folder of a test file."""
    return json.loads(Path(test).with_name(f"{name}.json").read_text("utf-8"))
