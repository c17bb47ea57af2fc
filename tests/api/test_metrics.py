"""``GET /metrics``, as Prometheus reads it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_open,
)
from prometheus_client.parser import text_string_to_metric_families as parse

from pgqueue_django.api.views import QueueView
from pgqueue_django.conf import read
from pgqueue_django.contrib import prometheus
from pgqueue_django.db.views import one_view
from pgqueue_django.exceptions import InvalidSettings
from pgqueue_django.managers.live import live
from pgqueue_django.models import Job
from pgqueue_django.sql import live as sql
from pgqueue_django.stats import figures
from pgqueue_django.stats.figures import Figures, LatestFigures, latest_figures
from tests import factories
from tests.plans import Plan
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "0123456789-scraper-token"

Labels = frozenset[tuple[str, str]]


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    latest_figures.forget()
    yield
    latest_figures.forget()


@pytest.fixture
def scraper(settings: Any) -> Client:
    settings.PGQUEUE = {"METRICS_TOKEN": TOKEN}
    return Client(headers={"authorization": f"Bearer {TOKEN}"})


def samples(text: str) -> dict[tuple[str, Labels], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse(text)
        for sample in family.samples
    }


class Scrape:
    """The samples of one scrape, and of the next one after ``again()``."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.samples: dict[tuple[str, Labels], float] = {}

    def __call__(self, name: str, **labels: str) -> Any:
        """Return a sample's value, None when there is none."""
        if not self.samples:
            self.again()
        return self.samples.get((name, frozenset(labels.items())))

    def again(self) -> None:
        latest_figures.forget()
        response = self.client.get("/api/metrics")
        assert response.status_code == 200, response.content
        self.samples = samples(response.content.decode())

    def counters(self) -> dict[Any, float]:
        ends = ("_total", "_bucket", "_count", "_sum")
        return {k: value for k, value in self.samples.items() if k[0].endswith(ends)}


@pytest.fixture
def scrape(scraper: Client) -> Scrape:
    return Scrape(scraper)


# --- figures --------------------------------------------------------------------------


def test_an_empty_queue_is_up(scrape):
    assert scrape("pgqueue_up") == 1


def test_live_jobs_are_gauges_by_queue_and_state(scrape):
    factories.queued_many(3, queue="a")
    factories.queued(queue="a", delay=60)
    factories.claimed(queue="b")
    factories.unserved(queue="c")
    factories.succeeded(queue="d")

    def jobs(queue: str) -> list[float | None]:
        states = ("scheduled", "queued", "unserved", "running")
        return [scrape("pgqueue_jobs", queue=queue, state=state) for state in states]

    assert jobs("a") == [1, 3, 0, 0]
    assert jobs("b") == [0, 0, 0, 1]
    assert jobs("c") == [0, 0, 1, 0]
    assert jobs("d") == [0, 0, 0, 0]
    assert scrape("pgqueue_jobs", queue="d", state="succeeded") is None


def test_running_jobs_are_told_apart_by_their_leases(scrape):
    """MET-07."""
    held, lost = factories.claimed(), factories.claimed()
    assert scrape("pgqueue_running_jobs", queue="default", lease="valid") == 2
    assert scrape("pgqueue_running_jobs", queue="default", lease="expired") == 0

    factories.expire(lost)
    scrape.again()

    assert scrape("pgqueue_running_jobs", queue="default", lease="valid") == 1
    assert scrape("pgqueue_running_jobs", queue="default", lease="expired") == 1
    assert held != lost


def test_the_oldest_due_job_has_an_age(scrape):
    factories.tick(factories.queued(queue="a").id, run_at=-50)
    factories.queued(queue="a")
    late = factories.queued(queue="b", delay=60)
    factories.tick(late.id, run_at=-20)
    factories.queued(queue="c", delay=60)

    def age(queue: str) -> Any:
        return scrape("pgqueue_oldest_due_job_age_seconds", queue=queue)

    assert 50 <= age("a") < 55
    assert 20 <= age("b") < 25
    assert age("c") == 0


def test_totals_are_exact(scrape):
    for _ in range(3):
        factories.succeeded(task="t")
    factories.dead(task="t")
    Job.objects.retry(factories.claimed("t"), factories.FAILURE, 60)
    factories.cancelled(task="t")
    gone = factories.claimed("t", max_attempts=1)
    factories.expire(gone, factories.claimed("t"))
    Job.objects.reap()
    Job.objects.requeue(gone.id)

    task = {"queue": "default", "task": "t"}
    assert {
        name: scrape(f"pgqueue_{name}_total", **task)
        for name in (
            "jobs_started", "jobs_completed", "job_failures", "jobs_dead",
            "jobs_cancelled", "jobs_requeued", "leases_expired",
        )
    } == {
        "jobs_started": 7, "jobs_completed": 3, "job_failures": 2, "jobs_dead": 2,
        "jobs_cancelled": 1, "jobs_requeued": 1, "leases_expired": 2,
    }  # fmt: skip


def test_a_task_that_never_failed_says_so(scrape):
    factories.succeeded(task="t")

    assert scrape("pgqueue_job_failures_total", queue="default", task="t") == 0


def test_times_are_histograms(scrape):
    for wait, run in ((0.004, 20), (7, 20), (4_000, 5_000)):
        job = factories.queued("t")
        factories.tick(job.id, run_at=-wait, enqueued_at=-wait - 100)
        (attempt,) = factories.claim()
        factories.tick(job.id, claimed_at=-run)
        Job.objects.ack(attempt)

    task = {"queue": "default", "task": "t"}
    for name, sum_ in (("enqueue_to_start", 4_007), ("run", 5_040)):
        assert scrape(f"pgqueue_{name}_seconds_count", **task) == 3
        assert sum_ <= scrape(f"pgqueue_{name}_seconds_sum", **task) < sum_ + 5

    def upto(name: str, le: str) -> Any:
        return scrape(f"pgqueue_{name}_seconds_bucket", le=le, **task)

    bounds = ("5.0", "10.0", "30.0", "3600.0", "+Inf")
    assert [upto("enqueue_to_start", le) for le in bounds] == [1, 2, 2, 2, 3]
    assert [upto("run", le) for le in bounds] == [0, 0, 2, 2, 3]


def test_counters_never_go_back(scrape):
    """MET-01."""
    for _ in range(20):
        factories.succeeded(task="t")
    factories.dead(task="t")
    scrape.again()
    before = scrape.counters()

    Job.objects.prune(older_than=-1, limit=15)
    Job.objects.requeue_many(Job.objects.values_list("pk", flat=True))
    Job.objects.filter(pk__in=Job.objects.values("pk")[:2]).delete()
    scrape.again()

    assert len(before) > 40
    assert before.keys() == scrape.counters().keys()
    assert all(value >= before[key] for key, value in scrape.counters().items())


def test_names_of_queues_and_tasks_may_be_anything(scrape):
    odd = 'a"b\\c{}é'
    attempt = factories.claimed("t.x", queue="mail-1.b")
    Job.objects.filter(pk=attempt.id).update(queue=odd)

    assert scrape("pgqueue_jobs", queue=odd, state="running") == 1


def test_openmetrics_is_given_to_who_asks(scraper):
    factories.succeeded()
    accept = "application/openmetrics-text;version=1.0.0"

    response = scraper.get("/api/metrics", headers={"accept": accept})

    assert response.headers["Content-Type"].startswith("application/openmetrics-text")
    assert "pgqueue_jobs_completed" in {
        family.name for family in parse_open(response.content.decode())
    }


def test_the_text_format_is_named(scraper):
    response = scraper.get("/api/metrics")

    assert response.headers["Content-Type"].startswith("text/plain; version=")


# --- cost -----------------------------------------------------------------------------


def test_callers_in_quick_succession_share_an_answer():
    """MET-06."""
    reads = []

    def read_() -> Figures | None:
        reads.append(1)
        return Figures([], [])

    latest = LatestFigures(read_)

    assert latest() is latest()
    assert len(reads) == 1
    latest.forget()
    latest()
    assert len(reads) == 2


FINISHED = """
INSERT INTO pgqueue_job (
    queue, task, args, kwargs, state, priority, run_at, enqueued_at, attempts,
    max_attempts, worker, errors, finished_at
)
SELECT
    'q', 't', '[]', '{}', 'succeeded', 0, now(), now(), 1, 5, '', '[]', now()
FROM generate_series(1, 30000)
"""


@pytest.mark.parametrize("analyzed", ["never", "empty", "all queued", "full"])
def test_what_has_finished_is_not_read(connect, analyzed):
    """MET-06, whatever the planner knows."""
    plain = connect()
    if analyzed == "all queued":
        factories.queued_many(1_000)
    if analyzed != "never":
        plain.execute("VACUUM ANALYZE pgqueue_job")
    plain.execute("DELETE FROM pgqueue_job")
    plain.execute(FINISHED)
    if analyzed == "full":
        plain.execute("VACUUM ANALYZE pgqueue_job")
    with one_view("default", name="pgqueue test", seconds=2) as session:
        (shown,) = session.rows("EXPLAIN (FORMAT JSON) " + sql.LIVE, {})

    plan = Plan(shown[0][0]["Plan"])
    assert plan.indexes() == {
        "pgqueue_job_claim", "pgqueue_job_due", "pgqueue_job_unserved",
        "pgqueue_job_running",
    }  # fmt: skip
    types = {node["Node Type"] for node in plan.scans_of("pgqueue_job")}
    assert "Seq Scan" not in types


def test_all_is_as_of_one_moment(connect):
    factories.claimed()
    with one_view("default", name="pgqueue test", seconds=2) as session:
        before = live(session)
        connect().execute(
            "UPDATE pgqueue_job SET state = 'succeeded', finished_at = now(),"
            " lease_token = NULL, lease_expires_at = NULL"
        )

        assert live(session) == before


def test_no_connection_stays(scraper, watcher):
    scraper.get("/api/metrics")

    wait_until(lambda: not watcher.product_connections())


# --- trouble --------------------------------------------------------------------------


def test_without_a_database_there_is_an_answer(scraper, monkeypatch):
    """MET-06."""
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")

    response = scraper.get("/api/metrics")

    assert response.status_code == 200
    assert samples(response.content.decode()) == {("pgqueue_up", frozenset()): 0}


def test_a_statement_that_takes_too_long_is_given_up(scraper, connect, monkeypatch):
    monkeypatch.setattr(figures, "_STATEMENT_SECONDS", 0.2)
    other = connect()
    other.execute("BEGIN")
    other.execute("LOCK TABLE pgqueue_job")

    response = scraper.get("/api/metrics")

    assert samples(response.content.decode())["pgqueue_up", frozenset()] == 0


def test_without_the_table_there_is_an_answer(scraper, connect):
    plain = connect()
    plain.execute("ALTER TABLE pgqueue_counter RENAME TO gone")
    try:
        response = scraper.get("/api/metrics")
    finally:
        plain.execute("ALTER TABLE gone RENAME TO pgqueue_counter")

    assert samples(response.content.decode())["pgqueue_up", frozenset()] == 0


def test_without_prometheus_client_it_says_what_to_install(scraper, monkeypatch):
    monkeypatch.setitem(sys.modules, "pgqueue_django.contrib.prometheus", None)

    response = scraper.get("/api/metrics")

    assert response.status_code == 501
    assert "pgqueue-django[prometheus]" in response.json()["detail"]


# --- access ---------------------------------------------------------------------------


def test_strangers_are_asked_who_they_are(scraper):
    response = Client().get("/api/metrics")

    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "given", ["Bearer", "Bearer x", f"Token {TOKEN}", "Bearer \xe9"]
)
def test_a_wrong_token_is_nobodys(scraper, given):
    response = Client(headers={"authorization": given}).get("/api/metrics")

    assert response.status_code == 401


def test_without_a_token_in_the_settings_none_is_right(settings):
    settings.PGQUEUE = {}

    for given in ("Bearer None", "Bearer ", f"Bearer {TOKEN}"):
        client = Client(headers={"authorization": given})
        assert client.get("/api/metrics").status_code == 401


def test_a_user_needs_the_permission(client_of):
    assert client_of("view_job").get("/api/metrics").status_code == 403
    assert client_of("view_counter").get("/api/metrics").status_code == 200


def test_a_scraper_may_see_nothing_else(scraper):
    assert scraper.get(f"/api/jobs/{factories.queued().id}").status_code == 401


@pytest.mark.parametrize("wrong", ["short", 5, "with a space in the middle", "é" * 30])
def test_a_weak_token_is_refused_and_not_shown(wrong):
    with pytest.raises(InvalidSettings, match="METRICS_TOKEN") as caught:
        read({"METRICS_TOKEN": wrong})

    assert str(wrong) not in str(caught.value).replace("20 to 1,000", "")


def test_it_is_one_of_the_apis_views():
    from pgqueue_django.api.metrics import MetricsView

    assert issubclass(MetricsView, QueueView)


# --- elsewhere ------------------------------------------------------------------------


def test_another_registry_has_the_metrics_too():
    factories.succeeded(task="t")
    registry = CollectorRegistry(auto_describe=True)
    registry.register(prometheus.QueueCollector())

    text = generate_latest(registry).decode()

    labels = frozenset({"queue": "default", "task": "t"}.items())
    assert samples(text)["pgqueue_jobs_completed_total", labels] == 1


def test_django_prometheus_exports_them_too():
    pytest.importorskip("django_prometheus")
    code = (
        "from tests import settings\n"
        "settings.INSTALLED_APPS += ['django_prometheus']\n"
        "import django; django.setup()\n"
        "from django.test import RequestFactory\n"
        "from django_prometheus.exports import ExportToDjangoView\n"
        "request = RequestFactory().get('/')\n"
        "assert b'pgqueue_up' in ExportToDjangoView(request).content\n"
    )

    subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        check=True,
        timeout=60,
    )
