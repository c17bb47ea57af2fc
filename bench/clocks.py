"""Shift the clock of Python processes: what a machine with a wrong clock looks like.

``shifted(seconds)`` puts this file's folder of one ``sitecustomize`` before everything
that children import, so that ``time.time()``, ``time.time_ns()`` and the ``now`` of
``datetime`` are off in them from their first line on. Clocks of spans
(``time.monotonic()``) stay, as they do where a machine's wall clock is wrong; so does
the server's.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VARIABLE: Final = "BENCH_CLOCK_SHIFT"

# Instances of the real class stay instances of the shifted one, and drivers that know
# the class by its name know it still.
_SITECUSTOMIZE: Final = f"""
import datetime, os, time

shift = float(os.environ["{VARIABLE}"])
real, real_time, real_time_ns = datetime.datetime, time.time, time.time_ns


class Meta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, real)

    def __subclasscheck__(cls, subclass):
        return issubclass(subclass, real)


class Shifted(real, metaclass=Meta):
    __slots__ = ()

    @classmethod
    def now(cls, tz=None):
        return real.now(tz) + datetime.timedelta(seconds=shift)

    @classmethod
    def utcnow(cls):
        return real.utcnow() + datetime.timedelta(seconds=shift)

    @classmethod
    def today(cls):
        return real.today() + datetime.timedelta(seconds=shift)


Shifted.__module__ = Shifted.__name__ = Shifted.__qualname__ = "datetime"
datetime.datetime = Shifted
time.time = lambda: real_time() + shift
time.time_ns = lambda: real_time_ns() + int(shift * 1e9)
"""


@contextmanager
def shifted(seconds: float) -> Iterator[None]:
    """Shift the clocks of the Python processes that are started in the block.

    Args:
        seconds: Forward; 0 shifts nothing.
    """
    if not seconds:
        yield
        return
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", VARIABLE)}
    with tempfile.TemporaryDirectory(prefix="pgqueue-clock-") as folder:
        Path(folder, "sitecustomize.py").write_text(_SITECUSTOMIZE, encoding="ascii")
        path = [folder, *filter(None, [before["PYTHONPATH"]])]
        os.environ["PYTHONPATH"] = os.pathsep.join(path)
        os.environ[VARIABLE] = str(seconds)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
