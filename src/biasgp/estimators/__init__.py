"""scikit-learn estimators: the only rooms that import sklearn.base."""

from biasgp.estimators.constant_bias import ConstantBiasGP
from biasgp.estimators.gaussian import GaussianGP
from biasgp.estimators.random_bias import RandomBiasGP

__all__ = ["ConstantBiasGP", "GaussianGP", "RandomBiasGP"]
