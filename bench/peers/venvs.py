"""A venv for each queue, kept for the next run under ``.venvs/peers``."""

import subprocess
from pathlib import Path
from typing import Final

from bench.peers.errors import PeerError
from bench.peers.known import Peer

_MADE_FROM: Final = ".made-from"
_PATIENCE: Final = 600  # seconds for each step


def made(peer: Peer, folder: Path, python: str) -> Path:
    """Make a queue's venv, if it is not there as wanted; return its programs' folder.

    Args:
        peer: The queue.
        folder: Of all venvs.
        python: The interpreter that venvs are made from.

    Raises:
        PeerError: It cannot be made.
    """
    venv = folder / (peer.package or peer.side)
    stamp, wanted = venv / _MADE_FROM, "\n".join((python, *peer.requirements))
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        _run([python, "-m", "venv", "--clear", str(venv)])
        pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _run([*pip, "--disable-pip-version-check", *peer.requirements])
        stamp.write_text(wanted, encoding="utf-8")
    return venv / "bin"


def _run(command: list[str]) -> str:
    try:
        return subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=_PATIENCE
        ).stdout
    except subprocess.CalledProcessError as error:
        raise PeerError(f"not installed: {_told(error.stderr)}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerError(f"not installed: {error}") from error


def _told(stderr: str) -> str:
    errors = [line for line in stderr.splitlines() if line.startswith("ERROR")]
    return (errors or stderr.splitlines() or ["no reason given"])[0]


def version(peer: Peer, programs: Path) -> str:
    """Return the version of the package that a venv has."""
    asked = "import sys; from importlib.metadata import version as v"
    told = "print(v(sys.argv[1]))"
    command = [str(programs / "python"), "-c", f"{asked}; {told}", peer.package]
    return _run(command).strip()
