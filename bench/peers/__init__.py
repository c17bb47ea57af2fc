"""Other queues beside this one, on the same server: ``python -m bench.peers``."""
