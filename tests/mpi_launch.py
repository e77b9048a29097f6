"""How tests start MPI processes: any command, or a job of distributed/mpi_worker.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Open MPI refuses to start as root, as containers run, and more ranks than cores unless told.
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
WORKER = Path(__file__).parent / "distributed" / "mpi_worker.py"


def mpiexec(
    n_ranks: int, *command: str, options: tuple[str, ...] = (), seconds: float = 300
) -> subprocess.CompletedProcess[str]:
    """Runs a command under mpiexec and returns what it wrote; fails rather than hangs."""
    folder = os.path.dirname(sys.executable)
    found = shutil.which("mpiexec", path=folder) or shutil.which("mpiexec")
    if found is None:
        pytest.skip("mpiexec is not installed (pip install mpi4py mpich)")
    pytest.importorskip("mpi4py")
    path = folder + os.pathsep + os.environ.get("PATH", "")
    return subprocess.run(
        [found, *options, "-n", str(n_ranks), *command],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, **_OPEN_MPI, "PATH": path, "OMP_NUM_THREADS": "1"},
    )


def run_job(n_ranks: int, job: str, how: Any) -> Any:
    """Runs a job of mpi_worker.py on n ranks and returns rank 0's answer."""
    done = mpiexec(n_ranks, sys.executable, str(WORKER), job, json.dumps(how))
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.strip().splitlines()[-1])
