"""What is kept of an exception that ended an attempt."""

import json
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from pgqueue_django import limits
from pgqueue_django.texts import clean_text

__all__ = ["Failure", "clean_text"]

# Bounds on what a traceback shows. They bound the time and memory of formatting; its
# size is bounded by limits.ERROR_TRACEBACK_BYTES, of which a frame takes some 200.
_EXCEPTIONS: Final = 30
_LINKS: Final = 10
_FRAMES: Final = 30
_NOTES: Final = 5
_MEMBERS: Final = 4
_MEMBER_BYTES: Final = 1024
_GROUP_DEPTH: Final = 3

_HEAD: Final = "Traceback (most recent call last):\n"
_CAUSE: Final = (
    "\nThe above exception was the direct cause of the following exception:\n\n"
)
_CONTEXT: Final = (
    "\nDuring handling of the above exception, another exception occurred:\n\n"
)
_LEFT_OUT: Final = "…\n"


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception as text that can always be stored, whoever makes it.

    Args:
        exception: The path of its class, ``module.Qualname``. Cut to
            ``limits.ERROR_CLASS_BYTES``.
        message: Its text. Cut to ``limits.ERROR_MESSAGE_BYTES``.
        traceback: Its formatted traceback. Of a longer one, the last
            ``limits.ERROR_TRACEBACK_BYTES`` stay: the innermost frames and the
            exception's own line.
    """

    exception: str
    message: str
    traceback: str

    def __post_init__(self) -> None:
        exception = clean_text(self.exception, limits.ERROR_CLASS_BYTES)
        message = clean_text(self.message, limits.ERROR_MESSAGE_BYTES)
        frames = clean_text(self.traceback, limits.ERROR_TRACEBACK_BYTES, keep="end")
        object.__setattr__(self, "exception", exception)
        object.__setattr__(self, "message", message)
        object.__setattr__(self, "traceback", frames)

    @classmethod
    def of(cls, exc: BaseException) -> "Failure":
        """Describe an exception, in the process and thread that caught it.

        This never raises, whatever the exception's own methods do: what cannot be had
        is replaced by words that say so. It swallows even a KeyboardInterrupt that
        arrives meanwhile, so that the failure is not lost.

        Args:
            exc: Any exception, with its causes, notes and group members.

        Returns:
            The failure, bounded in size. Long chains, deep tracebacks and large
            groups are shown in part, the newest first.
        """
        try:
            return cls(_class_path(exc), _message(exc), _traceback(exc))
        except BaseException:  # noqa: BLE001 - saving a failure cannot fail
            return _LAST_RESORT

    def as_json(self) -> str:
        """Return a JSON object with the three fields, storable as jsonb."""
        entry = {
            "exception": self.exception,
            "message": self.message,
            "traceback": self.traceback,
        }
        return json.dumps(entry, ensure_ascii=False)


# Made beforehand: at the end of memory or of the stack, nothing can be made.
_LAST_RESORT: Final = Failure("<unknown>", "<unprintable exception>", "")


def _guarded(make: Callable[[], str], otherwise: str) -> str:
    try:
        return make()
    except BaseException:  # noqa: BLE001 - user code, down to SystemExit in __str__
        return otherwise


def _name(exc: BaseException) -> str:
    return str.__str__(_class_attribute(exc, "__qualname__"))


def _class_path(exc: BaseException) -> str:
    module = _class_attribute(exc, "__module__")
    return (
        f"{str.__str__(module)}.{_name(exc)}" if isinstance(module, str) else _name(exc)
    )


def _class_attribute(exc: BaseException, name: str) -> Any:
    # A metaclass can answer otherwise, or not at all.
    return type.__dict__[name].__get__(type(exc))


def _message(exc: BaseException) -> str:
    text = _guarded(lambda: str.__str__(str(exc)), f"<unprintable {_name(exc)}>")
    return clean_text(text, limits.ERROR_MESSAGE_BYTES)


def _traceback(exc: BaseException) -> str:
    return _guarded(lambda: _Formatter().chain(exc), "<unprintable traceback>")


class _Formatter:
    """Formats as the standard library does, within the bounds above.

    The library's own formatter copies every message of a chain in full, and walks
    chains of any length.
    """

    def __init__(self) -> None:
        self._left = _EXCEPTIONS

    def chain(self, exc: BaseException, depth: int = 0) -> str:
        """Format an exception after those that led to it, oldest first."""
        blocks: list[str] = []
        room = limits.ERROR_TRACEBACK_BYTES
        for link, joint in islice(_links(exc), _LINKS + 1):
            blocks.append(joint)
            if len(blocks) > 2 * _LINKS or room < 0 or not self._left:
                blocks.append(_LEFT_OUT)
                break
            blocks.append(self._block(link, depth))
            room -= len(blocks[-1])
        return "".join(reversed(blocks))

    def _block(self, exc: BaseException, depth: int) -> str:
        self._left -= 1
        frames = _guarded(lambda: _frames(exc), f"{_HEAD}  <unprintable frames>\n")
        notes = _guarded(lambda: _notes(exc), "")
        members = _guarded(lambda: self._members(exc, depth), "")
        return f"{frames}{_last_line(exc)}{notes}{members}"

    def _members(self, exc: BaseException, depth: int) -> str:
        if not isinstance(exc, BaseExceptionGroup):
            return ""
        count = len(exc.exceptions)
        shown = exc.exceptions[:_MEMBERS] if depth < _GROUP_DEPTH else ()
        texts = [
            self._member(member, f"{number} of {count}", depth)
            for number, member in enumerate(shown, start=1)
        ]
        return "".join(texts) + ("  …\n" if len(shown) < count else "")

    def _member(self, member: BaseException, title: str, depth: int) -> str:
        body = clean_text(self.chain(member, depth + 1), _MEMBER_BYTES, keep="end")
        lines = "".join(f"  | {line}\n" for line in body.splitlines())
        return f"  +-- {title} --\n{lines}"


def _links(exc: BaseException) -> Iterator[tuple[BaseException, str]]:
    """Yield an exception and what led to it, newest first, each with its joint."""
    seen: set[int] = set()
    link: BaseException | None = exc
    joint = ""
    while link is not None and id(link) not in seen:
        yield link, joint
        seen.add(id(link))
        cause, context = link.__cause__, link.__context__
        hidden = link.__suppress_context__
        joint = _CAUSE if cause is not None else _CONTEXT
        link = cause if cause is not None or hidden else context


def _frames(exc: BaseException) -> str:
    if exc.__traceback__ is None:
        return ""
    frames = traceback.extract_tb(exc.__traceback__, limit=-_FRAMES - 1)
    lines = traceback.format_list(frames[-_FRAMES:])
    more = f"  {_LEFT_OUT}" if len(frames) > _FRAMES else ""
    return f"{_HEAD}{more}{''.join(lines)}"


def _last_line(exc: BaseException) -> str:
    name = clean_text(_class_path(exc), limits.ERROR_CLASS_BYTES)
    message = _message(exc)
    shown = name.removeprefix("builtins.")
    return f"{shown}: {message}\n" if message else f"{shown}\n"


def _notes(exc: BaseException) -> str:
    notes = getattr(exc, "__notes__", ())
    texts = [
        clean_text(note, limits.ERROR_MESSAGE_BYTES)
        for note in notes[:_NOTES]
        if isinstance(note, str)
    ]
    return "".join(f"{text}\n" for text in texts)
