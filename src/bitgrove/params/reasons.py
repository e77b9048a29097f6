"""Why each default is what it is: one sentence per parameter, for the reference page.

Owns REASONS. Where nothing was measured here the sentence says whose value it is. Parameters that
are None or False by default need none: that is how they are off, or left to the data.
"""

from __future__ import annotations

_LIGHTGBM = "LightGBM's."
_ALL = "All of them: a draw is for you to ask for."

REASONS: dict[str, str] = {
    "n_estimators": "Where LightGBM, XGBoost and scikit-learn start, too.",
    "boosting_type": "What is meant by boosting everywhere else.",
    "learning_rate": "LightGBM's and scikit-learn's.",
    "random_state": "Two trainings are the same unless you ask for another.",
    "num_leaves": "LightGBM's and scikit-learn's.",
    "max_depth": "`num_leaves` is the limit, as in LightGBM.",
    "min_child_samples": "LightGBM's and scikit-learn's.",
    "min_child_weight": "LightGBM's; 1 was worse beyond noise on two of 26 tables, on one by a "
    "quarter (paper.md), and `max_delta_step` guards instead.",
    "min_split_gain": "Any gain counts, as in LightGBM and XGBoost; its scale is the loss's.",
    "reg_lambda": "LightGBM's; 1 was worse beyond noise on two to four of 26 tables and better on "
    "six or seven (paper.md), so it is advice, not the default.",
    "reg_alpha": "No penalty, as in LightGBM and XGBoost.",
    "max_delta_step": "The one guard that was worse than LightGBM's defaults on none of 26 tables "
    "and diverged on none (paper.md).",
    "subsample": _ALL,
    "subsample_freq": "`subsample` works at once; LightGBM's 0 ignores it silently.",
    "data_sample_strategy": "The plain draw, as everywhere else.",
    "top_rate": _LIGHTGBM,
    "other_rate": _LIGHTGBM,
    "pos_bagging_fraction": _ALL,
    "neg_bagging_fraction": _ALL,
    "colsample_bytree": _ALL,
    "colsample_bynode": _ALL,
    "drop_rate": _LIGHTGBM,
    "skip_drop": _LIGHTGBM,
    "max_drop": _LIGHTGBM,
    "monotone_constraints_method": "The faster of the two, and LightGBM's.",
    "path_smooth": "No smoothing, as in LightGBM.",
    "max_bin": "A bin fits a byte, with one value left for missing ones; LightGBM's.",
    "bin_sample_rows": "LightGBM's; edges of more rows differ little.",
    "max_cat_levels": "Among many subsets the best one looks good by chance alone (categories.md).",
    "cat_smooth": _LIGHTGBM,
    "cat_l2": "LightGBM's; beside statistics no other value was better everywhere (categories.md).",
    "max_cat_threshold": _LIGHTGBM,
    "max_cat_to_onehot": _LIGHTGBM,
    "min_data_per_group": _LIGHTGBM,
    "gradient_bits": "With the robust scale the fewest that lost nothing beyond noise on light and "
    "heavy tails; fewer save hardly any time (paper.md).",
    "rounding": "Nearest rounding lost 1.5% to 22% at 2 bits on all eight of the paper's sets "
    "(paper.md).",
    "refit_leaves": "Without it ranking lost 1% at 4 bits and regression 0.2% (paper.md).",
    "gradient_scale": "It lost nothing on 18 tables; `max` lost up to 2.7% (paper.md).",
    "packed": "Half as many additions.",
    "scale_pos_weight": "Rows count what they count, so that probabilities stay calibrated.",
    "sigmoid": "The logistic function itself.",
    "lambdarank_truncation_level": _LIGHTGBM,
    "lambdarank_norm": _LIGHTGBM,
    "quantile_alpha": _LIGHTGBM,
    "expectile_alpha": "The same level as `quantile_alpha`.",
    "huber_delta": "LightGBM's; the scale of your label decides.",
    "fair_c": _LIGHTGBM,
    "poisson_max_delta_step": "LightGBM's and XGBoost's.",
    "tweedie_variance_power": "LightGBM's and XGBoost's: midway between counts and amounts.",
    "focal_gamma": "That of the paper on focal loss (Lin et al., 2017).",
    "focal_alpha": "That of the paper on focal loss (Lin et al., 2017).",
    "boost_from_average": "The first trees need not learn a constant.",
    "device": "There is always a CPU; the model is the same.",
    "frontier_alpha": "A round costs little on the CPU, more on a GPU, most between ranks.",
    "verbosity": "A library does not talk unasked.",
    "distributed": "The model of one machine.",
    "top_k": _LIGHTGBM,
    "distributed_timeout": "Long enough for a slow step, short enough to notice a lost rank.",
}
