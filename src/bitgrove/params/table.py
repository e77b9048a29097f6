"""The one table of training parameters.

Owns: every parameter's name, aliases, type, default, bounds and documentation (one of them is a
Parameter, see parameter.py), and `TrainParams`, which resolve.py makes of what the user wrote.
`python -m bitgrove.params` prints the reference page made from the same table (reference_page.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from bitgrove.objectives import OBJECTIVES, SYNONYMS
from bitgrove.params.parameter import MANY, Kind, Parameter


def _row(kind: Kind, default: object, group: str, doc: str, aliases: str = "", **rest: Any) -> Any:
    row = dict(rest, type=kind, default=default, group=group, doc=doc, aliases=(*aliases.split(),))
    return field(default=default, metadata=row)


def _default_metrics() -> str:
    metrics = (objective.default_metric for objective in OBJECTIVES.values())
    *others, last = dict.fromkeys(metric for metric in metrics if metric is not None)
    return f"{', '.join(others)} or {last}"


CORE, SHAPE, SAMPLING = "Core", "Tree shape and regularization", "Sampling"
BINNING, QUANTIZED, OBJECTIVE = "Binning", "Quantized training", "Objective details"
EVALUATION, EXECUTION = "Evaluation and early stopping", "Execution"
CONSTRAINTS = "Constraints"
CATEGORIES, DISTRIBUTED = "Categories", "Several ranks"


# fmt: off
@dataclass(frozen=True)
class TrainParams:
    """Checked parameters, and the table itself: each field carries its `Parameter`."""

    objective: str | None = _row("choice", None, CORE,
        "The loss that is minimised. `train()` needs it; the estimators choose it themselves: "
        "`binary` or `multiclass` by the number of classes, `regression` (squared error), "
        "`lambdarank` (NDCG). The spellings of LightGBM, XGBoost and CatBoost listed below are "
        "understood, also with parameters (`Quantile:alpha=0.9`); a function of your own, too: see "
        "losses.md.",
        "objective_type loss loss_function app application", choices=OBJECTIVES, optional=True,
        synonyms=SYNONYMS)
    n_estimators: int = _row("int", 100, CORE,
        "Number of boosting iterations: one tree each, or one per class for `multiclass`. Raise it "
        "together with a lower `learning_rate`; with early stopping set it high and let the "
        "validation data decide. LightGBM `num_iterations`, XGBoost `num_boost_round`.",
        "num_iterations num_iteration n_iter num_trees num_round num_rounds num_boost_round "
        "max_iter iterations", low=1, high=10**6)
    boosting_type: str = _row("choice", "gbdt", CORE,
        "How trees become a model: `gbdt` (each corrects the sum of all before it), `dart` (some "
        "of them are dropped meanwhile), `rf` (a random forest: the mean of trees on drawn rows or "
        "features). `goss` is short for `data_sample_strategy=\"goss\"`. See variants.md. XGBoost "
        "`booster`.", "boosting boost booster", choices=("gbdt", "dart", "rf"),
        synonyms={"gbrt": "gbdt", "gbtree": "gbdt", "random_forest": "rf", None: "gbdt"},
        shorthands={"goss": {"boosting_type": "gbdt", "data_sample_strategy": "goss"}})
    learning_rate: float | tuple[float, ...] = _row("schedule", 0.1, CORE,
        "Each tree's values are multiplied by it. Smaller values generalise better and need more "
        "trees; try 0.02 to 0.2. A list has one value for each iteration, a function is asked for "
        "iteration 0, 1, 2, ... XGBoost `eta`.", "eta shrinkage_rate", high=1000, low_open=True)
    random_state: int = _row("int", 0, CORE,
        "Seed of the stochastic rounding and of row, feature and bin sampling. The same data, "
        "parameters and seed give the same model, byte for byte. None means 0. The estimators also "
        "take a NumPy generator.", "seed random_seed", high=2**63 - 1, synonyms={None: 0})
    num_leaves: int = _row("int", 31, SHAPE,
        "Most leaves of a tree. Trees grow best-first, so this is the main control of complexity: "
        "lower it against overfitting, raise it (63 to 255) for large data. XGBoost `max_leaves`.",
        "max_leaves num_leaf max_leaf_nodes", low=2, high=131072)
    max_depth: int = _row("int", -1, SHAPE,
        "Most splits on the way from the root to a leaf; -1, 0 or None: no limit. A limit keeps "
        "best-first trees from growing long thin branches on small data.",
        low=-1, high=MANY, synonyms={None: -1, 0: -1})
    min_child_samples: int = _row("int", 20, SHAPE,
        "Fewest training rows in a leaf. Raise it for noisy labels, lower it for small data sets. "
        "LightGBM `min_data_in_leaf`.",
        "min_data_in_leaf min_samples_leaf min_data_per_leaf min_data", low=1, high=MANY)
    min_child_weight: float = _row("float", 1e-3, SHAPE,
        "Smallest sum of hessians (for squared error: of sample weights) in a leaf. Unlike "
        "`min_child_samples` it also rejects leaves whose rows are already predicted with "
        "confidence. LightGBM `min_sum_hessian_in_leaf`; XGBoost's default is 1.",
        "min_sum_hessian_in_leaf min_sum_hessian min_sum_hessian_per_leaf")
    min_split_gain: float = _row("float", 0.0, SHAPE,
        "A split must gain more than this, measured as LightGBM and XGBoost do (twice what the "
        "loss falls). Its scale is that of the loss, so try powers of ten. LightGBM "
        "`min_gain_to_split`, XGBoost `gamma`.",
        "min_gain_to_split gamma min_split_loss")
    reg_lambda: float | None = _row("float", None, SHAPE,
        "L2 penalty on leaf values: shrinks leaves with little hessian most. Try 1 to 10 on small "
        "or noisy data, or with rare classes. None: 0, but for `poisson` and `tweedie` as if each "
        "leaf had seen ten more labels above zero, as far as others are zero. LightGBM "
        "`lambda_l2`; XGBoost's default is 1.",
        "lambda_l2 lambda l2_regularization l2_leaf_reg", optional=True)
    reg_alpha: float = _row("float", 0.0, SHAPE,
        "L1 penalty on leaf values: leaves whose gradient sum is below it predict zero. "
        "LightGBM `lambda_l1`, XGBoost `alpha`.", "lambda_l1 alpha")
    max_delta_step: float | None = _row("float", None, SHAPE,
        "Largest step of a leaf, before `learning_rate`; 0: no limit. None: 10 where a score is "
        "a logarithm (of odds, where divided by `sigmoid`, or of counts), else no limit. The "
        "default keeps leaves of rare classes, whose hessian is next to nothing, from running "
        "away, and leaves all others alone.", "max_tree_output max_leaf_output", optional=True)
    subsample: float = _row("float", 1.0, SAMPLING,
        "Part of the rows each tree is grown on, drawn without replacement. 0.5 to 0.9 adds "
        "variety between trees and saves time. LightGBM `bagging_fraction`.",
        "bagging_fraction sub_row bagging", high=1, low_open=True)
    subsample_freq: int = _row("int", 1, SAMPLING,
        "Draw new rows every so many iterations; 0 turns row sampling off whatever `subsample` "
        "says. LightGBM `bagging_freq`, whose default is 0.", "bagging_freq", high=MANY)
    data_sample_strategy: str = _row("choice", "bagging", SAMPLING,
        "How rows are drawn: `bagging` draws `subsample` of them, all with the same chance. `mvs` "
        "keeps rows with large gradients and some of the others, which count more: at the same "
        "`subsample` it loses less accuracy. `goss` is LightGBM's rule for that. See variants.md. "
        "XGBoost `sampling_method`, CatBoost `bootstrap_type`.", "sampling_method bootstrap_type",
        choices=("bagging", "goss", "mvs"), synonyms={
            "uniform": "bagging", "Bernoulli": "bagging", "gradient_based": "mvs", "MVS": "mvs",
            "No": "bagging", None: "bagging"})
    top_rate: float = _row("float", 0.2, SAMPLING,
        "Part of the rows, those with the largest gradients, that `goss` keeps.",
        high=1, only_with={"data_sample_strategy": "goss"})
    other_rate: float = _row("float", 0.1, SAMPLING,
        "Part of the rows that `goss` keeps among the others.",
        high=1, only_with={"data_sample_strategy": "goss"})
    bagging_by_query: bool = _row("bool", False, SAMPLING,
        "Draw whole queries instead of rows.", only_with={"data_sample_strategy": "bagging"})
    pos_bagging_fraction: float = _row("float", 1.0, SAMPLING,
        "Part of the rows of class 1 each tree is grown on, instead of `subsample`; for two "
        "classes.", "pos_subsample", high=1, low_open=True,
        only_with={"data_sample_strategy": "bagging"})
    neg_bagging_fraction: float = _row("float", 1.0, SAMPLING,
        "Part of the rows of class 0. With few positives, 0.1 saves time and evens the classes.",
        "neg_subsample", high=1, low_open=True, only_with={"data_sample_strategy": "bagging"})
    colsample_bytree: float = _row("float", 1.0, SAMPLING,
        "Part of the features each tree may split on. 0.3 to 0.8 helps with many correlated "
        "features and makes trees cheaper. LightGBM `feature_fraction`.",
        "feature_fraction sub_feature rsm", high=1, low_open=True)
    colsample_bynode: float = _row("float", 1.0, SAMPLING,
        "Part of a tree's features that each node may split on, drawn anew for every node. "
        "LightGBM `feature_fraction_bynode`; scikit-learn's `max_features`.",
        "feature_fraction_bynode sub_feature_bynode max_features", high=1, low_open=True)
    extra_trees: bool = _row("bool", False, SAMPLING,
        "Look at one threshold only of each feature at each node, drawn at random: trees that are "
        "quicker to grow, and less alike. Categories are searched as always. As in LightGBM.",
        "extra_tree")
    drop_rate: float = _row("float", 0.1, SAMPLING,
        "Chance of a tree to be dropped in an iteration of `dart`. XGBoost `rate_drop`.",
        "rate_drop", high=1, only_with={"boosting_type": "dart"})
    skip_drop: float = _row("float", 0.5, SAMPLING,
        "Chance of an iteration of `dart` to drop nothing.",
        high=1, only_with={"boosting_type": "dart"})
    max_drop: int = _row("int", 50, SAMPLING,
        "Most iterations whose trees are dropped at once; 0 and below: no limit.",
        low=-MANY, high=MANY, only_with={"boosting_type": "dart"})
    uniform_drop: bool = _row("bool", False, SAMPLING,
        "Drop all trees with the same chance; False: those with larger weights more often.",
        only_with={"boosting_type": "dart"})
    xgboost_dart_mode: bool = _row("bool", False, SAMPLING,
        "Weights of new and dropped trees as XGBoost has them (`normalize_type=\"tree\"`).",
        only_with={"boosting_type": "dart"})
    monotone_constraints: tuple[Any, ...] | None = _row("directions", None, CONSTRAINTS,
        "1 where predictions may only rise with a feature, -1 where they may only fall, 0 where "
        "they may do both: for all features in their order, or by name for some. Holds for "
        "every pair of rows that differ in that feature alone. See constraints.md.",
        "mc monotone_constraint monotonic_cst", optional=True)
    monotone_constraints_method: str = _row("choice", "basic", CONSTRAINTS,
        "`basic` puts both sides of a split apart at the middle of their outputs, for good. "
        "`intermediate` bounds a leaf by the leaves beside it alone: it fits closer, and takes "
        "longer, since each split changes the bounds of others. LightGBM's names.",
        "monotone_constraining_method mc_method", choices=("basic", "intermediate"))
    interaction_constraints: str | tuple[Any, ...] | None = _row("groups", None, CONSTRAINTS,
        "Groups of features that may follow each other from the root to a leaf: "
        "`[[0, 1], [\"age\", \"income\"]]`. Features that no group names are one more group, as "
        "in scikit-learn. `\"no_interactions\"`: one feature per path, an additive model.",
        "interaction_cst", optional=True)
    path_smooth: float = _row("float", 0.0, CONSTRAINTS,
        "Draws the output of a leaf of n rows towards its parent's, which counts `path_smooth` "
        "rows: (n * output + path_smooth * parent) / (n + path_smooth). Helps small leaves. As in "
        "LightGBM.")
    feature_contri: tuple[float, ...] | None = _row("floats", None, CONSTRAINTS,
        "What each feature's gains are multiplied by: below 1, the feature is split on less "
        "readily; 0 never. LightGBM's name.",
        "feature_contrib fc fp feature_penalty", optional=True)
    max_bin: int = _row("int", 255, BINNING,
        "Most bins a feature's values are sorted into (missing values have their own). Fewer bins "
        "regularise slightly and train faster; 63 is often as accurate. CatBoost `border_count`.",
        "max_bins border_count", low=2, high=255,
        reason=": a bin is a byte, one of whose values is for missing ones")
    bin_sample_rows: int = _row("int", 200_000, BINNING,
        "Rows looked at to place the bin edges; all of them when the data has fewer. Raise it when "
        "rare values matter. LightGBM `bin_construct_sample_cnt`.",
        "bin_construct_sample_cnt subsample_for_bin", low=1, high=MANY)
    max_cat_levels: int = _row("int", 64, CATEGORIES,
        "Categories of more levels than this (or than `max_bin`) become numbers, statistics of the "
        "label; those of fewer are split by subsets of levels. Up to `max_bin` levels of 25 rows "
        "or more, on average, are split by subsets, too, where these gain 64 times as much. Raise "
        "it where levels matter in other ways in different places and each has hundreds of rows. "
        "CatBoost's `one_hot_max_size` draws the same line.", low=1, high=255)
    cat_smooth: float = _row("float", 10.0, CATEGORIES,
        "Levels of a category are sorted by gradient / (hessian + `cat_smooth`): rare levels come "
        "to the middle and are split off last. As in LightGBM.")
    cat_l2: float = _row("float", 10.0, CATEGORIES,
        "L2 penalty added to `reg_lambda` in the gain of a split by a subset of levels, which is "
        "chosen among many. Not paid by splits of one level against the rest. As in LightGBM. "
        "Where a category became statistics, all splits pay of it if there are above 10,000 rows.")
    max_cat_threshold: int = _row("int", 32, CATEGORIES,
        "Most levels on the smaller side of a split. Raise it for categories with many levels that "
        "each have many rows. As in LightGBM.", low=1, high=255)
    max_cat_to_onehot: int = _row("int", 4, CATEGORIES,
        "Categories of at most this many levels (the missing one counted) are split one level "
        "against the rest. As in LightGBM.", low=1, high=255)
    min_data_per_group: int = _row("int", 100, CATEGORIES,
        "Fewest rows by which the next subset that is tried is larger, and fewest on the other "
        "side. Counted as a share of the hessian, as `min_child_samples` is. As in LightGBM.",
        low=1, high=MANY)
    gradient_bits: int | None = _row("int", 4, QUANTIZED,
        "Bits of the integers that gradients are rounded to. 2 and 3 may lose accuracy, 4 rarely "
        "does, 8 is close to full precision; None trains with about 24 bits. From 2 to 6 the time "
        "is much the same. LightGBM's `num_grad_quant_bins` counts intervals instead: b bits are "
        "its 2^b - 2.",
        "grad_bits num_grad_bits", low=2, high=8, optional=True)
    rounding: str = _row("choice", "stochastic", QUANTIZED,
        "How gradients become integers. `stochastic` is right on average, so errors cancel in "
        "sums; `nearest` is biased and mostly useful to see how much that matters. "
        "LightGBM `stochastic_rounding`.", choices=("stochastic", "nearest"))
    refit_leaves: bool = _row("bool", True, QUANTIZED,
        "Compute the final leaf values from the unrounded gradients. Costs one pass over the "
        "rows. LightGBM `quant_train_renew_leaf`.", "quant_train_renew_leaf")
    gradient_scale: str = _row("choice", "robust", QUANTIZED,
        "What the integers reach to: the largest gradient, at `max` (the paper's) with the levels "
        "of the bits, at `robust` with up to 127 where nearly all gradients are far smaller than "
        "it. So a few huge ones (heavy-tailed targets) do not flatten all others to zero. With K "
        "classes (`multiclass`, `multiclassova`, a function with `num_class`) `robust` has sqrt(K) "
        "times the levels of gradients (up to 127), and the fourth root's of hessians. Two "
        "classes, or one against all, have up to three times those of gradients where they are "
        "easy to tell.",
        choices=("max", "robust"))
    packed: bool = _row("bool", True, QUANTIZED,
        "Sum gradient and hessian together in one integer. Turning it off is slower and gives the "
        "same model: a check and a yardstick, not a tuning knob.", affects_model=False)
    num_class: int | None = _row("int", None, OBJECTIVE,
        "Number of classes; labels are 0 to `num_class` - 1. None: taken from the labels. Needed "
        "when the training rows may lack some class.",
        "num_classes", low=2, high=MANY, optional=True)
    scale_pos_weight: float = _row("float", 1.0, OBJECTIVE,
        "Weight of the positive class. For imbalanced data try (negatives / positives): ranking "
        "of rows may improve, but probabilities are then no longer calibrated.",
        low_open=True)
    sigmoid: float = _row("float", 1.0, OBJECTIVE,
        "Slope of the logistic function: probability = 1 / (1 + exp(-sigmoid * score)) for "
        "`binary`, and the sharpness of the pairwise loss for `lambdarank`.",
        low_open=True)
    lambdarank_truncation_level: int = _row("int", 30, OBJECTIVE,
        "Pairs count when at least one of the two rows is among this many best-ranked of its "
        "query. Set it a little above the k of the NDCG@k that matters to you.",
        low=1, high=MANY)
    lambdarank_norm: bool = _row("bool", True, OBJECTIVE,
        "Normalise each query's gradients: long ones do not dominate.")
    label_gain: tuple[float, ...] | None = _row("floats", None, OBJECTIVE,
        "Gain of relevance labels 0, 1, 2, ... in NDCG. None: 2^label - 1. Give your own list when "
        "labels are large or that grows too fast.", optional=True)
    quantile_alpha: tuple[float, ...] = _row("floats", (0.9,), OBJECTIVE,
        "Which quantile `quantile` learns, between 0 and 1; several make one model of several "
        "outputs. LightGBM `alpha`.", "quantile", low_open=True, high=1, one_or_more=True)
    non_crossing: bool = _row("bool", False, OBJECTIVE,
        "Sort the predictions of several quantiles row by row, so that they never cross.")
    expectile_alpha: float = _row("float", 0.9, OBJECTIVE,
        "Which expectile `expectile` learns, between 0 and 1; 0.5 is the mean.",
        low_open=True, high=1)
    huber_delta: float = _row("float", 0.9, OBJECTIVE,
        "Distance from the label at which the Huber losses turn from a square into a line: choose "
        "it by the scale of the label's noise. LightGBM `alpha`.", "huber_slope", low_open=True)
    fair_c: float = _row("float", 1.0, OBJECTIVE,
        "Scale of the Fair loss: errors far below it count squared, far above it by their size.",
        low_open=True)
    poisson_max_delta_step: float = _row("float", 0.7, OBJECTIVE,
        "Guard of `poisson` against steps that overshoot: hessians are exp of it times larger.")
    tweedie_variance_power: float = _row("float", 1.5, OBJECTIVE,
        "Power of the mean that the variance grows with: near 1 as counts (Poisson), near 2 as "
        "amounts (gamma).", low=1, high=2)
    focal_gamma: float = _row("float", 2.0, OBJECTIVE,
        "How much `focal` fades rows that are predicted right; 0 is the logistic loss.")
    focal_alpha: float = _row("float", 0.25, OBJECTIVE,
        "Weight of the positive class in `focal`; the negative class has one minus it.",
        low_open=True, high=1)
    is_unbalance: bool = _row("bool", False, OBJECTIVE,
        "Give the positive class the weight (negatives / positives), as `scale_pos_weight` would.",
        "unbalance unbalanced_sets")
    base_score: tuple[float, ...] | None = _row("floats", None, OBJECTIVE,
        "The prediction (a probability, a value) that training starts from, one for all outputs or "
        "one each. None: the best constant, found from the labels.",
        "init_prediction", low=-math.inf, optional=True, one_or_more=True)
    boost_from_average: bool = _row("bool", True, OBJECTIVE,
        "Start from the best constant. False: from a score of zero, unless `base_score` is given.")
    objective_function: Callable[..., Any] | None = _row("callable", None, OBJECTIVE,  # noqa: RUF009
        "The function that was given as `objective`; see losses.md.", optional=True)
    eval_metric: tuple[str | Callable[..., Any], ...] | None = _row("metrics", None, EVALUATION,
        "Metric or metrics computed on the validation data after each iteration. None: the "
        f"objective's own ({_default_metrics()}). 'None', as in LightGBM: none at all. LightGBM "
        "`metric`.",
        "metric metrics", optional=True)
    early_stopping_rounds: int | None = _row("int", None, EVALUATION,
        "Stop when a validation metric has not improved for this many iterations, and keep the "
        "model of the best one. Needs validation data. 20 to 100; more for a small learning rate.",
        "early_stopping_round early_stopping n_iter_no_change", low=1, high=MANY, optional=True)
    max_seconds: float | None = _row("float", None, EVALUATION,
        "Stop after the iteration in which this time is over, counted from the call of `train()`; "
        "with validation data the best iteration is kept. How far training gets then depends on "
        "the machine; what it has grown does not.",
        "time_limit", low_open=True, optional=True)
    first_metric_only: bool = _row("bool", False, EVALUATION,
        "Let only the first metric decide about early stopping; the others are still recorded.")
    n_jobs: int | None = _row("int", None, EXECUTION,
        "Threads. None, 0 or -1: all cores this process may use; -2: all but one, and so on; more "
        "than 1024 are cut to that. Never changes the model.",
        "num_threads num_thread nthread nthreads thread_count",
        low=-MANY, high=MANY, optional=True, synonyms={-1: None, 0: None}, affects_model=False)
    device: str = _row("choice", "cpu", EXECUTION, "Where to train: `cuda` is the current GPU, "
        "`cuda:1` GPU 1; `auto` a GPU, if there is one with room and at least 50,000 rows for it; "
        "`reference` is slow, plain NumPy, for checking. All give the same model.",
        "device_type", choices=("cpu", "auto", "cuda", "cuda:0", "reference"),
        hints={"gpu": "cuda"}, affects_model=False)
    histogram_pool_mb: int | None = _row("int", None, EXECUTION,
        "Memory for histograms in MiB, at most. None: 1024 on the CPU, a quarter of the free "
        "memory on a GPU, and no more than half of what rows leave over. With less, more "
        "histograms are built again instead of kept. LightGBM `histogram_pool_size`.",
        "histogram_pool_size", low=1, high=MANY, optional=True, affects_model=False)
    frontier_alpha: float | None = _row("float", None, EXECUTION,
        "Expert: part of the promising nodes expanded in one round. Larger means fewer rounds and "
        "a little more work thrown away. None: 0.25 with one or two threads of the CPU, 0.5 with "
        "more, 0.6 on a GPU, 0.75 over ranks.",
        high=1, low_open=True, optional=True, affects_model=False)
    verbosity: int = _row("int", 0, EXECUTION,
        "1 prints the metrics of each iteration and a summary to standard error, 10 those of every "
        "tenth; 0 prints nothing but warnings, -1 not even those. True is 1, False is 0.",
        "verbose", low=-1, high=MANY, or_bool=True, affects_model=False)
    progress: bool = _row("bool", False, EXECUTION,
        "Show a progress bar with the time left and the metrics.", affects_model=False)
    distributed: str = _row("choice", "data", DISTRIBUTED,
        "With several ranks: `data` sums the histograms of all features, which gives the model of "
        "one machine. `voting` (PV-Tree) sums those of the features that ranks vote for: fewer "
        "bytes, but the model may depend on the number of ranks. LightGBM `tree_learner`.",
        "tree_learner", choices=("data", "voting"))
    top_k: int = _row("int", 20, DISTRIBUTED,
        "Features each rank votes for at each node with `distributed=\"voting\"`; twice as many "
        "are summed. Larger is closer to `data` and sends more.",
        "topk", low=1, high=MANY)
    distributed_timeout: float = _row("float", 60.0, DISTRIBUTED,
        "With several ranks: seconds to wait for a silent rank before training ends everywhere "
        "with an error that names it. Must exceed the time the slowest rank computes alone.",
        "comm_timeout", low_open=True, affects_model=False)

    @property
    def leaf_penalty(self) -> float:
        """reg_lambda, once the objective has said its own where nobody gave one."""
        return self.reg_lambda or 0.0
# fmt: on


PARAMETERS: tuple[Parameter, ...] = tuple(
    Parameter(name=f.name, **f.metadata) for f in fields(TrainParams)
)
BY_NAME: dict[str, Parameter] = {p.name: p for p in PARAMETERS}
CANONICAL: dict[str, str] = {name: p.name for p in PARAMETERS for name in (p.name, *p.aliases)}
