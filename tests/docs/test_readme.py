"""What the README names exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def promised() -> list[tuple[str, str]]:
    """Return the (file, test) of each promise; "::name" goes on in the same file."""
    found, file = [], ""
    for named, test in re.findall(r"`([\w/.]*)::(test_\w+)`", README):
        file = named or file
        found.append((file, test))
    return found


@pytest.mark.parametrize(("file", "test"), promised())
def test_each_promise_has_its_test(file, test):
    tree = ast.parse((ROOT / file).read_text())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}

    assert test in names


def test_there_are_promises():
    assert len(promised()) > 15


def test_each_link_leads_somewhere():
    links = re.findall(r"\]\(([^)#:]+)\)", README)

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_each_setting_is_described():
    from pgqueue_django.conf import KEYS

    assert [key for key in KEYS if f"`{key}`" not in README] == []
