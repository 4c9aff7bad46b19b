"""Work without Python's cycle collector, for commands that make millions of values."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep the cycle collector off: planning and lint make millions of values, all acyclic, and it would walk them.

    At 200,000 partitions this saves a quarter of the planning and half of the encoding time, at 10,000 topics a fifth
    of lint's. Works as a decorator too.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
