"""Scripts as people publish them for LightGBM and XGBoost, after the import and the class names.

`lgb` and `xgb` are bitgrove; LGBMClassifier, XGBClassifier and so on its estimators, DMatrix its
Dataset. Everything else is what the script had.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import accuracy_score, mean_squared_error, roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split

import bitgrove as lgb
import bitgrove as xgb
from bitgrove import BitGroveClassifier as LGBMClassifier
from bitgrove import BitGroveClassifier as XGBClassifier
from bitgrove import BitGroveRanker as LGBMRanker
from bitgrove import BitGroveRegressor as LGBMRegressor
from bitgrove import BitGroveRegressor as XGBRegressor
from bitgrove import Dataset as DMatrix


@pytest.fixture
def cancer() -> Any:
    data = load_breast_cancer(as_frame=True)
    return train_test_split(data.data, data.target, test_size=0.25, random_state=0)


@pytest.fixture
def diabetes() -> Any:
    X, y = load_diabetes(return_X_y=True)
    return train_test_split(X, y, test_size=0.25, random_state=0)


def test_lightgbm_simple_example(cancer: Any, tmp_path: Path) -> None:
    X_train, X_test, y_train, y_test = cancer
    lgb_train = lgb.Dataset(X_train, y_train)
    lgb_eval = lgb.Dataset(X_test, y_test, reference=lgb_train)
    params = {
        "boosting_type": "gbdt",
        "objective": "binary",
        "metric": {"auc", "binary_logloss"},
        "num_leaves": 31,
        "learning_rate": 0.05,
        "feature_fraction": 0.9,
        "bagging_fraction": 0.8,
        "bagging_freq": 5,
        "bagging_seed": 3,
        "force_col_wise": True,
        "verbose": 0,
    }
    gbm = lgb.train(
        params,
        lgb_train,
        num_boost_round=40,
        valid_sets=lgb_eval,
        callbacks=[lgb.early_stopping(stopping_rounds=5)],
    )
    gbm.save_model(tmp_path / "model.txt")
    y_pred = gbm.predict(X_test, num_iteration=gbm.best_iteration)
    assert roc_auc_score(y_test, y_pred) > 0.97
    bst = lgb.load(tmp_path / "model.txt")
    np.testing.assert_array_equal(bst.predict(X_test), y_pred)
    assert gbm.feature_name() == list(X_train.columns)
    assert len(gbm.feature_importance(importance_type="gain")) == gbm.num_feature() == 30


def test_lightgbm_advanced_example(cancer: Any) -> None:
    X_train, X_test, y_train, y_test = (np.asarray(part) for part in cancer)
    names = [f"feature_{i}" for i in range(X_train.shape[1])]
    weight = np.ones(len(y_train))
    lgb_train = lgb.Dataset(
        X_train, y_train, weight=weight, feature_name=names, free_raw_data=False
    )
    lgb_eval = lgb_train.create_valid(X_test, label=y_test)
    params = {"objective": "binary", "metric": "auc", "verbose": -1, "num_threads": 0}
    gbm = lgb.train(params, lgb_train, num_boost_round=10, valid_sets=lgb_train)
    first = gbm.num_trees()
    gbm = lgb.train(params, lgb_train, num_boost_round=10, init_model=gbm, valid_sets=lgb_eval)
    assert gbm.num_trees() == first + 10
    evals_result: dict[str, Any] = {}
    gbm = lgb.train(
        params,
        lgb_train,
        num_boost_round=10,
        init_model=gbm,
        valid_sets=[lgb_train, lgb_eval],
        valid_names=["fit", "held"],
        callbacks=[
            lgb.reset_parameter(learning_rate=lambda i: 0.05 * (0.99**i)),
            lgb.record_evaluation(evals_result),
            lgb.log_evaluation(period=0),
        ],
    )
    assert set(evals_result) == {"fit", "held"} and len(evals_result["held"]["auc"]) == 10
    leaves = gbm.predict(X_test, pred_leaf=True)
    assert leaves.shape == (len(X_test), gbm.num_trees())
    raw = gbm.predict(X_test, raw_score=True, start_iteration=0, num_iteration=-1)
    np.testing.assert_array_equal(raw, gbm.predict_raw(X_test))


def test_lightgbm_sklearn_example(diabetes: Any) -> None:
    X_train, X_test, y_train, y_test = diabetes
    gbm = LGBMRegressor(
        num_leaves=31, learning_rate=0.05, n_estimators=60, boosting_type="gbdt", seed=1
    )
    gbm.fit(
        X_train,
        y_train,
        eval_set=[(X_test, y_test)],
        eval_metric="l1",
        callbacks=[lgb.early_stopping(5)],
    )
    y_pred = gbm.predict(X_test, num_iteration=gbm.best_iteration_)
    assert mean_squared_error(y_test, y_pred) ** 0.5 < 70
    assert gbm.booster_.num_trees() == gbm.best_iteration_
    estimator = LGBMRegressor(num_leaves=31, n_estimators=10, verbose=-1)
    grid = GridSearchCV(estimator, {"eta": [0.05, 0.1], "n_estimators": [10, 20]}, cv=3)
    grid.fit(X_train, y_train)
    assert set(grid.best_params_) == {"eta", "n_estimators"}


def test_lightgbm_multiclass_script() -> None:
    X, y = load_iris(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=1)
    params = {
        "objective": "multiclass",
        "num_class": 3,
        "metric": "multi_logloss",
        "min_data_in_leaf": 5,
        "lambda_l2": 1.0,
        "feature_pre_filter": False,
        "deterministic": True,
        "verbosity": -1,
    }
    bst = lgb.train(params, lgb.Dataset(X_train, label=y_train), 30)
    assert accuracy_score(y_test, bst.predict(X_test).argmax(axis=1)) > 0.9


def test_lightgbm_early_stopping_of_a_classifier(cancer: Any) -> None:
    X_train, X_test, y_train, y_test = cancer
    clf = LGBMClassifier(
        objective="binary", n_estimators=200, colsample_bytree=0.8, reg_lambda=1.0, n_jobs=-2,
        random_state=42, importance_type="split", early_stopping_round=8,
    )  # fmt: skip
    clf.fit(
        X_train,
        y_train,
        eval_set=[(X_train, y_train), (X_test, y_test)],
        eval_names=["train", "valid"],
        eval_metric=["auc", "binary_logloss"],
    )
    assert list(clf.evals_result_) == ["train", "valid"]
    assert clf.best_iteration_ < 200 and clf.best_score_["valid"]["auc"] > 0.97
    proba = clf.predict_proba(X_test)[:, 1]
    assert roc_auc_score(y_test, proba) > 0.97
    importance = pd.Series(clf.feature_importances_, index=clf.feature_names_in_)
    assert importance.nlargest(5).min() > 0


def test_lightgbm_ranker() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    y = np.clip(np.round(X[:, 0] + 1), 0, 3).astype(int)
    group = [20] * 30
    ranker = LGBMRanker(objective="lambdarank", n_estimators=10, verbose=-1)
    ranker.fit(X, y, group=group, eval_set=[(X[:100], y[:100])], eval_group=[[20] * 5])
    assert np.corrcoef(ranker.predict(X), X[:, 0])[0, 1] > 0.7


def test_xgboost_train(cancer: Any, tmp_path: Path) -> None:
    X_train, X_test, y_train, y_test = cancer
    dtrain = DMatrix(X_train, label=y_train)
    dtest = DMatrix(X_test, label=y_test)
    param = {
        "max_depth": 4,
        "eta": 0.3,
        "objective": "binary:logistic",
        "tree_method": "hist",
        "eval_metric": "auc",
        "seed": 7,
        "nthread": 2,
    }
    evals_result: dict[str, Any] = {}
    bst = xgb.train(
        param,
        dtrain,
        num_boost_round=50,
        evals=[(dtrain, "train"), (dtest, "eval")],
        early_stopping_rounds=5,
        evals_result=evals_result,
        verbose_eval=False,
    )
    preds = bst.predict(dtest)
    assert roc_auc_score(y_test, preds) > 0.97
    assert list(evals_result) == ["train", "eval"]
    assert bst.best_iteration < 50 and bst.best_score["eval"]["auc"] > 0.97
    bst.save_model(tmp_path / "0001.model")
    assert set(bst.get_score(importance_type="gain")) <= set(X_train.columns)
    more = xgb.train(param, dtrain, num_boost_round=3, xgb_model=tmp_path / "0001.model")
    assert more.num_boosted_rounds() == bst.num_boosted_rounds() + 3


def test_xgboost_classifier(cancer: Any, tmp_path: Path) -> None:
    X_train, X_test, y_train, y_test = cancer
    model = XGBClassifier(
        n_estimators=100, max_depth=4, learning_rate=0.2, subsample=0.8, gamma=0.1,
        use_label_encoder=False, eval_metric="logloss", early_stopping_rounds=5, booster="gbtree",
        min_child_weight=1, reg_alpha=0, reg_lambda=1, missing=np.nan, grow_policy="lossguide",
    )  # fmt: skip
    model.fit(X_train, y_train, eval_set=[(X_train, y_train), (X_test, y_test)], verbose=False)
    assert accuracy_score(y_test, model.predict(X_test)) > 0.92
    model.save_model(tmp_path / "model.json")
    again = XGBClassifier()
    again.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict_proba(X_test), model.predict_proba(X_test))
    assert model.get_booster().num_boosted_rounds() == model.best_iteration_


def test_xgboost_regressor(diabetes: Any) -> None:
    X_train, X_test, y_train, y_test = diabetes
    xg_reg = XGBRegressor(
        objective="reg:squarederror", colsample_bytree=0.5, learning_rate=0.1, max_depth=5,
        alpha=10, n_estimators=50, seed=123, verbosity=0, validate_parameters=True,
    )  # fmt: skip
    weights = np.ones(len(y_test))
    xg_reg.fit(
        X_train, y_train, eval_set=[(X_test, y_test)], sample_weight_eval_set=[weights], verbose=0
    )
    assert mean_squared_error(y_test, xg_reg.predict(X_test)) ** 0.5 < 70
    longer = XGBRegressor(n_estimators=5).fit(X_train, y_train, xgb_model=xg_reg)
    assert longer.n_iter_ == 55


def test_xgboost_multiclass() -> None:
    X, y = load_iris(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    dtrain, dtest = DMatrix(X_train, label=y_train), DMatrix(X_test, label=y_test)
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3, "min_data": 5}
    bst = xgb.train(params, dtrain, 20, evals=[(dtest, "test")], verbose_eval=0)
    assert accuracy_score(y_test, bst.predict(dtest).argmax(axis=1)) > 0.9


def test_watchlist_by_place(cancer: Any) -> None:
    """XGBoost's own walkthrough: pairs as parameters, the watchlist as the fourth argument."""
    X_train, X_test, y_train, y_test = cancer
    dtrain = DMatrix(data=X_train, label=y_train, missing=np.nan, enable_categorical=True)
    dtest = DMatrix(X_test, y_test, nthread=2)
    param = {"max_depth": 2, "eta": 1, "objective": "binary:logistic"}
    bst = xgb.train(list(param.items()), dtrain, 2, [(dtest, "eval"), (dtrain, "train")])
    assert list(bst.info.evals_result) == ["eval", "train"]
    lgb_eval = lgb.Dataset(data=X_test, label=y_test, params={})
    gbm = lgb.train({"objective": "binary"}, dtrain, 2, [lgb_eval])
    assert list(gbm.info.evals_result) == ["valid_0"]
    margin = np.full(len(y_test), 0.5)
    assert (DMatrix(X_test, y_test, base_margin=margin).init_score == margin).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [({"missing": -999}, "missing=-999"), ({"params": {"max_bin": 63}}, r"given to train\(\)"),
     ({"lable": 1}, "unknown argument 'lable'"), ({"data": np.eye(3)}, "'X' and 'data'"),
     ({"cat_features": [0]}, r"known from CatBoost.*use categorical_feature \(Dataset\)")],
)  # fmt: skip
def test_arguments_that_a_dataset_has_not(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DMatrix(np.eye(3), **given)
    with pytest.raises(ValueError, match="X, the table, was not given"):
        DMatrix(label=[1, 2])
    with pytest.raises(TypeError, match=r"X='train.svm' is a path; Dataset.from_parquet"):
        DMatrix("train.svm", label=[1, 2])


@pytest.mark.parametrize(
    ("name", "instead"),
    [("feval", r"eval_metric=f, called as f\(label, prediction\)"),
     ("obj", r"objective=f, called as f\(label, score\)"), ("custom_metric", "eval_metric"),
     ("categorical_feature", "categorical_feature of the Dataset")],
)  # fmt: skip
def test_functions_under_other_names(name: str, instead: str) -> None:
    data = DMatrix(np.eye(3), [0, 1, 2])
    with pytest.raises(ValueError, match=f"{name}.*{instead}"):
        lgb.train({"objective": "regression"}, data, **{name: lambda a, b: ("m", 0.0, True)})


def test_attributes_and_pictures_by_their_names(cancer: Any) -> None:
    X_train, X_test, y_train, y_test = cancer
    model = XGBClassifier(n_estimators=3).fit(X_train, y_train, eval_set=[(X_test, y_test)])
    assert model.feature_name_ == list(X_train.columns)
    assert list(model.evals_result()["valid_0"]) == ["logloss"]
    pytest.importorskip("matplotlib").use("Agg")
    assert lgb.plot_importance(model, max_features=3).get_title()
    assert lgb.plotting.plot_tree is lgb.plot_tree


def test_xgboost_keywords_of_predict(cancer: Any) -> None:
    X_train, X_test, y_train, _ = cancer
    model = XGBClassifier(n_estimators=8).fit(X_train, y_train)
    booster = model.get_booster()
    margin = model.predict(X_test, output_margin=True)
    assert (margin == model.decision_function(X_test)).all()
    assert (booster.predict(DMatrix(X_test), output_margin=True, nthread=1) == margin).all()
    some = model.predict_proba(X_test, iteration_range=(0, 5))
    assert (some == model.predict_proba(X_test, num_iteration=5)).all()
    part = {"start_iteration": 2, "num_iteration": 3}
    later = booster.predict(X_test, iteration_range=(2, 5))
    assert (later == booster.predict(X_test, **part)).all() and not (later == some[:, 1]).all()
    everything = booster.predict(X_test, iteration_range=(0, 0), pred_contribs=True)
    assert (everything == booster.predict(X_test, pred_contrib=True)).all()
    with pytest.raises(ValueError, match="one thing twice"):
        booster.predict(X_test, raw_score=True, output_margin=True)
    assert (model.predict_proba(X_test, base_margin=None) == model.predict_proba(X_test)).all()
    for name in ("base_margin", "init_score"):
        for predict in (booster.predict, booster.predict_raw, model.predict, model.predict_proba):
            with pytest.raises(ValueError, match=rf"{name}: .*; add them to predict\(X, raw_score"):
                predict(X_test, **{name: np.zeros(len(X_test))})
    with pytest.raises(ValueError, match="strict_shape=True: known from XGBoost, not supported"):
        booster.predict(X_test, strict_shape=True)


def test_parts_of_a_dataset_by_their_methods(cancer: Any) -> None:
    X, _, y, _ = cancer
    data = lgb.Dataset(X).set_label(y).set_weight(np.ones(len(y)))
    assert (data.get_label() == y).all() and (data.get_weight() == 1).all()
    assert data.get_group() is None and data.get_init_score() is None
    assert (data.num_data(), data.num_feature()) == (data.num_row(), data.num_col()) == X.shape
    params = {"objective": "binary", "n_estimators": 3}
    assert lgb.train(params, data).digest() == lgb.train(params, DMatrix(X, y)).digest()
    data.set_group([len(y)]).set_init_score(np.zeros(len(y)))
    assert data.get_group().tolist() == [len(y)] and (data.get_init_score() == 0).all()
    with pytest.raises(ValueError, match=f"label has 3 entries but X has {len(y)} rows"):
        data.set_label([1, 2, 3])


def test_a_frame_of_cv(cancer: Any) -> None:
    X, _, y, _ = cancer
    with pytest.raises(ValueError, match=r"as_pandas.*cv\(...\).to_frame\(\)"):
        xgb.cv({"objective": "binary:logistic"}, DMatrix(X, y), as_pandas=True)


def test_catboost_losses(diabetes: Any) -> None:
    X_train, X_test, y_train, y_test = diabetes
    low, high = (
        LGBMRegressor(loss_function=f"Quantile:alpha={alpha}", iterations=20, eval_metric="MAE")
        .fit(X_train, y_train, eval_set=(X_test, y_test))
        .predict(X_test)
        for alpha in (0.1, 0.9)
    )
    assert (low < y_test).mean() > 0.7 > 0.3 > (high < y_test).mean()
    same = LGBMRegressor(objective="quantile", alpha=0.1, iterations=20).fit(X_train, y_train)
    np.testing.assert_array_equal(same.predict(X_test), low)
