"""The examples for containers."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_containers_start_programs_without_a_shell():
    """PRC-09: a shell between would keep the stop signal for itself."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    compose = (ROOT / "docker-compose.yml").read_text()
    commands = [
        *re.findall(r"^(?:CMD|ENTRYPOINT) (.+)$", dockerfile, re.MULTILINE),
        *re.findall(r"^ *(?:command|entrypoint): (.+)$", compose, re.MULTILINE),
    ]

    assert len(commands) > 2
    for command in commands:
        program = json.loads(command)[0]
        assert program not in {"sh", "bash", "/bin/sh"}
