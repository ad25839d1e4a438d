"""Which claims keep their label in a semi-supervised run (paper, section 3.3).

The decision is a hash of the claim's text against the supervision rate s, independent of seed,
order, epoch and run. What is labelled at s = 0.1 is labelled at every larger s.
"""

import hashlib

_DIGITS = 16


def is_labelled(claim: str, share: float) -> bool:
    """Whether the claim belongs to the labelled share ``share`` = s, 0..1.

    Leading, trailing and repeated white space does not count.

    Raises:
        ValueError: the share is not between 0 and 1.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"the supervision rate is {share}; it must lie between 0 and 1")
    text = "supervision:" + " ".join(claim.split())
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return int(digest, 16) < share * 16.0**_DIGITS
