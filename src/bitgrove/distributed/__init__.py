"""Ways to train on more than one shard: a Comm is passed, never a global."""

from bitgrove.distributed.comm import Comm, SoloComm, fails_together
from bitgrove.distributed.threads import ThreadComm, run_threads

__all__ = ["Comm", "SoloComm", "ThreadComm", "fails_together", "run_threads"]
