"""``--handler``: which task the jobs of a bench run, with which arguments."""

import json
import re
from dataclasses import dataclass
from typing import Final

TIMED: Final = {
    "sleep": "pgqueue_bench.sleep",
    "cpu": "pgqueue_bench.cpu",
    "async-sleep": "pgqueue_bench.async_sleep",
}
PLAIN: Final = {"noop": "pgqueue_bench.noop", "orm": "pgqueue_bench.orm"}

_MS_MAX = 60_000
_TIMED = re.compile(r"([a-z-]+):(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Handler:
    """A task of the bench, and its keyword arguments as JSON text."""

    task: str
    kwargs: str = "{}"

    @classmethod
    def parse(cls, text: str) -> "Handler":
        """Read ``noop``, ``orm``, ``sleep:MS``, ``cpu:MS`` or ``async-sleep:MS``.

        Raises:
            ValueError: It is none of them.
        """
        if text in PLAIN:
            return cls(PLAIN[text])
        matched = _TIMED.fullmatch(text)
        if matched and matched[1] in TIMED and float(matched[2]) <= _MS_MAX:
            return cls(TIMED[matched[1]], json.dumps({"ms": float(matched[2])}))
        timed = ", ".join(f"{name}:MS" for name in TIMED)
        raise ValueError(
            f"must be {', '.join(PLAIN)}, {timed} (MS: milliseconds, up to "
            f"{_MS_MAX:,}), not {text!r}"
        )
