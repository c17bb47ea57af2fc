"""The command line's options: how each is read, and what is wrong with it."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final

from pgqueue_django.bench.handlers import Handler


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and low <= int(text) <= high:
            return int(text)
        raise ArgumentTypeError(
            f"must be a whole number from {low:,} to {high:,}, not {text!r}"
        )

    return read


def _number(low: float, high: float, unit: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if isfinite(value) and low <= value <= high:
            return value
        raise ArgumentTypeError(
            f"must be {unit} from {low:g} to {high:g}, not {text!r}"
        )

    return read


def _choice(*names: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text in names:
            return text
        raise ArgumentTypeError(f"must be {' or '.join(names)}, not {text!r}")

    return read


def _handler(text: str) -> str:
    try:
        Handler.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
    return text


@dataclass(frozen=True, slots=True)
class _Flag:
    read: Callable[[str], Any]
    help: str
    metavar: str = "N"


_FLAGS: Final[Mapping[str, _Flag]] = {
    "jobs": _Flag(_whole(4, 100_000_000), "Jobs in each repeat."),
    "many": _Flag(_whole(4, 10_000_000), "Jobs in each enqueue_many."),
    "rows": _Flag(_whole(1, 100_000_000), "Old jobs of each of three kinds."),
    "processes": _Flag(_whole(1, 256), "Worker processes."),
    "threads": _Flag(_whole(1, 1_000), "Handlers at the same time, in each process."),
    "batch": _Flag(_whole(1, 10_000), "Jobs recorded, and claimed by floors, at once."),
    "rate": _Flag(_number(0.1, 100_000, "jobs/s"), "Jobs enqueued in a second.", "R"),
    "seconds": _Flag(_number(1, 604_800, "seconds"), "Length of a measurement.", "S"),
    "repeats": _Flag(_whole(1, 1_000), "How often; the median is told."),
    "claim": _Flag(
        _choice("skip-locked", "for-update"), "How claims treat locked rows.", "MODE"
    ),
    "handler": _Flag(
        _handler, "noop, orm, sleep:MS, cpu:MS or async-sleep:MS.", "HANDLER"
    ),
    "durability": _Flag(
        _choice("batched", "per_job"), "Whether outcomes share commits.", "HOW"
    ),
    "scale": _Flag(
        _number(0.001, 1_000, "a factor"), "Multiplies the small sizes.", "FACTOR"
    ),
}


def add_options(parser: ArgumentParser, defaults: Mapping[str, Any]) -> None:
    """Declare a bench's options.

    Args:
        parser: Of the bench.
        defaults: The options' names, and their defaults.
    """
    for name, default in defaults.items():
        flag = _FLAGS[name]
        parser.add_argument(
            f"--{name}",
            type=flag.read,
            default=default,
            metavar=flag.metavar,
            help=f"{flag.help} Default: {default}.",
        )


def add_outputs(parser: ArgumentParser) -> None:
    """Declare where a report goes, and what it is held against."""
    parser.add_argument(
        "--json", action="store_true", help="Print one JSON object and nothing else."
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="Store the report as a baseline."
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="Compare with a stored report; exit with 1 when anything is worse.",
    )
    parser.add_argument(
        "--database", help="Alias of the database whose server is used."
    )
