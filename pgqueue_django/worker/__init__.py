"""Claims jobs, runs their handlers, records the outcomes.

The parts, each a file: the *worker* starts, watches and stops the others; the *claimer*
takes jobs for free slots; *pools* run them through the *executor*; the *completer*
records outcomes, many at once; the *heartbeat* keeps leases; the *listener* hears of
new jobs. A *loop* is the supervised thread that each of them runs in.
"""

from pgqueue_django.worker.options import WorkerOptions
from pgqueue_django.worker.worker import Worker

__all__ = ["Worker", "WorkerOptions"]
