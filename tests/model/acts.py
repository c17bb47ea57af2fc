"""What can happen to the queue, as strategies of hypothesis."""

from typing import Any

from hypothesis import strategies as st

from pgqueue_django.specs import JobSpec
from tests.model.jobs import ENDINGS

Act = tuple[str, dict[str, Any]]
"""The name of a method of the machine, and what it is given."""

WORKERS = range(3)
QUEUES = ("a", "b")
TASKS = ("known", "unknown")

# See rows.DRIFT.
_LEASES = st.sampled_from([50.0, 150.0])
_DELAYS = st.sampled_from([0.0, 0.0, 0.0, 150.0, 550.0])
_AGES = st.sampled_from([50.0, 250.0])
_ADVANCES = st.sampled_from([100.0, 500.0])

_workers = st.sampled_from(WORKERS)
_queues = st.sampled_from(QUEUES)
_limits = st.integers(1, 3)


# Of a job with both, the order within a batch would say which one is the first.
_KEYS = [
    {},
    {},
    {"idempotency_key": "k"},
    {"idempotency_key": "l"},
    {"unique_key": "u"},
    {"unique_key": "v"},
]


def _spec(keys: dict[str, Any], **values: Any) -> JobSpec:
    return JobSpec.build(**keys, **values)


_specs = st.builds(
    _spec,
    keys=st.sampled_from(_KEYS),
    task=st.sampled_from(TASKS),
    kwargs=st.fixed_dictionaries({"n": st.integers(0, 1)}),
    queue=_queues,
    priority=st.integers(-1, 1),
    delay=_DELAYS,
    max_attempts=st.integers(1, 3),
)
some_specs = st.lists(_specs, min_size=1, max_size=4)
_mostly = st.sampled_from([True, True, True, False])
_claims = st.sampled_from(["claim", "claim_on", "claim_along", "claim_unserved"])
_writes = st.sampled_from(["renew", *ENDINGS])
_maintenance = st.sampled_from(
    ["promote", "reap", "reap", "set_aside", "prune", "merge"]
)
_faults = st.sampled_from(
    ["death", "death that a supervisor sees", "broken connection", "lock"]
)
_few_or_all = st.sampled_from([1, 1_000])
_pick = st.integers(0, 30)
_picks = st.lists(st.integers(0, 30), min_size=1, max_size=4, unique=True)


# What can be done, how often beside the others, and with what. One rule of the machine
# does it all: of several, hypothesis would leave out some in most runs.
_ACTS: dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]] = {
    "produce": (1, {"specs": some_specs, "kept": _mostly}),
    "claim": (
        4,
        {
            "how": _claims,
            "worker": _workers,
            "limit": _limits,
            "seconds": _LEASES,
            "pick": _pick,
        },
    ),
    "write": (
        5,
        {"verb": _writes, "picks": _picks, "delay": _DELAYS, "seconds": _LEASES},
    ),
    "trouble": (1, {"kind": _faults, "worker": _workers, "picks": _picks}),
    "pass_time": (2, {"seconds": _ADVANCES}),
    "maintain": (
        3,
        {"verb": _maintenance, "limit": _few_or_all, "queue": _queues, "age": _AGES},
    ),
    "ask": (1, {"verb": st.sampled_from(["cancel", "requeue"]), "picks": _picks}),
}


def _act_of(name: str) -> st.SearchStrategy[Act]:
    return st.tuples(st.just(name), st.fixed_dictionaries(_ACTS[name][1]))


acts = st.sampled_from(
    [name for name, (often, _) in _ACTS.items() for _ in range(often)]
).flatmap(_act_of)
