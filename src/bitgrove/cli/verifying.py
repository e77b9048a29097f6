"""`bitgrove verify`: trains a model file's training again, and says whether the same comes out."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from bitgrove.cli.training import ShardReader, on_ranks
from bitgrove.distributed import Comm
from bitgrove.errors import ParameterError
from bitgrove.objectives import OBJECTIVES
from bitgrove.params import resolve
from bitgrove.training.starting import shared_model
from bitgrove.verification import Verification, verify

DIFFERENT = 3  # the exit code of a model that is not what training on the data gives


def run_verify(args: argparse.Namespace) -> int:
    """0 if the model is what training on the data gives, else DIFFERENT."""
    found = on_ranks(lambda comm: _verify_shard(args, comm))
    return 0 if found else DIFFERENT


def _verify_shard(args: argparse.Namespace, comm: Comm) -> Verification:
    model = shared_model(args.model, comm, "model")
    assert model is not None, "the command line asks for one"
    if OBJECTIVES[model.objective].family == "given":
        raise ParameterError("the objective is a function, which no file holds; ask in Python")
    params = resolve({**model.params, "eval_metric": None})
    read = ShardReader(args, params, comm, model, model.feature_names)
    place = {name: getattr(args, name) for name in ("device", "n_jobs") if getattr(args, name)}
    start = shared_model(args.init_model, comm, "init_model")
    found = verify(model, read.dataset(args.data), init_model=start, comm=comm, **place)
    if comm.rank == 0:
        print(json.dumps({"verified": found.verified, **asdict(found)}, indent=2)
              if args.json else found)  # fmt: skip
    return found
