"""A supervised thread: it restarts its work with backoff, or says that it cannot."""

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic
from typing import Protocol

from pgqueue_django import signals
from pgqueue_django.backoff import Backoff
from pgqueue_django.db import is_passing

# After a lost connection: quickly at first, since most restarts take a second or two.
# The longest wait (seconds) is what work stands still for when the server is back.
_BACKOFF = Backoff(base=0.1, factor=2.0, cap=1.0, jitter=0.5)

# Of what the others wait for: one connection of a process may knock more often.
FORERUNNER = Backoff(base=0.1, factor=1.5, cap=0.5, jitter=0.5)

# Errors in a row that no wait mends. So many are no accident: the process is of no use,
# and its supervisor should know.
_HOPELESS = 10


class Service(Protocol):
    """One of the worker's jobs, done a step at a time."""

    name: str

    def run_once(self) -> float:
        """Do one step; return the seconds to wait before the next."""
        ...

    def close(self) -> None:
        """Let go of connections; the next step opens them anew."""
        ...


class Recovery:
    """What a service that fails does next: wait, longer each time, or give up."""

    def __init__(self, name: str, backoff: Backoff = _BACKOFF) -> None:
        self._name = name
        self._backoff = backoff
        self._failures = 0
        self._unexpected = 0
        self.failing_since: float | None = None
        self.last_success = monotonic()

    @property
    def hopeless(self) -> bool:
        """Whether it has failed too often for reasons that waiting does not mend."""
        return self._unexpected >= _HOPELESS

    def failed(self, error: Exception) -> float:
        """Count a failure; return the seconds to wait."""
        self._failures += 1
        self._unexpected = 0 if is_passing(error) else self._unexpected + 1
        if self.failing_since is None:
            self.failing_since = monotonic()
        wait = self._backoff.delay(self._failures)
        signals.loop_failed.send_robust(
            Recovery, loop=self._name, error=error, wait=wait
        )
        return wait

    def succeeded(self) -> None:
        """Forget the failures."""
        self.last_success = monotonic()
        if self.failing_since is not None:
            after = self.last_success - self.failing_since
            signals.loop_recovered.send_robust(Recovery, loop=self._name, after=after)
            self._failures = self._unexpected = 0
            self.failing_since = None


class Alone:
    """For how long one service has failed while another was seen to be well.

    Args:
        failing: Of the one.
        other: Of the other, which asks the database something at each step.
    """

    def __init__(self, failing: Recovery, other: Recovery) -> None:
        self._failing = failing
        self._other = other
        self._since: float | None = None

    def seconds(self) -> float:
        """Return the seconds; 0 when both are well or both fail. To be asked often."""
        begun = self._failing.failing_since
        if begun is None or self._other.failing_since is not None:
            self._since = None
            return 0.0
        # An outage may fall between two steps of the other, which is then the first to
        # know of its end: only the time between successes of its own is proof.
        if self._other.last_success <= begun:
            return 0.0
        if self._since is None:
            self._since = self._other.last_success
        return self._other.last_success - self._since


class Loop:
    """Runs a service in a thread of its own until it is stopped.

    Args:
        service: What to run.
        backoff: How long to wait after failures.
        on_recovered: Called when it works again.
    """

    def __init__(
        self,
        service: Service,
        backoff: Backoff = _BACKOFF,
        on_recovered: Callable[[], None] = lambda: None,
    ) -> None:
        self.service = service
        self.recovery = Recovery(service.name, backoff)
        self._on_recovered = on_recovered
        self._stopping = False
        self._wake = Event()
        self._thread = Thread(
            target=self._run, name=f"pgqueue-{service.name}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Cut the present wait, or the next one, short."""
        if not self._wake.is_set():
            self._wake.set()

    def stop(self) -> None:
        """Ask for the end; the step under way is finished."""
        self._stopping = True
        self.wake()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end (seconds at most); return whether it came."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopping:
                wait = self._step()
                if wait > 0 and not self._stopping:
                    self._wake.wait(wait)
                # Cleared before the step that follows, so no wake is lost.
                self._wake.clear()
        finally:
            self.service.close()

    def _step(self) -> float:
        try:
            wait = self.service.run_once()
        except Exception as error:  # noqa: BLE001 - supervision is for all of them
            self.service.close()
            # At the end connections are cut under services that wait.
            return 0.0 if self._stopping else self.recovery.failed(error)
        failed = self.recovery.failing_since is not None
        self.recovery.succeeded()
        if failed:
            self._on_recovered()
        return wait


class Turns:
    """Several services that take turns on one thread, each with its own recovery.

    Args:
        name: The name for all of them together.
        services: The services, in order.
    """

    def __init__(self, name: str, services: list[Service]) -> None:
        self.name = name
        self.recoveries = {service.name: Recovery(service.name) for service in services}
        self._services = services
        self._next = dict.fromkeys(self.recoveries, 0.0)
        self._urgent: set[str] = set()

    def hurry(self, name: str) -> None:
        """Give a service its turn at the next step."""
        self._urgent.add(name)

    def run_once(self) -> float:
        """Run each service whose time has come; return the time to the next one's."""
        for service in self._services:
            urgent = service.name in self._urgent
            self._urgent.discard(service.name)
            if urgent or self._next[service.name] <= monotonic():
                self._next[service.name] = monotonic() + self._turn(service)
        return max(0.0, min(self._next.values()) - monotonic())

    def close(self) -> None:
        """Close all services."""
        for service in self._services:
            service.close()

    def _turn(self, service: Service) -> float:
        recovery = self.recoveries[service.name]
        try:
            wait = service.run_once()
        except Exception as error:  # noqa: BLE001 - supervision is for all of them
            service.close()
            return recovery.failed(error)
        recovery.succeeded()
        return wait
