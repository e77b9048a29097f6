"""Parameters of other libraries that are none of ours.

Owns: switches that can be given because they ask for what happens anyway (or, as the seeds of
single steps, for nothing that another value would make better), and names that are known from
elsewhere but not supported. Receives a name that the table has not; returns what to say about it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bitgrove.errors import ParameterError, UnknownParameterError
from bitgrove.params.table import CANONICAL

LIGHTGBM, XGBOOST, CATBOOST = "LightGBM", "XGBoost", "CatBoost"
BOTH = "LightGBM and XGBoost"


def _any(value: object) -> bool:
    return True


def _one_of(*allowed: object) -> Callable[[object], bool]:
    def accepts(value: object) -> bool:
        return any(type(value) is type(known) and value == known for known in allowed)

    return accepts


def _nothing_or_nan(value: object) -> bool:
    return value is None or (isinstance(value, (float, np.floating)) and math.isnan(value))


# Who has it, which values change nothing, and what to do instead of the others.
_SWITCHES: dict[str, tuple[str, Callable[[object], bool], str]] = {}


def _switch(names: str, whose: str, accepts: Callable[[object], bool], instead: str = "") -> None:
    _SWITCHES.update(dict.fromkeys(names.split(), (whose, accepts, instead)))


_switch("tree_method", XGBOOST, _one_of("hist", "auto", "approx", None),
        "device='cuda' trains on a GPU")  # fmt: skip
_switch("grow_policy", XGBOOST, _one_of("lossguide", "Lossguide", None),
        "trees grow best-first; num_leaves and max_depth bound them")  # fmt: skip
_switch("num_parallel_tree", XGBOOST, _one_of(1, None))
_switch("missing", XGBOOST, _nothing_or_nan, "give missing values as NaN")
_switch("use_missing", LIGHTGBM, _one_of(True, None))
_switch("zero_as_missing linear_tree pred_early_stop predict_disable_shape_check", LIGHTGBM,
        _one_of(False, None))  # fmt: skip
_switch("reg_sqrt", LIGHTGBM, _one_of(False, None), "give np.sqrt of the label")
_switch("multi_error_top_k", LIGHTGBM, _one_of(1, None))
_switch("is_provide_training_metric training_metric is_training_metric train_metric", LIGHTGBM,
        _one_of(False, None), "give the training set among valid_sets")  # fmt: skip
_switch("snapshot_freq save_period", LIGHTGBM, _one_of(-1, 0, None),
        "callbacks=[checkpoint(path, every=n)]")  # fmt: skip
_switch("lambdarank_unbiased training strict_shape approx_contribs", XGBOOST, _one_of(False, None))
_switch("validate_features", BOTH, _one_of(True, None), "columns are always compared by name")
_switch("use_quantized_grad stochastic_rounding", LIGHTGBM, _one_of(True, None),
        "see gradient_bits and rounding")  # fmt: skip
_switch(
    "deterministic force_row_wise force_col_wise feature_pre_filter is_enable_sparse enable_bundle "
    "pre_partition two_round enable_sparse is_enable_bundle bundle pred_early_stop_freq "
    "pred_early_stop_margin",
    LIGHTGBM, _any,
)  # fmt: skip
_switch(
    "bagging_seed bagging_fraction_seed feature_fraction_seed data_random_seed data_seed "
    "extra_seed drop_seed objective_seed seed_per_iteration",
    BOTH, _any,
)  # fmt: skip
_switch(
    "use_label_encoder validate_parameters predictor silent single_precision_histogram use_rmm "
    "enable_categorical disable_default_eval_metric",
    XGBOOST, _any,
)  # fmt: skip
_switch("allow_writing_files allow_const_label", CATBOOST, _any)

# Who has it, and what to use here, if anything.
_ELSEWHERE: dict[str, tuple[str, str]] = {}


def _elsewhere(names: str, whose: str, instead: str = "") -> None:
    _ELSEWHERE.update(dict.fromkeys(names.split(), (whose, instead)))


_elsewhere(
    "monotone_penalty "
    "forcedsplits_filename forcedbins_filename max_bin_by_feature min_data_in_bin "
    "linear_lambda refit_decay_rate cegb_tradeoff cegb_penalty_split "
    "cegb_penalty_feature_lazy cegb_penalty_feature_coupled auc_mu_weights "
    "lambdarank_position_bias_regularization",
    LIGHTGBM,
)
_elsewhere("num_grad_quant_bins", LIGHTGBM, "gradient_bits: b bits are its 2^b - 2")
_elsewhere("machines num_machines local_listen_port machine_list_filename", LIGHTGBM,
           "ranks come from MPI or Dask")  # fmt: skip
_elsewhere("gpu_platform_id gpu_device_id num_gpu gpu_use_dp", LIGHTGBM, "device='cuda:1'")
_elsewhere("eval_at ndcg_eval_at ndcg_at", LIGHTGBM, "eval_metric=['ndcg@5', 'ndcg@10']")
_elsewhere("colsample_bylevel feature_weights", XGBOOST,
           "colsample_bytree samples features")  # fmt: skip
_elsewhere("one_drop sample_type normalize_type", XGBOOST, "uniform_drop and xgboost_dart_mode")
_elsewhere("multi_strategy max_cached_hist_node refresh_leaf process_type updater feature_selector "
           "aft_loss_distribution aft_loss_distribution_scale lambdarank_bias_norm "
           "lambdarank_score_normalization extmem_single_page", XGBOOST)  # fmt: skip
_elsewhere("lambdarank_normalization", XGBOOST, "lambdarank_norm")
_elsewhere("ntree_limit", XGBOOST, "num_iteration")
_elsewhere("gpu_id", XGBOOST, "device='cuda:1'")
_elsewhere("n_iterations", CATBOOST, "n_estimators")
_elsewhere("depth", CATBOOST, "max_depth and num_leaves")
_elsewhere("task_type devices", CATBOOST, "device='cuda'")
_elsewhere("ntree_start ntree_end", CATBOOST, "start_iteration and num_iteration")
_elsewhere("prediction_type", CATBOOST, "raw_score, or predict_proba of BitGroveClassifier")
_elsewhere("classes_count", CATBOOST, "num_class")
_elsewhere("eval_fraction", CATBOOST, "validation_fraction of the estimators")
_elsewhere("save_snapshot snapshot_file snapshot_interval", CATBOOST,
           "callbacks=[checkpoint(path)], and resume_from")  # fmt: skip
_elsewhere("gpu_ram_part used_ram_limit", CATBOOST, "histogram_pool_mb")
_elsewhere("max_ctr_complexity simple_ctr combinations_ctr ctr_target_border_count "
           "counter_calc_method", CATBOOST, "max_cat_levels, where statistics begin")  # fmt: skip
_elsewhere("od_wait od_type od_pval use_best_model", CATBOOST, "early_stopping_rounds")
_elsewhere(
    "cat_features", CATBOOST, "categorical_feature (Dataset), categorical_features (estimators)"
)
_elsewhere("class_weights auto_class_weights", CATBOOST, "class_weight of BitGroveClassifier")
_elsewhere("one_hot_max_size", CATBOOST, "max_cat_to_onehot")
_elsewhere("feval", BOTH, "eval_metric=f, called as f(label, prediction)")
_elsewhere("eval_train_metric", LIGHTGBM, "train() with the training set among valid_sets")
_elsewhere("feature_name", LIGHTGBM, "feature_names of the Dataset")
_elsewhere("categorical_feature", LIGHTGBM,
           "categorical_feature of the Dataset, categorical_features of estimators")  # fmt: skip
_elsewhere("learning_rates", LIGHTGBM, "learning_rate: a number, a list or a function of the round")
_elsewhere("position", LIGHTGBM)
_elsewhere("feature_types", XGBOOST, "categorical_feature of the Dataset")
_elsewhere("as_pandas", XGBOOST, "cv(...).to_frame()")
_elsewhere("fobj obj", BOTH, "objective=f, called as f(label, score)")
_elsewhere("custom_metric", "XGBoost and CatBoost", "eval_metric, which takes names and functions")
_elsewhere("logging_level metric_period", CATBOOST, "verbosity, or log_evaluation(period)")
_elsewhere("metric_freq output_freq", LIGHTGBM, "log_evaluation(period)")
_elsewhere("importance_type", BOTH, "feature_importance(kind) of the Model")
_elsewhere("scoring", "scikit-learn", "eval_metric")
_elsewhere("tol", "scikit-learn", "callbacks=[early_stopping(n, min_delta=...)]")
_elsewhere("nan_mode text_features embedding_features best_model_min_trees", CATBOOST)
_elsewhere("lambdarank_pair_method lambdarank_num_pair_per_sample", XGBOOST,
           "lambdarank_truncation_level")  # fmt: skip
_elsewhere("ndcg_exp_gain", XGBOOST, "label_gain")
_elsewhere("early_stopping_min_delta", LIGHTGBM, "callbacks=[early_stopping(n, min_delta=...)]")
_elsewhere("random_strength bagging_temperature model_size_reg", CATBOOST)
_elsewhere(
    "leaf_estimation_iterations leaf_estimation_method leaf_estimation_backtracking score_function "
    "random_score_type model_shrink_rate model_shrink_mode feature_border_type input_borders "
    "text_processing "
    "langevin diffusion_temperature posterior_sampling sampling_frequency sampling_unit mvs_reg "
    "has_time fold_len_multiplier fold_permutation_block approx_on_full_history train_dir "
    "penalties_coefficient first_feature_use_penalties per_object_feature_penalties",
    CATBOOST,
)
_elsewhere("ignored_features", CATBOOST, "a table without them")
_elsewhere("custom_loss", CATBOOST, "eval_metric, which takes several")


def check_foreign(owner: str, names: Mapping[str, Any]) -> None:
    """UnknownParameterError for the first argument that is not a switch that changes nothing."""
    for name, value in names.items():
        if not check_switch(name, value):
            reason = known_elsewhere(name) or f"unknown argument {name!r}"
            raise UnknownParameterError(f"{owner}: {reason}")


def check_switch(name: object, value: object) -> bool:
    """Whether it is a switch that changes nothing; ParameterError for a value that would."""
    if name not in _SWITCHES:
        return False
    whose, accepts, instead = _SWITCHES[str(name)]
    if not accepts(value):
        hint = f"; {instead}" if instead else ""
        raise ParameterError(f"{name}={value!r}: known from {whose}, not supported{hint}")
    return True


def known_elsewhere(name: object) -> str | None:
    """What to say about a name that another library has."""
    if name not in _ELSEWHERE:
        return None
    whose, instead = _ELSEWHERE[str(name)]
    hint = f"; use {instead}" if instead else ""
    return f"{name!r} is known from {whose}, not supported{hint}"


def unknown_name(name: object) -> str:
    """What to say about a parameter that neither the table nor the switches have."""
    if known := known_elsewhere(name):
        return f"parameter {known}"
    close = difflib.get_close_matches(str(name), CANONICAL, n=1, cutoff=0.75)
    hint = f"; did you mean {CANONICAL[close[0]]!r}?" if close else ""
    return f"unknown parameter {name!r}{hint}"
