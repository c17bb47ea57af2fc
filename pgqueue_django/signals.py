"""What happened, for logs, metrics and whoever else wants to know.

Each is sent after the fact, by the class named as ``sender``, in the thread in which it
happened. A receiver that raises is logged by Django and stops nothing.
"""

from django.dispatch import Signal

job_started = Signal()
"""A handler is about to run. Arguments: attempt."""

attempts_recorded = Signal()
"""The database has the outcomes of some attempts. Arguments: recorded, a list of pairs
of attempt and outcome; one signal for a whole batch, as there may be thousands in a
second."""

lease_lost = Signal()
"""A write was refused, since the job is no longer ours. Arguments: attempt, verb."""

outcome_ignored = Signal()
"""A handler raised, or returned a value, after the end of ``fenced()``: its job has
succeeded all the same. Arguments: attempt, outcome."""

outcome_refused = Signal()
"""The database refuses to store an outcome. Arguments: attempt, outcome, error."""

lease_expired = Signal()
"""A reaper brought back a job whose lease had ended. Arguments: reaped."""

task_unknown = Signal()
"""Jobs of a task that this worker does not know were set aside. Arguments: task."""

transaction_left_open = Signal()
"""A handler returned inside a transaction. Arguments: attempt, alias."""

tasks_module_failed = Signal()
"""A module with tasks could not be imported. Arguments: module, failure."""

code_changed = Signal()
"""In development: a file has changed, and the worker starts anew. Arguments: path."""

loop_failed = Signal()
"""An internal loop had an error and goes on. Arguments: loop, error, wait (s)."""

loop_recovered = Signal()
"""An internal loop works again. Arguments: loop, after (s)."""

worker_started = Signal()
"""A worker claims jobs from now on. Arguments: identity, queues, threads."""

worker_stopped = Signal()
"""A worker has ended. Arguments: identity, exit_code."""

worker_broken = Signal()
"""A part of a worker cannot go on, so the worker ends. Arguments: identity, part."""

handler_stuck = Signal()
"""A handler did not end at its timeout or when it was cancelled, nor within the grace;
its attempt is recorded as timed out if the job is still its own. Its worker ends when
its other jobs have, or was killed by its supervisor, as nothing else could run in it.
Arguments: attempt."""

event_loop_blocked = Signal()
"""A worker's event loop has not gone on for a second, once for each time. Arguments:
attempt (None is none of the worker's own), where (file and line that it is in)."""

child_died = Signal()
"""A supervisor's child has ended badly. Arguments: pid, identity, exit_code (a negative
one is the number of the signal that killed it)."""
