"""Which claims keep their label in a semi-supervised run (paper, section 3.3).

Takes a claim and the supervision rate s, says labelled or not. The share is that of a hash
of the claim's text, so the answer depends on nothing else: no seed, order, epoch or run,
and what is labelled at s = 0.1 is labelled at every larger s.

Left out deliberately: balancing by label, which would need the labels.
"""

import hashlib

_SALT = "supervision:"
_DIGITS = 16
_WHOLE = 2.0 ** (4 * _DIGITS)


def is_labelled(claim: str, share: float) -> bool:
    """Whether the claim belongs to the labelled share ``share`` = s, 0..1.

    White space at the ends and runs of it do not count.

    Raises:
        ValueError: the share is not between 0 and 1.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"the supervision rate is {share}; it must lie between 0 and 1")
    text = _SALT + " ".join(claim.split())
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return int(digest, 16) < share * _WHOLE
