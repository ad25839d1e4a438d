"""The tiny policy that the tests of this folder train, made once."""

from pathlib import Path

import pytest

from training_parts import tiny_policy


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder, which no test changes."""
    return tiny_policy(tmp_path_factory.mktemp("base"))
