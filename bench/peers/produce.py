"""Be the producer of a queue, in that queue's venv: ``python -m bench.peers.produce``.

A side is a module with ``set_up()``, ``fill(name, count)`` and ``enqueue(number)``.
"""

import json
import sys
from importlib import import_module
from threading import Event
from time import monotonic
from types import ModuleType

# Enqueued before the first that counts: connections are open, modules are loaded.
_WARM_UP = 5


def main() -> None:
    module, command, *given = sys.argv[1:]
    side = import_module(f"bench.peers.sides.{module}")
    if command == "set_up":
        side.set_up()
    elif command == "fill":
        side.fill(given[0], int(given[1]))
    else:
        _pace(side, float(given[0]), int(given[1]))


def _pace(side: ModuleType, rate: float, count: int) -> None:
    """Enqueue at a steady rate; print when each call began and had committed."""
    for n in range(_WARM_UP):
        side.enqueue(-1 - n)
    sent, waiting = [], Event()
    start = monotonic() + 1 / rate
    for n in range(count):
        if (wait := start + n / rate - monotonic()) > 0:
            waiting.wait(wait)
        begun = monotonic()
        side.enqueue(n)
        sent.append((begun, monotonic()))
    print(json.dumps(sent))


if __name__ == "__main__":
    main()
