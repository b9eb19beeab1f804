"""Moves of two readings at once: where f rests on few, an outlier and its neighbour can hold each other in place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from biasgp.models.sparse.labels import Support

COUPLED = 0.2
"""Readings with a larger partial correlation may be moved in pairs."""
MAX_PAIRS = 10
"""How many pairs that look as if they would pay are looked at exactly."""
PAYS = 1e-6


@dataclass(frozen=True)
class Pair:
    """Two readings, and a label for each."""

    rows: tuple[int, int]
    labels: tuple[int, int]


def climb_in_pairs(support: Support) -> int:
    """Move pairs that raise p(y, labels), and single readings after them, until none does; returns how many moves."""
    moves = 0
    while not support.slab.replaced and moves < len(support.y):
        pair = next((pair for pair in promising_pairs(support) if gain(support, pair) > PAYS), None)
        if pair is None:
            break
        for i, label in zip(pair.rows, pair.labels, strict=True):
            support.move(i, label)
        moves += 2 + support.climb(len(support.y))
    return moves


def gain(support: Support, pair: Pair) -> float:
    """How much a pair raises log p(y, labels), exactly."""
    rows = np.array(pair.rows)
    part, _ = support.part(rows, support.labels[rows])
    gained = 0.0
    for k, label in enumerate(pair.labels):
        weights = part.log_weights()[k]
        gained += float(weights[label] - weights[part.labels[k]])
        part.move(k, label)
    return gained


def promising_pairs(support: Support) -> list[Pair]:
    """Pairs that would pay if the group means and the shares stayed as they are, the best first."""
    scale = np.sqrt(support.diagonal)
    i, j = np.nonzero(np.triu(np.abs(support.Q) > COUPLED * np.outer(scale, scale), 1))
    if len(i) == 0:
        return []
    rows = np.column_stack([i, j])
    means, _ = support.posterior_of_means()
    shift, prior = np.array([0.0, *means]), support.log_prior().mean(axis=0)
    # Both readings given all others: residuals from f, and their covariance, the inverse of Q's block.
    own, both = support.labels[rows], np.arange(2)
    K = np.linalg.inv(support.Q[rows[:, :, None], rows[:, None, :]])
    residual = np.einsum("pij,pj->pi", K, (support.Qy - support.U @ means)[rows]) + shift[own]
    K[:, both, both] -= support.added[own]
    n_labels = len(shift)
    value = np.empty((len(rows), n_labels, n_labels))
    for labels in np.ndindex(n_labels, n_labels):
        # In units of each reading's own standard deviation: products of variances may overflow.
        spread = np.sqrt(K[:, both, both] + support.added[list(labels)])
        a, b = ((residual - shift[list(labels)]) / spread).T
        correlation = K[:, 0, 1] / spread[:, 0] / spread[:, 1]
        left = np.maximum(1.0 - correlation**2, np.finfo(float).eps)
        value[:, *labels] = prior[list(labels)].sum() - np.log(spread).sum(axis=1) - 0.5 * np.log(left)
        value[:, *labels] -= 0.5 * (a**2 - 2.0 * correlation * a * b + b**2) / left
    value -= value[np.arange(len(rows)), own[:, 0], own[:, 1]][:, None, None]
    flat = value.reshape(len(rows), -1)
    best = flat.max(axis=1)
    order = [p for p in np.argsort(-best)[:MAX_PAIRS] if best[p] > 0.0]
    return [Pair((int(i[p]), int(j[p])), divmod(int(flat[p].argmax()), n_labels)) for p in order]
