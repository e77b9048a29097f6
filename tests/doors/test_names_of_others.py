"""Names of other libraries: they mean what they mean there, or say what to use here."""

from __future__ import annotations

import inspect
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import bitgrove as bg
from bitgrove.errors import ParameterError
from bitgrove.model import spellings
from bitgrove.params import CANONICAL, peers, resolve

X, Y = load_breast_cancer(return_X_y=True)
SMALL = {"n_estimators": 5, "n_jobs": 1}
# What steers a training, as their pages of parameters list it; without files and the command line.
LIGHTGBM = """
objective boosting data_sample_strategy num_iterations learning_rate num_leaves tree_learner
num_threads device_type seed deterministic force_col_wise force_row_wise histogram_pool_size
max_depth min_data_in_leaf min_sum_hessian_in_leaf bagging_fraction pos_bagging_fraction
neg_bagging_fraction bagging_freq bagging_seed bagging_by_query feature_fraction
feature_fraction_bynode feature_fraction_seed extra_trees extra_seed early_stopping_round
early_stopping_min_delta first_metric_only max_delta_step lambda_l1 lambda_l2 linear_lambda
min_gain_to_split drop_rate max_drop skip_drop xgboost_dart_mode uniform_drop drop_seed top_rate
other_rate min_data_per_group max_cat_threshold cat_l2 cat_smooth max_cat_to_onehot top_k
monotone_constraints monotone_constraints_method monotone_penalty feature_contri
forcedsplits_filename refit_decay_rate cegb_tradeoff cegb_penalty_split cegb_penalty_feature_lazy
cegb_penalty_feature_coupled path_smooth interaction_constraints verbosity snapshot_freq
use_quantized_grad num_grad_quant_bins quant_train_renew_leaf stochastic_rounding linear_tree
max_bin max_bin_by_feature min_data_in_bin bin_construct_sample_cnt data_random_seed
is_enable_sparse enable_bundle use_missing zero_as_missing feature_pre_filter pre_partition
two_round categorical_feature forcedbins_filename predict_disable_shape_check pred_early_stop
pred_early_stop_freq pred_early_stop_margin objective_seed num_class is_unbalance scale_pos_weight
sigmoid boost_from_average reg_sqrt alpha fair_c poisson_max_delta_step tweedie_variance_power
lambdarank_truncation_level lambdarank_norm label_gain lambdarank_position_bias_regularization
metric metric_freq is_provide_training_metric eval_at multi_error_top_k auc_mu_weights num_machines
local_listen_port machine_list_filename machines gpu_platform_id gpu_device_id gpu_use_dp num_gpu
"""
XGBOOST = """
booster device verbosity validate_parameters nthread disable_default_eval_metric eta gamma
max_depth min_child_weight max_delta_step subsample sampling_method colsample_bytree
colsample_bylevel colsample_bynode lambda alpha tree_method scale_pos_weight updater refresh_leaf
process_type grow_policy max_leaves max_bin num_parallel_tree monotone_constraints
interaction_constraints multi_strategy max_cached_hist_node extmem_single_page max_cat_to_onehot
max_cat_threshold sample_type normalize_type rate_drop one_drop skip_drop feature_selector top_k
tweedie_variance_power huber_slope quantile_alpha expectile_alpha aft_loss_distribution
aft_loss_distribution_scale lambdarank_pair_method lambdarank_num_pair_per_sample
lambdarank_normalization lambdarank_score_normalization lambdarank_unbiased lambdarank_bias_norm
ndcg_exp_gain objective base_score eval_metric seed seed_per_iteration use_rmm feature_types
feature_weights enable_categorical missing gpu_id predictor
"""
CATBOOST = """
iterations learning_rate depth l2_leaf_reg model_size_reg rsm loss_function border_count
feature_border_type input_borders fold_permutation_block od_pval od_wait od_type nan_mode
counter_calc_method leaf_estimation_iterations leaf_estimation_method thread_count random_seed
use_best_model verbose silent logging_level metric_period max_ctr_complexity has_time
allow_const_label classes_count class_weights auto_class_weights one_hot_max_size random_strength
random_score_type ignored_features train_dir custom_loss custom_metric eval_metric
bagging_temperature save_snapshot snapshot_file snapshot_interval fold_len_multiplier
used_ram_limit gpu_ram_part allow_writing_files approx_on_full_history boosting_type simple_ctr
combinations_ctr ctr_target_border_count task_type devices bootstrap_type subsample mvs_reg
sampling_unit sampling_frequency max_depth n_estimators num_boost_round num_trees
colsample_bylevel random_state reg_lambda objective eta max_bin scale_pos_weight
early_stopping_rounds cat_features grow_policy min_data_in_leaf min_child_samples max_leaves
num_leaves score_function leaf_estimation_backtracking monotone_constraints feature_weights
penalties_coefficient first_feature_use_penalties per_object_feature_penalties model_shrink_rate
model_shrink_mode langevin diffusion_temperature posterior_sampling boost_from_average
text_features text_processing embedding_features eval_fraction best_model_min_trees
"""


def small(**params: Any) -> bg.BitGroveClassifier:
    return bg.BitGroveClassifier(**{**SMALL, **params})


@pytest.mark.parametrize("names", [LIGHTGBM, XGBOOST, CATBOOST])
def test_no_parameter_of_theirs_is_just_unknown(names: str) -> None:
    known = CANONICAL.keys() | peers._SWITCHES.keys() | peers._ELSEWHERE.keys()
    assert not set(names.split()) - known


def test_switches_that_change_nothing() -> None:
    switches = {
        "boosting_type": "gbdt", "tree_method": "hist", "deterministic": True, "bagging_seed": 3,
        "force_row_wise": True, "missing": np.nan, "use_label_encoder": False, "reg_sqrt": False,
        "snapshot_freq": -1, "pred_early_stop": False, "lambdarank_unbiased": False,
    }  # fmt: skip
    plain = small().fit(X, Y)
    switched = small(**switches)
    assert switched.get_params() == plain.get_params()
    assert switched.fit(X, Y).model_ == plain.model_
    assert resolve({**switches, "objective": "binary"}) == resolve({"objective": "binary"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"grow_policy": "depthwise"}, "grow_policy='depthwise': known from XGBoost, not support"),
        ({"tree_method": "gpu_hist"}, "not supported; device='cuda' trains on a GPU"),
        ({"missing": -999}, "missing=-999: known from XGBoost, not supported; give missing"),
        ({"sample_type": "weighted"}, "'sample_type' is known from XGBoost, not supported"),
        ({"cegb_tradeoff": 2.0}, "'cegb_tradeoff' is known from LightGBM, not supported"),
        ({"colsample_bylevel": 0.5}, "known from XGBoost, not supported; use colsample_bytree"),
        ({"od_wait": 5}, "known from CatBoost, not supported; use early_stopping_rounds"),
        ({"lambdarank_unbiased": True}, "lambdarank_unbiased=True: known from XGBoost, not supp"),
        ({"lambdarank_normalization": True}, "known from XGBoost, not supported; use lambdarank_n"),
        ({"aft_loss_distribution": "normal"}, "'aft_loss_distribution' is known from XGBoost"),
        ({"reg_sqrt": True}, "known from LightGBM, not supported; give np.sqrt of the label"),
        ({"metric_freq": 5}, "known from LightGBM, not supported; use log_evaluation(period)"),
        ({"training_metric": True}, "not supported; give the training set among valid_sets"),
        ({"task_type": "GPU"}, "known from CatBoost, not supported; use device='cuda'"),
        ({"simple_ctr": "Borders"}, "known from CatBoost, not supported; use max_cat_levels"),
        ({"scoring": "r2"}, "known from scikit-learn, not supported; use eval_metric"),
        ({"num_leafs": 3}, "unknown parameter 'num_leafs'; did you mean 'num_leaves'"),
    ],
)
def test_what_others_have_is_named(given: dict[str, Any], message: str) -> None:
    for call in (lambda: resolve(given), lambda: bg.BitGroveRegressor(**given)):
        with pytest.raises(ParameterError) as caught:
            call()
        assert message in str(caught.value)


def test_names_of_others_are_not_our_own() -> None:
    """A name that was added to the table must leave the lists of what is not supported."""
    assert not (set(peers._SWITCHES) | set(peers._ELSEWHERE)) & set(CANONICAL)


def test_a_device_of_others_says_what_it_is_here() -> None:
    with pytest.raises(ParameterError, match=r"device='gpu': must be .*; use device='cuda'"):
        resolve({"device": "gpu"})


def test_keywords_of_others_in_predict() -> None:
    fitted = small().fit(X, Y)
    model = fitted.model_
    named = set(inspect.signature(type(model).predict).parameters) - {"self", "X"}
    assert named == spellings._OURS
    harmless = {"validate_features": True, "training": False, "strict_shape": False}
    np.testing.assert_array_equal(model.predict(X, **harmless), model.predict(X))
    np.testing.assert_array_equal(model.predict(X, thread_count=1), model.predict(X))
    for predict in (model.predict, model.predict_raw, fitted.predict, fitted.predict_proba):
        for given, message in (
            ({"validate_features": False}, "validate_features=False: .*; columns are always comp"),
            ({"ntree_limit": 3}, "predict: 'ntree_limit' is known from XGBoost.*; use num_iter"),
            ({"ntree_end": 3}, "'ntree_end' is known from CatBoost"),
            ({"rawscore": True}, "predict: unknown argument 'rawscore'"),
        ):
            with pytest.raises(ParameterError, match=message):
                predict(X, **given)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Pool", "Dataset"), ("DMatrix", "Dataset"), ("QuantileDMatrix", "Dataset"),
        ("Booster", "Model"), ("LGBMClassifier", "BitGroveClassifier"),
        ("XGBRegressor", "BitGroveRegressor"), ("CatBoostRanker", "BitGroveRanker"),
        ("DaskLGBMRegressor", "dask.BitGroveRegressor"),
    ],
)  # fmt: skip
def test_names_of_other_libraries_say_what_they_are_here(theirs: str, ours: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{theirs}'; here it is {ours}"):
        getattr(bg, theirs)
    assert not hasattr(bg, theirs)


def test_what_names_of_other_libraries_lead_to_is_there() -> None:
    for ours in bg._ELSEWHERE.values():
        if not ours.startswith("dask."):
            assert callable(attrgetter(ours.partition(",")[0])(bg))
