"""The ordered list of baselines, as in the paper's first table.

To add one: a method in a file, a prompt file of its name, and one line here;
``tests/decomposerl/baselines/test_laws.py`` then checks it against its formula of calls. The
templates that end a claim are named ``verdict`` (or, where the reply holds the whole method,
``single_call``) and ask for Supported or Refuted; a check that may end in neither label is a
template of its own.
"""

from decomposerl.baselines import (
    chen_2024,
    claimdecomp,
    decomposed_prompting,
    direct,
    folk,
    hiss,
    minicheck,
    program_fc,
    qacheck,
    self_ask,
)
from decomposerl.baselines.method import Method

METHODS: tuple[Method, ...] = (
    direct.SIMPLE,
    direct.COT,
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
SYSTEM_METHODS: tuple[Method, ...] = (*METHODS, direct.SIMPLE_EXAMPLES, direct.COT_EXAMPLES)
"""Those of the systems that need no file; the last two are rows of our own."""
ENTRY_METHODS: tuple[Method, ...] = (*SYSTEM_METHODS, direct.FEW_SHOT)
"""What an entry of ``systems.toml`` may name, besides ``trace`` and ``verifier``."""
