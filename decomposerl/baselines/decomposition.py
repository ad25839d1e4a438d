"""What a decomposer wrote: the distinct items of its list.

Takes an answer, gives the items in order. An item that differs from an earlier one in letter
case or white space alone is that item again; beyond ``MOST_ITEMS`` a model repeats itself.

Left out deliberately: what an item says.
"""

from decomposerl.baselines.method import ModelReply
from decomposerl.baselines.pairs import one_line
from decomposerl.baselines.replies import read_list, whole_text

MOST_ITEMS = 20


def read_items(answer: ModelReply) -> tuple[str, ...]:
    """At most ``MOST_ITEMS`` distinct items; none where the reply holds no list."""
    first: dict[str, str] = {}
    for item in map(one_line, read_list(whole_text(answer)) or ()):
        first.setdefault(item.casefold(), item)
    return tuple(first.values())[:MOST_ITEMS]
