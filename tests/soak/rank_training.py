"""python tests/soak/rank_training.py DATA MODEL [CHECKPOINT]: a training over MPI, or its rest."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import bitgrove as bg
from bitgrove.distributed import mpi

PARAMS = {"objective": "binary", "n_estimators": 60, "subsample": 0.7, "n_jobs": 1}


def main(data: str, model: str, checkpoint: str | None = None) -> None:
    comm = mpi()
    table = np.array_split(np.loadtxt(data, delimiter=",", skiprows=1), comm.size)[comm.rank]
    resume = checkpoint if checkpoint and Path(checkpoint).exists() else None
    save = [bg.checkpoint(checkpoint, every=1)] if checkpoint else []
    rows = bg.Dataset(table[:, :-1], table[:, -1])
    found = bg.train(PARAMS, rows, callbacks=save, resume_from=resume, comm=comm)
    if comm.rank == 0:
        found.save(model)


if __name__ == "__main__":
    main(*sys.argv[1:])
