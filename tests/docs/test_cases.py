"""The tests that tests/README.md names exist."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| ([A-Z]{3}-\d\d) \| .+ \| (.+) \|$", re.MULTILINE)
CASES = ROW.findall((TESTS / "README.md").read_text())


@pytest.mark.parametrize(("case", "named"), CASES, ids=[case for case, _ in CASES])
def test_each_case_has_its_tests(case, named):
    file = ""
    tests = re.findall(r"`([\w/.]*)::(test_\w+)`", named)
    for given, test in tests:
        file = given or file
        assert test in _functions(file)

    assert len(tests) == named.count("::")
    assert tests


def _functions(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_case_is_told_once():
    names = [case for case, _ in CASES]

    assert len(names) == len(set(names)) > 30


def test_each_folder_is_told():
    text = (TESTS / "README.md").read_text()
    folders = {path.parent.name for path in TESTS.glob("*/__init__.py")}

    assert {folder for folder in folders if f"`{folder}/`" not in text} == set()
