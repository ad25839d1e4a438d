"""Environments of commands."""


def variables(**values: object) -> dict[str, str]:
    """The project's variables of these names."""
    return {f"DECOMPOSERL_{name}": str(value) for name, value in values.items()}
