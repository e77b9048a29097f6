"""Ranks as MPI processes: needs mpi4py."""

from bitgrove.distributed.mpi.comm import MpiComm, end_all, launched_comm, launched_size, mpi

__all__ = ["MpiComm", "end_all", "launched_comm", "launched_size", "mpi"]
