"""
Pipelines and cross-validation
==============================

The estimators are scikit-learn's in every respect: they go into pipelines, grid searches and cross-validation. Only the
score needs thought: a test fold has outliers too, and a squared error would reward the model that follows them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import make_scorer, median_absolute_error
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from biasgp import GaussianGP, SparseBiasGP
from biasgp.data import simulate
from biasgp.kernels import Exponential, Matern32, SquaredExponential

data = simulate("1d", 6, n=240, random_state=3)
robust = make_scorer(median_absolute_error, greater_is_better=False)

scores = {}
for model in (GaussianGP(), SparseBiasGP(order=None)):
    pipeline = make_pipeline(StandardScaler(), model)
    scores[type(model).__name__] = -cross_val_score(pipeline, data.X, data.y, cv=3, scoring=robust)
for name, score in scores.items():
    print(f"{name}: median absolute error {score.mean():.3f} ± {score.std() / np.sqrt(len(score)):.3f}")

# %%
# A grid search over kernels, in a pipeline:

pipeline = make_pipeline(StandardScaler(), SparseBiasGP(order=None))
kernels = [Exponential(), Matern32(), SquaredExponential()]
search = GridSearchCV(pipeline, {"sparsebiasgp__kernel": kernels}, scoring=robust, cv=3).fit(data.X, data.y)
names = [type(kernel).__name__ for kernel in kernels]
figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
spread = search.cv_results_["std_test_score"] / np.sqrt(3)
axis.errorbar(names, -search.cv_results_["mean_test_score"], yerr=spread, fmt="o", capsize=4)
axis.set(ylabel="median absolute error", title="3-fold cross-validation, standard errors")
print("chosen:", type(search.best_params_["sparsebiasgp__kernel"]).__name__)
