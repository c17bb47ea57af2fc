"""The examples of the pages for those who come from other queues."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pgqueue_django.models import Job
from pgqueue_django.registry import registry

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(path.stem for path in DOCS.glob("from-*.md"))


def blocks(page: str) -> list[str]:
    """Return the Python examples that begin at the margin, in order."""
    text = (DOCS / f"{page}.md").read_text()
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_the_tasks_of_a_page_are_declared_and_its_calls_become_jobs(page, monkeypatch):
    module = ModuleType("migrated_" + page.replace("-", "_"))
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    monkeypatch.setitem(sys.modules, module.__name__, module)

    for block in blocks(page):
        exec(compile(block, page, "exec"), module.__dict__)

    calls = [block for block in blocks(page) if not block.startswith("# shop/")]
    assert Job.objects.count() == "\n".join(calls).count("enqueue(") > 0
