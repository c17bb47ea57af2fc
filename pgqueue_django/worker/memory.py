"""How much memory this process holds."""

import os
import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MEGABYTE = 1024 * 1024


def resident_megabytes() -> float:
    """Return the resident memory; where the system does not tell, its peak."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # Kilobytes, but on macOS bytes.
        return peak / (_MEGABYTE if sys.platform == "darwin" else 1024)
    return pages * _PAGE / _MEGABYTE
