"""What became of every job of a run, by the books, the rows and the counters."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple

from pgqueue_django.bench.connecting import Connection
from pgqueue_django.events import Event
from pgqueue_django.states import State

# The first of these, as a text to be read by a person; the figures count all.
_TOLD: Final = 20

_ROWS: Final[LiteralString] = "SELECT id, task, state, attempts FROM pgqueue_job"
_TURNS: Final[LiteralString] = (
    "SELECT job, what, attempt, token::text, worker, writer::text, is_first, at"
    " FROM bench_turn ORDER BY id"
)
_MARKS: Final[LiteralString] = (
    "SELECT job, token::text, step, attempt, worker, at FROM bench_mark ORDER BY at"
)
_WORKERS: Final[LiteralString] = "SELECT identity, pid FROM bench_worker"
_TOTALS: Final[LiteralString] = (
    "SELECT event, sum(count)::bigint FROM pgqueue_counter GROUP BY event"
)

_EXPIRED: Final = frozenset({Event.LEASE_EXPIRED, Event.LEASE_EXPIRED_DEAD})
# What ends an attempt after which the work may be done again, or goes on in vain.
_UNDONE: Final = _EXPIRED | {"given_back", Event.RETRIED, Event.FAILED, Event.CANCELLED}


class Row(NamedTuple):
    """A job as its row has it."""

    id: int
    task: str
    state: str
    attempts: int


class Turn(NamedTuple):
    """A claim or an end of an attempt, as the server saw it.

    ``token`` is the row's, before an end or after a claim; ``writer`` is the one that
    whoever wrote an outcome gave, if it gave any.
    """

    job: int
    what: str
    attempt: int
    token: str | None
    worker: str
    writer: str | None
    is_first: bool
    at: datetime


class Mark(NamedTuple):
    """A beginning or an end of work, as the handler saw it."""

    job: int
    token: str
    step: str
    attempt: int
    worker: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Books:
    """All that was written, by job."""

    rows: Mapping[int, Row]
    turns: Mapping[int, list[Turn]]
    marks: Mapping[int, list[Mark]]
    totals: Mapping[str, int]
    pids: Mapping[str, int]
    """Processes of workers, by identity; of those that have marked anything."""

    @classmethod
    def read(cls, connection: Connection) -> "Books":
        """Read everything; nothing may run any more."""
        rows = {row[0]: Row(*row) for row in connection.execute(_ROWS)}
        turns: dict[int, list[Turn]] = defaultdict(list)
        for turn in connection.execute(_TURNS):
            turns[turn[0]].append(Turn(*turn))
        marks: dict[int, list[Mark]] = defaultdict(list)
        for one in connection.execute(_MARKS):
            marks[one[0]].append(Mark(*one))
        totals = {event: int(n) for event, n in connection.execute(_TOTALS)}
        pids: dict[str, int] = dict(connection.execute(_WORKERS).fetchall())
        return cls(rows, turns, marks, totals, pids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgement on a run.

    ``lost`` jobs are gone, not in their right end state, or succeeded without their
    work. ``duplicates`` are works done again though their attempt was not interrupted.
    ``interrupted`` attempts ended with their lease, or were given back after they had
    begun. ``problems`` are the first of all that is wrong, told to a person.
    """

    jobs: int
    succeeded: int
    lost: int
    stale_writes_accepted: int
    duplicates: int
    interrupted: int
    delivered_twice: int
    never_delivered: int
    attempts_most: int
    attempts_agree: bool
    counters_agree: bool
    ends: Mapping[str, int]
    problems: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        wrong = self.lost or self.stale_writes_accepted or self.duplicates
        return not wrong and self.attempts_agree and self.counters_agree

    def as_json(self) -> dict[str, Any]:
        """Return the figures, and ``ok``."""
        figures = {name: getattr(self, name) for name in self.__slots__}
        return {
            **figures,
            "ends": dict(self.ends),
            "problems": list(self.problems),
            "ok": self.ok,
        }


def judge(
    connection: Connection,
    *,
    acknowledged: Collection[int] = (),
    ends: Mapping[str, str] | None = None,
    hurt: Collection[int] | None = None,
) -> Verdict:
    """Judge a run when all of its workers have ended.

    Args:
        connection: To the bench's database.
        acknowledged: Ids of jobs whose enqueue was acknowledged, beside the rows.
        ends: The right end state by task, where it is not ``succeeded``. A job that
            somebody has cancelled may be ``cancelled`` whatever its task.
        hurt: The processes to which something was done, so that their attempts may be
            interrupted; None when anybody's may, as for a server that was away.
    """
    books = Books.read(connection)

    def was_hurt(worker: str) -> bool:
        return hurt is None or books.pids.get(worker) in {None, *hurt}

    wrong = _Wrong()
    for id_ in books.rows.keys() | set(acknowledged):
        _judge_job(id_, books, ends or {}, was_hurt, wrong)
    counters_agree = _judge_counters(books, wrong)
    began = {id_: {m.token for m in each} for id_, each in books.marks.items()}
    return Verdict(
        jobs=len(books.rows.keys() | set(acknowledged)),
        succeeded=sum(row.state == State.SUCCEEDED for row in books.rows.values()),
        lost=len(wrong.jobs["lost"]),
        stale_writes_accepted=wrong.times["stale"],
        duplicates=wrong.times["duplicate"],
        interrupted=sum(_interrupted(books, id_) for id_ in books.turns),
        delivered_twice=sum(len(tokens) > 1 for tokens in began.values()),
        never_delivered=sum(id_ not in began for id_ in books.rows),
        attempts_most=max((row.attempts for row in books.rows.values()), default=0),
        attempts_agree=not wrong.jobs["attempts"],
        counters_agree=counters_agree,
        ends=Counter(row.state for row in books.rows.values()),
        problems=tuple(wrong.told),
    )


class _Wrong:
    """Collects what is wrong."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.jobs: dict[str, set[int]] = defaultdict(set)
        self.told: list[str] = []

    def add(self, kind: str, job: int, what: str) -> None:
        self.times[kind] += 1
        self.jobs[kind].add(job)
        if len(self.told) < _TOLD:
            self.told.append(f"{kind}: job {job}: {what}")


def _judge_job(
    id_: int,
    books: Books,
    ends: Mapping[str, str],
    hurt: Callable[[str], bool],
    wrong: _Wrong,
) -> None:
    row = books.rows.get(id_)
    if row is None:
        wrong.add("lost", id_, "acknowledged, and not there")
        return
    turns, marks = books.turns.get(id_, []), books.marks.get(id_, [])
    for kind, what in (
        *_losses(row, turns, marks, ends),
        *_stale_writes(row, turns),
        *_duplicates(turns, marks, hurt),
        *_disagreements(row, turns, marks),
    ):
        wrong.add(kind, id_, what)


_Found = Iterator[tuple[str, str]]


def _losses(
    row: Row, turns: list[Turn], marks: list[Mark], ends: Mapping[str, str]
) -> _Found:
    right = ends.get(row.task, State.SUCCEEDED)
    was_cancelled = any(t.what.startswith("cancelled") for t in turns)
    if row.state != right and not (was_cancelled and row.state == State.CANCELLED):
        yield "lost", f"{row.state} after {row.attempts} attempts, not {right}"
    elif row.state == State.SUCCEEDED:
        last = turns[-1].token if turns else None
        if not any(m.step == "ended" and m.token == last for m in marks):
            yield "lost", "succeeded, and the work of that attempt was not done"


def _stale_writes(row: Row, turns: list[Turn]) -> _Found:
    holder: str | None = None
    for turn in turns:
        if turn.what in {"claimed", "stolen", "revived"}:
            holder = turn.token
            if turn.what != "claimed":
                yield "stale", f"{turn.what} by {turn.worker}"
        elif turn.writer not in {None, turn.token}:
            yield "stale", f"{turn.what} written by {turn.writer} over {turn.token}"
        elif turn.token not in {None, holder}:
            yield "stale", f"{turn.what} with token {turn.token}, not {holder}"
    if row.state == State.SUCCEEDED and not (turns and turns[-1].what == row.state):
        yield "stale", "succeeded, and that was not the last that happened"


def _duplicates(
    turns: list[Turn], marks: list[Mark], hurt: Callable[[str], bool]
) -> _Found:
    over = {turn.token: turn for turn in turns if turn.what != "claimed"}
    done = {m.token for m in marks if m.step == "ended"}
    for token in done:
        end = over.get(token)
        if end is not None and end.what == State.SUCCEEDED:
            continue
        if end is None or end.what not in _UNDONE:
            yield "duplicate", f"done by {token}, whose attempt has no such end"
        elif end.what in _EXPIRED and len(done) > 1 and not hurt(end.worker):
            yield "duplicate", f"lease of {end.worker} expired, and nothing hurt it"


def _disagreements(row: Row, turns: list[Turn], marks: list[Mark]) -> _Found:
    counted = 0
    for turn in turns:
        counted += {"claimed": 1, "given_back": -1}.get(turn.what, 0)
        counted = 0 if turn.what == "requeued" else counted
    if counted != row.attempts:
        yield "attempts", f"the row says {row.attempts}, its turns {counted}"
    claims = {(t.token, t.attempt): t.worker for t in turns if t.what == "claimed"}
    for one in marks:
        claimed_by = claims.get((one.token, one.attempt))
        if claimed_by is None or one.worker not in {"", claimed_by}:
            yield "attempts", f"marked by {one.token} of {one.worker}, not claimed so"


def _interrupted(books: Books, id_: int) -> int:
    began = {m.token for m in books.marks.get(id_, [])}
    return sum(
        turn.what in _EXPIRED or (turn.what == "given_back" and turn.token in began)
        for turn in books.turns[id_]
    )


def _judge_counters(books: Books, wrong: _Wrong) -> bool:
    seen: Counter[str] = Counter()
    for turns in books.turns.values():
        seen.update(turn.what for turn in turns)
        seen[Event.STARTED] += sum(turn.is_first for turn in turns)
    agree = True
    for event in Event:
        counted = books.totals.get(event, 0)
        if counted != seen[event]:
            agree = False
            wrong.told.append(f"counters: {event}: {counted}, but {seen[event]} turns")
    return agree
