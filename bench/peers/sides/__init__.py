"""Each queue's own side of the comparison; imported only in that queue's venv."""
