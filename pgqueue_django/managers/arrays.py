"""Arrays of numbers and tokens as the server reads them."""

from collections.abc import Iterable


def array(elements: Iterable[object]) -> str:
    """Return an array literal; None is NULL. Not for text, which would need quotes."""
    return "{" + ",".join(["NULL" if e is None else str(e) for e in elements]) + "}"
