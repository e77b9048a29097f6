"""python tests/soak/dask_training.py DATA MODEL [CHECKPOINT]: a fit on two workers, or its rest."""

from __future__ import annotations

import sys
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import bitgrove as bg
import bitgrove.dask as bgd


def main(data: str, model: str, checkpoint: str | None = None) -> None:
    table = np.loadtxt(data, delimiter=",", skiprows=1)
    X, y = (da.from_array(part, chunks=len(table) // 4) for part in (table[:, :-1], table[:, -1]))
    resume = checkpoint if checkpoint and Path(checkpoint).exists() else None
    save = [bg.checkpoint(checkpoint, every=1)] if checkpoint else []
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        X = X.rechunk({1: -1})
        classifier = bgd.BitGroveClassifier(n_estimators=60, subsample=0.7, client=client)
        classifier.fit(X, y, callbacks=save, resume_from=resume)
        classifier.model_.save(model)


if __name__ == "__main__":
    main(*sys.argv[1:])
