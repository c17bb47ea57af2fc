"""What the page of guarantees names as proof exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/guarantees.md").read_text()
PROMISES = PAGE.split("\n## ")[1:]


@pytest.mark.parametrize(
    ("file", "test"), sorted(set(re.findall(r"`(tests/[\w/.]+)::(test_\w+)`", PAGE)))
)
def test_each_named_test_exists(file, test):
    tree = ast.parse((ROOT / file).read_text())

    assert test in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}


@pytest.mark.parametrize("program", sorted(set(re.findall(r"`bench\.(\w+)`", PAGE))))
def test_each_named_program_exists(program):
    text = (ROOT / f"bench/{program}.py").read_text()

    assert f'"bench.{program}:run"' in text


@pytest.mark.parametrize("promise", PROMISES, ids=lambda p: p.partition("\n")[0])
def test_each_promise_has_a_limit_and_a_proof(promise):
    assert "**Limit" in promise
    assert re.search(r"^Proof: ", promise, re.MULTILINE)


@pytest.mark.parametrize("page", ["operations.md", "architecture.md"])
def test_the_page_is_found_from(page):
    assert "(guarantees.md)" in (ROOT / "docs" / page).read_text()
