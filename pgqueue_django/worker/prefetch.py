"""How many jobs to hold beyond those that run."""

# About so much work is held unstarted (seconds): enough to bridge the time to the next
# claim, too little for a job to wait here while another worker is idle.
_AHEAD = 0.1

# The most jobs that are held unstarted, however short they are.
MOST = 400

# The share of the newest job in the moving average of how long jobs take.
_WEIGHT = 0.05


class Prefetch:
    """Sizes itself by how long jobs take.

    Args:
        threads: How many jobs run at the same time.
    """

    def __init__(self, threads: int) -> None:
        self._work_ahead = _AHEAD * threads
        self._average = 0.0
        self.stalled()

    def stalled(self) -> None:
        """Count jobs as slow, as at first: some are, though none has ended yet.

        Otherwise those just given back would be taken ahead again at once.
        """
        self._average = max(self._average, 2 * self._work_ahead)

    def ran(self, seconds: float) -> None:
        """Learn from a job."""
        self._average += (seconds - self._average) * _WEIGHT

    @property
    def size(self) -> int:
        """How many jobs may be held unstarted: 0 while jobs are slow."""
        if self._average <= 0:
            return MOST
        return min(MOST, int(self._work_ahead / self._average))
