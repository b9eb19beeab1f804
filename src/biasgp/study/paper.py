"""The numbers that the paper prints."""

from __future__ import annotations

TABLE1: dict[str, dict[str, float]] = {
    "1d": {"rab": 0.2994, "cob": 0.2674, "mcmc": 0.2601, "ep": 0.2598},
    "friedman": {"rab": 1.9074, "cob": 0.4209, "mcmc": 2.2994, "ep": 7.8828},
}
"""Mean MSE under scenario 1, by data set and method."""

TABLE2: dict[tuple[str, float], dict[str, tuple[float, float, float]]] = {
    ("no_ppb", 0.1): {"cob": (0.1104, 0.3605, 51), "mcmc": (0.0436, -0.7021, 1070), "ep": (0.5024, 2.0554, 206)},
    ("no_ppb", 0.2): {"cob": (0.1974, 0.6078, 53), "mcmc": (0.0978, 0.2193, 961), "ep": (0.5267, 1.3589, 175)},
    ("o3_ppb", 0.1): {"cob": (9.2467, 13.1931, 40), "mcmc": (9.3090, 6.4755, 983), "ep": (160.2542, 3.9824, 168)},
    ("o3_ppb", 0.2): {"cob": (5.5220, 4.3783, 50), "mcmc": (8.0989, 2.2006, 833), "ep": (126.9505, 6.8298, 991)},
}
"""MSE, NLPD and seconds on the paper's own campaign, by response, share of replaced records, and method."""

FIGURE3 = (0.0268, 0.1299, 0.7276)
"""Variances under the random bias model in Figure 3: of most readings, and of the two outliers."""
