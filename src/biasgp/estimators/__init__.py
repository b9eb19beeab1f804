"""scikit-learn estimators: the only rooms that import sklearn.base.

>>> from biasgp.estimators import METHODS
>>> METHODS["sparse"]().__class__.__name__
'SparseBiasGP'
>>> list(METHODS)
['gp', 'cob', 'rab', 'sparse', 'ep', 'mcmc', 'rcgp']
"""

from biasgp.estimators.base import BaseGP
from biasgp.estimators.cleaning import clean
from biasgp.estimators.constant_bias import ConstantBiasGP
from biasgp.estimators.gaussian import GaussianGP
from biasgp.estimators.random_bias import RandomBiasGP
from biasgp.estimators.robust_conjugate import RobustConjugateGP
from biasgp.estimators.scale_mixture import ScaleMixtureGP
from biasgp.estimators.sparse_bias import SparseBiasGP
from biasgp.estimators.student_t import StudentTGP

__all__ = [
    "METHODS",
    "ConstantBiasGP",
    "GaussianGP",
    "RandomBiasGP",
    "RobustConjugateGP",
    "ScaleMixtureGP",
    "SparseBiasGP",
    "StudentTGP",
    "clean",
]

METHODS: dict[str, type[BaseGP]] = {
    "gp": GaussianGP,
    "cob": ConstantBiasGP,
    "rab": RandomBiasGP,
    "sparse": SparseBiasGP,
    "ep": StudentTGP,
    "mcmc": ScaleMixtureGP,
    "rcgp": RobustConjugateGP,
}
"""By their short names, as the command line and the studies call them."""
