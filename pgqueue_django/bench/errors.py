"""What a bench raises."""


class BenchError(Exception):
    """Nothing could be measured; the message says why, for a person to read."""
