"""What every worker does for all of them: leaderless, in small steps, at any time.

Each service has ``run_once()``, which does a step and returns the seconds to wait
before the next. Several may run at once; rows that one has locked, the others skip.
"""
