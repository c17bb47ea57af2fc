class PeerError(Exception):
    """A queue is left out of the comparison; the message says why."""
