"""The demo as a newcomer meets it: one command, one line of curl, one Ctrl-C."""

import os
import signal
import socket
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from pgqueue_django import devserver
from tests.demo.demos import ROOT, Demo, is_alive, run, state
from tests.waiting import wait_until


@pytest.fixture
def database_url():
    """A database of its own on the suite's server."""
    server = devserver.database_url(ROOT / ".pgdata")
    name = f"demo_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def start(database_url, tmp_path):
    demos: list[Demo] = []

    def start(*options):
        demos.append(Demo(database_url, tmp_path / f"{len(demos)}", *options))
        return demos[-1]

    yield start
    for demo in demos:
        demo.process.kill()
        demo.process.wait()


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def test_the_printed_curl_line_gives_a_job_and_ctrl_c_ends_everything(start, port):
    demo = start("--port", port)
    curl = demo.curl_line()
    status, job = run(curl)
    assert status == 201
    wait_until(lambda: state(curl, job["id"]) == "succeeded")
    children = demo.children
    assert len(children) == 3  # the web server and two workers

    demo.process.send_signal(signal.SIGINT)
    assert demo.exit_code() == 0
    assert not any(map(is_alive, children))


def test_ends_by_itself_after_the_time_given(start, port):
    demo = start("--port", port, "--exit-after", "0.1")
    assert demo.exit_code() == 0
    assert "Closed" in demo.output


def test_children_end_when_the_demo_is_killed(start, port):
    demo = start("--port", port)
    wait_until(lambda: len(demo.children) == 3, 30)
    children = demo.children
    demo.process.kill()
    wait_until(lambda: not any(map(is_alive, children)), 20)


def test_ends_with_an_error_when_a_child_dies(start, port):
    demo = start("--port", port)
    wait_until(lambda: len(demo.children) == 3, 30)
    children = demo.children
    os.kill(children[-1], signal.SIGKILL)

    assert demo.exit_code() == 1
    assert "worker-2 ended by itself" in demo.output
    assert not any(map(is_alive, children))


def test_refuses_wrong_options_and_says_which(start):
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = str(server.getsockname()[1])
        demos = [
            start("--port", "0"),
            start("--port", taken),
            start("--exit-after", "-1"),
        ]
        assert [demo.exit_code() for demo in demos] == [1, 1, 1]
    assert "--port: must be 1 to 65535" in demos[0].output
    assert f"Port {taken} cannot be used" in demos[1].output
    assert "--port" in demos[1].output
    assert "--exit-after: must be above 0" in demos[2].output
