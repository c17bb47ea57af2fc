"""How waits and run times are sorted into buckets, the same everywhere."""

from typing import Final, LiteralString

# Upper bounds in seconds, for statements. From what a no-op takes to what a batch job
# of an hour does. Each count is stored with its own bound, so that new bounds spoil no
# old counts.
BOUNDS_TEXT: Final[LiteralString] = (
    "0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, "
    "1, 2.5, 5, 10, 30, 60, 300, 900, 3600"
)

BOUNDS: Final = tuple(map(float, BOUNDS_TEXT.split(", ")))
