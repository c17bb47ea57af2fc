"""One event loop for a producer whose queue has async functions only."""

import asyncio

# Open until the process ends, with the connections that belong to it.
run = asyncio.Runner().run
