"""Ways to train on more than one shard: a Comm is passed, never a global."""

from bitgrove.distributed.comm import Comm, SoloComm
from bitgrove.distributed.threads import ThreadComm, run_threads

__all__ = ["Comm", "SoloComm", "ThreadComm", "run_threads"]
