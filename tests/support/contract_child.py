"""Plants breaches of the import contracts one by one and prints which contracts each breaks.

Runs in a copy of the tree (the working directory). Reads ``{seed: [path, text, part]}`` as JSON
from standard input and writes ``{seed: [names of broken contracts]}``, of those with ``part`` in
their name. One process serves all seeds: starting ``lint-imports`` anew for each costs seconds,
and only the planted file is parsed again.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from importlinter import configuration
from importlinter.application import use_cases


@contextmanager
def planted(path: Path, text: str) -> Iterator[None]:
    """``text`` at the end of a file, new or not, until the block ends."""
    before = path.read_text("utf-8") if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    path.write_text((before or "") + text, "utf-8")
    try:
        yield
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before, "utf-8")
        if not any(path.parent.iterdir()):
            path.parent.rmdir()


def broken_contracts(part: str) -> list[str]:
    """Names of the contracts that the tree breaks now, of those with ``part`` in their name."""
    options = use_cases.read_user_options()
    options.contracts_options = [one for one in options.contracts_options if part in one["name"]]
    # The same steps as lint-imports takes, which prints a report instead of returning it.
    use_cases._register_contract_types(options)
    report = use_cases.create_report(options, cache_dir=".graph_cache")
    checks = list(report.get_contracts_and_checks())
    assert not report.could_not_run, report.invalid_contract_options
    assert len(checks) == len(options.contracts_options)
    return [contract.name for contract, check in checks if not check.kept]


def main() -> None:
    """Answer the seeds of standard input."""
    sys.path.insert(0, str(Path.cwd()))
    configuration.configure()
    broken = {}
    for seed, (path, text, part) in json.load(sys.stdin).items():
        with planted(Path(path), text):
            broken[seed] = broken_contracts(part)
    Path("broken.json").write_text(json.dumps(broken), "utf-8")


if __name__ == "__main__":
    main()
