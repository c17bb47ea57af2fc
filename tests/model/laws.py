"""What must be true of every change of a row, whatever the model thinks.

A few lines for each rule, on two looks at the row: so plain that an error in the model
cannot hide here too.
"""

from typing import Final

from pgqueue_django.limits import ERRORS_KEPT
from pgqueue_django.states import FINISHED, LIVE, State
from tests.model.jobs import ENDINGS
from tests.model.rows import DRIFT, Row

_WAITING: Final = frozenset({State.SCHEDULED, State.QUEUED})
_RUNNING: Final = frozenset({State.RUNNING})

ARROWS: Final[dict[str, tuple[frozenset[State], frozenset[State]]]] = {
    "claim": (frozenset({State.QUEUED}), _RUNNING),
    "claim_on": (frozenset({State.QUEUED}), _RUNNING),
    "claim_along": (frozenset({State.QUEUED}), _RUNNING),
    "claim_unserved": (frozenset({State.UNSERVED}), _RUNNING),
    "set_aside": (frozenset({State.QUEUED}), frozenset({State.UNSERVED})),
    "renew": (_RUNNING, _RUNNING),
    "ack": (_RUNNING, frozenset({State.SUCCEEDED})),
    "retry": (_RUNNING, _WAITING),
    "fail": (_RUNNING, frozenset({State.DEAD})),
    "cancel_held": (_RUNNING, frozenset({State.CANCELLED})),
    "snooze": (_RUNNING, _WAITING),
    "release": (_RUNNING, frozenset({State.QUEUED})),
    "park": (_RUNNING, frozenset({State.UNSERVED})),
    "promote": (frozenset({State.SCHEDULED}), frozenset({State.QUEUED})),
    "reap": (_RUNNING, _WAITING | {State.DEAD}),
    "reap_dead_worker": (_RUNNING, _WAITING | {State.DEAD}),
    "release_dead_worker": (_RUNNING, frozenset({State.QUEUED})),
    "cancel": (LIVE, frozenset({State.CANCELLED})),
    "requeue": (frozenset({State.DEAD}), frozenset({State.QUEUED})),
}
"""From what to what each verb moves a job: the picture in the architecture page."""

GIVEN_BACK: Final = frozenset({"snooze", "release", "park", "release_dead_worker"})
_CLAIMS: Final = frozenset({"claim", "claim_on", "claim_along", "claim_unserved"})


def judge_row(row: Row) -> None:
    """Fail if a row, by itself, cannot be."""
    running = row.state == State.RUNNING
    assert (row.token is not None) == running, "a token exactly while running"
    assert (row.lease_for is not None) == running, "a lease exactly while running"
    finished = row.state in FINISHED
    assert (row.finished_in is not None) == finished, "an end exactly when finished"
    assert running <= row.ever_claimed, "running, but never claimed"
    assert 0 <= row.attempts <= row.max_attempts, "more attempts than allowed"
    assert (row.result is not None) == (row.state == State.SUCCEEDED), "a result"
    assert len(row.errors) <= ERRORS_KEPT, "a history without end"


def judge_change(verb: str, before: Row, after: Row, tokens: set[str]) -> None:
    """Fail if a verb may not do that.

    Args:
        verb: What was done.
        before: The row as it was.
        after: The row as it is.
        tokens: Those of the attempts that a worker wrote of; empty for other verbs.
    """
    judge_row(after)
    if not _changed(before, after):
        return
    come_from, go_to = ARROWS[verb]
    assert before.state in come_from, f"{verb} of a job that was {before.state}"
    assert after.state in go_to, f"{verb} made it {after.state}"
    assert after.attempts == _attempts_after(verb, before), "attempts"
    if verb in ENDINGS or verb == "renew":
        assert before.token in tokens, "written without the lease"
    if verb == "renew":
        assert before.token == after.token, "a renewal made another token"
    if verb == "reap":
        assert before.lease_for is not None
        assert before.lease_for < 0, "reaped before its end"
    if verb in _CLAIMS:
        assert after.lease_for is not None
        assert after.lease_for > 0, "claimed with an old lease"


def _attempts_after(verb: str, before: Row) -> int:
    if verb == "requeue":
        return 0
    return before.attempts + (verb in _CLAIMS) - (verb in GIVEN_BACK)


def _changed(before: Row, after: Row) -> bool:
    if before[:15] != after[:15]:
        return True
    return abs((before.lease_for or 0) - (after.lease_for or 0)) > DRIFT
