"""JSON text made readable without being parsed.

What the database gives may be cut in the middle, nested by the thousand, or have
numbers that Python changes or refuses; none of that matters to a look at its tokens.
"""

import re
from typing import Final

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{},:]|[^\[\]{},:"\s]+', re.DOTALL)
_INDENT: Final = "  "

# Deeper levels are shown at this one, so that the text stays in proportion.
_DEEPEST: Final = 12

_PAIRS: Final = {"[": "]", "{": "}"}
_CLOSING: Final = frozenset(_PAIRS.values())


def pretty(text: str) -> str:
    """Return JSON text with a line for each member, whole or cut."""
    parts: list[str] = []
    depth = 0
    before = ""
    for piece in _TOKEN.findall(text):
        if piece in _CLOSING:
            depth = max(0, depth - 1)
            if _PAIRS.get(before) != piece:
                parts.append(_line(depth))
        elif before in ("[", "{", ","):
            parts.append(_line(depth))
        parts.append(f"{piece} " if piece == ":" else piece)
        if piece in _PAIRS:
            depth += 1
        before = piece
    return "".join(parts)


def _line(depth: int) -> str:
    return "\n" + _INDENT * min(depth, _DEEPEST)
