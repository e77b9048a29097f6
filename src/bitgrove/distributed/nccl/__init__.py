"""Ranks with a GPU each: histograms summed from device memory to device memory."""

from bitgrove.distributed.nccl.comm import Channel, NcclChannel, NcclComm, nccl

__all__ = ["Channel", "NcclChannel", "NcclComm", "nccl"]
