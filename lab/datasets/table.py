"""The one table of datasets: the paper's eight, real sets as Parquet files, and generated tables.

`python -m lab list` prints it. A dataset of the user's own is a Spec file (--spec).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bitgrove import ParameterError
from lab.datasets import difficult, official, paper_like, simple
from lab.datasets.bundled import Bundled
from lab.datasets.entry import Entry, Generated
from lab.datasets.paper_set import PaperSet
from lab.datasets.specs import Spec

_PAPER = (
    PaperSet(
        name="higgs", title="Higgs", objective="binary",
        n_train=10_500_000, n_test=500_000, n_features=28,
        generate=paper_like.higgs, read=official.read_higgs, files=("HIGGS.csv*",),
        where="https://archive.ics.uci.edu/dataset/280/higgs (HIGGS.csv.gz)",
    ),
    PaperSet(
        name="epsilon", title="Epsilon", objective="binary",
        n_train=400_000, n_test=100_000, n_features=2000,
        generate=paper_like.epsilon, read=official.read_epsilon,
        files=("epsilon_normalized", "epsilon_normalized.t"),
        where="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#epsilon "
        "(epsilon_normalized and epsilon_normalized.t, .bz2 or unpacked)",
    ),
    # The paper's two counts are 78.4% and 21.6% of their sum, its rule says 80 and 20.
    PaperSet(
        name="kitsune", title="Kitsune", objective="binary",
        n_train=14_545_195, n_test=3_999_993, n_features=115, counts_sum=True,
        generate=paper_like.kitsune, read=official.read_kitsune,
        files=("**/*_dataset.csv*", "**/*_labels.csv*"),
        where="https://archive.ics.uci.edu/dataset/516/kitsune+network+attack+dataset "
        "(<attack>_dataset.csv and <attack>_labels.csv of each attack)",
    ),
    PaperSet(
        name="criteo", title="Criteo", objective="binary",
        n_train=41_256_555, n_test=4_584_061, n_features=65,
        generate=paper_like.criteo, read=official.read_criteo, files=("train.txt*",),
        where="https://go.criteo.net/"
        "criteo-research-kaggle-display-advertising-challenge-dataset.tar.gz (train.txt)",
    ),
    PaperSet(
        name="bosch", title="Bosch", objective="binary",
        n_train=1_000_000, n_test=183_747, n_features=968,
        generate=paper_like.bosch, read=official.read_bosch, files=("train_numeric.csv*",),
        where="https://www.kaggle.com/c/bosch-production-line-performance (train_numeric.csv)",
        parameters={"learning_rate": 0.015, "num_leaves": 45, "min_child_weight": 100.0},
    ),
    PaperSet(
        name="year", title="Year", objective="regression",
        n_train=463_715, n_test=51_630, n_features=90,
        generate=paper_like.year, read=official.read_year, files=("YearPredictionMSD.txt*",),
        where="https://archive.ics.uci.edu/dataset/203/yearpredictionmsd (YearPredictionMSD.txt)",
    ),
    PaperSet(
        name="yahoo", title="Yahoo LTR", objective="lambdarank",
        n_train=473_134, n_test=165_660, n_features=700,
        generate=paper_like.yahoo, read=official.read_yahoo,
        files=("set1.train.txt*", "set1.test.txt*"),
        where="https://webscope.sandbox.yahoo.com/catalog.php?datatype=c "
        "(C14, set1.train.txt and set1.test.txt)",
    ),
    PaperSet(
        name="letor", title="LETOR", objective="lambdarank",
        n_train=2_270_296, n_test=753_611, n_features=136,
        generate=paper_like.letor, read=official.read_letor,
        files=("Fold1/train.txt*", "Fold1/test.txt*"),
        where="https://www.microsoft.com/en-us/research/project/mslr/ (MSLR-WEB30K, Fold1)",
    ),
)  # fmt: skip

_PARTS = {"column": "part", "train": ["train"], "test": ["test"]}
_LEAVES: dict[str, float] = {"num_leaves": 31}
_REAL = (
    # Forest cover types (UCI).
    Spec(name="covtype", files=["covtype.parquet"], objective="multiclass", label="Cover_Type",
         parameters=_LEAVES),
    # Census-Income (KDD, UCI): 6% positive, its own split.
    Spec(name="census_kdd", files=["census_kdd.parquet"], objective="binary", label="income",
         positive="50000+.", encode=["*"], split=_PARTS, parameters=_LEAVES),
    # Adult (UCI census income), its own split.
    Spec(name="adult", files=["adult.parquet"], objective="binary", label="income",
         positive=">50K", encode=["*"], split=_PARTS, parameters=_LEAVES),
    # KDD Cup 2004, protein homology: rows of one protein stay together.
    Spec(name="kddcup04_bio", files=["kddcup04_bio.parquet"], objective="binary", label="label",
         together="qid", parameters=_LEAVES),
    # 10,984 rows of HIGGS (OpenML).
    Spec(name="higgs_11k", files=["higgs_11k.parquet"], objective="binary", label="label",
         parameters=_LEAVES),
    # Individual household electric power consumption (UCI): one meter from the others.
    Spec(name="household_power", files=["household_power.parquet"], objective="regression",
         label="Sub_metering_3", ignore=["date_time"], drop_missing_labels=True,
         parameters=_LEAVES),
    # The same with the time of each row: there is more to learn, and more trees to learn it.
    Spec(name="household_time", files=["household_power.parquet"], objective="regression",
         label="Sub_metering_3", times=["date_time"], drop_missing_labels=True,
         parameters=_LEAVES),
    # MQ2008 (LETOR 4.0).
    Spec(name="mq2008", files=["mq2008.parquet"], objective="lambdarank", label="label",
         group="qid", split={"column": "fold", "train": [1, 2, 3], "test": [5]},
         parameters=_LEAVES),
    # 10,000 rows of MSLR-WEB.
    Spec(name="mslr_5k", files=["mslr_5k.parquet"], objective="lambdarank", label="label",
         group="qid", split=_PARTS, parameters=_LEAVES),
    # Arrival delay from what is known before departure. A heavy tail.
    Spec(name="nycflights13", files=["nycflights13.parquet"], objective="regression",
         label="arr_delay", encode=["*"], drop_missing_labels=True, parameters=_LEAVES,
         ignore=["dep_time", "dep_delay", "arr_time", "air_time", "time_hour"]),
)  # fmt: skip

_MADE = (
    Generated(name="higgs_like", objective="binary", make=simple.higgs_like),
    Generated(name="regression_like", objective="regression", make=simple.regression_like),
    Generated(name="multiclass_like", objective="multiclass", make=simple.multiclass_like),
    Generated(name="ranking_like", objective="lambdarank", make=simple.ranking_like),
    Generated(
        name="pareto", objective="regression", make=simple.pareto, n_rows=50_000, test_part=4
    ),
    Generated(
        name="weights", objective="regression", make=simple.weights, n_rows=50_000, test_part=4
    ),
)

_BUNDLED = (
    Bundled(name="breast_cancer", objective="binary"),
    Bundled(name="wine", objective="multiclass"),
    Bundled(name="digits", objective="multiclass"),
    Bundled(name="diabetes", objective="regression"),
)
_DIFFICULT = (
    Generated(name="flows", objective="multiclass", make=difficult.flows,
              parameters={"num_leaves": 63}),
    Generated(name="rare_positives", objective="binary", make=difficult.rare_positives,
              n_rows=40_000),
    Generated(name="tiny_binary", objective="binary", make=difficult.tiny_binary, n_rows=200,
              test_part=1),
    Generated(name="tiny_regression", objective="regression", make=difficult.tiny_regression,
              n_rows=120, test_part=1),
    Generated(name="tiny_ranking", objective="lambdarank", make=difficult.tiny_ranking,
              n_rows=500, test_part=1),
    Generated(name="many_classes", objective="multiclass", make=difficult.many_classes,
              n_rows=3_000),
    Generated(name="light_weights", objective="binary", make=difficult.light_weights,
              n_rows=20_000),
    Generated(name="counts", objective="regression", make=difficult.counts, n_rows=20_000),
)  # fmt: skip

DATASETS: dict[str, Entry] = {
    entry.name: entry for entry in (*_PAPER, *_REAL, *_MADE, *_BUNDLED, *_DIFFICULT)
}
PAPER: tuple[str, ...] = tuple(entry.name for entry in _PAPER)
REAL: tuple[str, ...] = tuple(entry.name for entry in _REAL)
ONE_OF_EACH: tuple[str, ...] = tuple(entry.name for entry in _MADE[:4])
SMALL_AND_DIFFICULT: tuple[str, ...] = tuple(entry.name for entry in (*_BUNDLED, *_DIFFICULT))


def known(name: str) -> Entry:
    """The entry of that name; ParameterError if there is none."""
    if name not in DATASETS:
        raise ParameterError(
            f"dataset {name!r}: must be one of {', '.join(DATASETS)}; "
            "another table needs a spec file (--spec)"
        )
    return DATASETS[name]


def available(names: Iterable[str], folder: Path | None) -> list[str]:
    """Those of the names that can be loaded with this folder."""
    return [name for name in names if known(name).found(folder)]
