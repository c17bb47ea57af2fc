"""How long a worker leaves a hint to others."""

from random import uniform
from typing import Final

# Each hint that others answer first doubles the time (seconds), within these bounds.
_LEAST: Final = 0.001
_MOST: Final = 0.01


class Patience:
    """Grows while others are faster, so that a hint does not wake all to one job."""

    def __init__(self) -> None:
        self._longest = 0.0

    def won(self) -> None:
        """Note that there was something to do."""
        self._longest = 0.0

    def lost(self) -> None:
        """Note that others had answered a hint before."""
        self._longest = min(_MOST, max(_LEAST, 2 * self._longest))

    def wait(self) -> float:
        """Return how long to leave a new hint alone (seconds), at random."""
        return uniform(0.0, self._longest)
