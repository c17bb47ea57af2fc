"""Mix jobs that break things into good ones: ``python -m bench.poison``.

First those that a worker survives: they end as dead, or succeed and leave their
thread's connection spoilt, and the worker processes are the same at the end. Then those
that take the process down with them, under supervisors: they end as dead, and the good
ones beside them succeed.
"""

from collections.abc import Collection

from bench.faults import FaultReport, Trial, main, parser, trial
from pgqueue_django.bench.lab import Lab
from pgqueue_django.states import State

_DEADLY_REASONS = (
    "SELECT count(*) FROM pgqueue_job, jsonb_array_elements(errors) AS error"
    " WHERE task = %s AND error ->> 'message' = ANY(%s)"
)

# Attempts of a job that breaks something.
_ATTEMPTS = 2


def run(lab: Lab) -> FaultReport:
    """Run both mixtures; judge."""
    with trial(lab, LEASE_SECONDS=lab["lease"]) as run:
        survived = _survivable(run)
        deaths = _deadly(run)
        failed = []
        if survived:
            failed.append(f"{survived} workers did not survive what they should")
        if not deaths:
            failed.append("no deadly job is dead for the reason that it killed workers")
        figures = {
            "workers_lost_to_survivable": survived,
            "attempts_that_killed": deaths,
        }
        return run.report(figures, tuple(failed), ends=ends())


def kinds() -> dict[str, tuple[Collection[str], str]]:
    """Return the ways to break something, and the right end state, by task."""
    from bench import fault_tasks as tasks

    return {
        tasks.POISON: (tasks.POISONS, State.DEAD),
        tasks.TWISTED: (tasks.TWISTS, State.SUCCEEDED),
        tasks.DEADLY: (tasks.DEATHS, State.DEAD),
    }


def ends() -> dict[str, str]:
    """Return the right end states, for the verdict."""
    return {task: end for task, (_, end) in kinds().items()}


def mix(run: Trial, task: str, good: int, attempts: int = _ATTEMPTS) -> None:
    """Enqueue a bad job of each way, and good ones behind them."""
    hows = run.random.sample(sorted(kinds()[task][0]), len(kinds()[task][0]))
    run.enqueue(task, [{"how": how} for how in hows], max_attempts=attempts)
    run.enqueue_work(good)


def _survivable(run: Trial) -> int:
    """Return how many workers ended, or had to be started again."""
    from bench import fault_tasks

    lab = run.lab
    flags = [f"--threads={lab['threads']}", "--shutdown-timeout=10"]
    run.fleet.keep(lab["processes"], *flags)
    for task in (fault_tasks.POISON, fault_tasks.TWISTED):
        for _ in range(lab["times"]):
            mix(run, task, lab["jobs"] // 2 // lab["times"])
    run.wait(lambda: run.fleet.keep(lab["processes"], *flags))
    run.fleet.stop()
    return run.fleet.started - int(lab["processes"])


def _deadly(run: Trial) -> int:
    """Return how many attempts of deadly jobs say that their worker was lost."""
    from bench import fault_tasks

    lab = run.lab
    flags = [f"--threads={lab['threads']}", "--shutdown-timeout=10"]
    run.fleet.keep(1, f"--processes={lab['processes']}", *flags)
    run.fleet.start(*flags)
    mix(run, fault_tasks.DEADLY, lab["jobs"] // 2)

    def keep() -> None:
        run.fleet.look()
        if len(run.fleet.alive) < 2:
            run.fleet.start(*flags)

    run.wait(keep)
    run.fleet.stop()
    reasons = ["lease expired", "worker process died"]
    asked = run.server.ask(_DEADLY_REASONS, fault_tasks.DEADLY, reasons)
    return int(asked[0][0])


if __name__ == "__main__":
    given = parser(
        __doc__, jobs=2_000, processes=3, threads=4, lease=1.0, times=4
    ).parse_args()
    main("poison", "bench.poison:run", given)
