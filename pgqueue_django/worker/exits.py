"""Exit codes of workers, and the way out."""

import logging
import os
import sys
from typing import Final, NoReturn

OK: Final = 0
"""A clean end: what ran is recorded, what had not started went back."""

FORCED: Final = 1
"""Running jobs had to be released, at the shutdown timeout or at a second signal."""

BROKEN: Final = 3
"""A part could not go on."""

STUCK: Final = 4
"""A handler could not be ended at its timeout; what else ran came to its end. To be
followed by another worker at once."""


def leave(code: int) -> NoReturn:
    """End the process now, whatever its threads are doing."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
