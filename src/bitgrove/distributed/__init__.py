"""Ways to train on more than one shard: a Comm is passed, never a global."""

from bitgrove.distributed.comm import Comm, SoloComm, fails_together
from bitgrove.distributed.counting import CountingComm
from bitgrove.distributed.mpi import MpiComm, mpi
from bitgrove.distributed.nccl import NcclComm, nccl
from bitgrove.distributed.threads import ThreadComm, run_threads

__all__ = [
    "Comm",
    "CountingComm",
    "MpiComm",
    "NcclComm",
    "SoloComm",
    "ThreadComm",
    "fails_together",
    "mpi",
    "nccl",
    "run_threads",
]
