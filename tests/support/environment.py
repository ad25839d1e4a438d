"""Environments of commands, and what they print."""


def variables(**values: object) -> dict[str, str]:
    """The project's variables of these names."""
    return {f"DECOMPOSERL_{name}": str(value) for name, value in values.items()}


def lacking(text: str, *words: str) -> list[str]:
    """The words that a text does not have."""
    return [word for word in words if word not in text]
