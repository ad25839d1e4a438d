"""Names for values of libraries that are imported only where a run needs them."""

from typing import Any, TypeAlias

Tokenizer: TypeAlias = Any
"""A tokenizer of transformers."""
Model: TypeAlias = Any
"""A causal language model of transformers, with or without an adapter."""
Trainer: TypeAlias = Any
"""A ``PolicyTrainer``."""
TrainerState: TypeAlias = Any
"""transformers' ``TrainerState``: steps done, steps to do, logs."""
TrainerControl: TypeAlias = Any
"""transformers' ``TrainerControl``: what a callback asks for."""
Accelerator: TypeAlias = Any
"""accelerate's ``Accelerator`` or ``PartialState``."""
Dataset: TypeAlias = Any
"""A ``datasets.Dataset``."""
Whatever: TypeAlias = Any
"""What is passed on unread."""
