"""What ``results/`` holds."""

import json
from pathlib import Path
from typing import Any

from bench.benchmark import RESULTS

Report = dict[str, Any]

# The claim modes, as the reports name them. Here, where nothing needs Django.
SKIP_LOCKED, FOR_UPDATE = "skip-locked", "for-update"
MODES = (SKIP_LOCKED, FOR_UPDATE)


def load(folder: Path = RESULTS) -> dict[str, Report]:
    """Return the reports by name; none for what has not been measured."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.json"))
    }


def median(report: Report, name: str, part: str = "measured") -> float:
    return float(report[part][name]["median"])


def values(report: Report, name: str, part: str = "measured") -> list[float]:
    return [float(value) for value in report[part][name]["values"]]
