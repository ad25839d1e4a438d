"""The ordered list of baselines, as in the paper's first table.

To add one: a file with a ``METHOD``, a prompt file of its name, and one line here;
``tests/decomposerl/baselines/test_laws.py`` then checks it against its formula of calls. The
templates that end a claim are named ``verdict`` (or, where the reply holds the whole method,
``single_call``) and ask for Supported or Refuted; a check that may end in neither label is a
template of its own.
"""

from decomposerl.baselines import (
    chen_2024,
    claimdecomp,
    cot,
    decomposed_prompting,
    few_shot,
    folk,
    hiss,
    minicheck,
    program_fc,
    qacheck,
    self_ask,
    simple,
)
from decomposerl.baselines.method import Method

METHODS: tuple[Method, ...] = (
    simple.METHOD,
    cot.METHOD,
    minicheck.METHOD,
    self_ask.METHOD,
    decomposed_prompting.METHOD,
    hiss.METHOD,
    folk.METHOD,
    program_fc.METHOD,
    chen_2024.METHOD,
    claimdecomp.METHOD,
    qacheck.METHOD,
)
ENTRY_METHODS: tuple[Method, ...] = (*METHODS, few_shot.METHOD)
"""What an entry of ``systems.toml`` may name, besides ``trace`` and ``verifier``."""
