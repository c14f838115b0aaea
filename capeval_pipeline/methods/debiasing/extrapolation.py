"""Extrapolating the curve O(g) to infinitely many draws, with a decay that is assumed or fitted.

The intercept is a fixed weighting of the curve for a given decay, so it has per-item contributions and an ordinary
standard error. Where O(g) is flat (the blind zone) no curve method can see the bias.
"""

import numpy as np
from numpy.typing import NDArray

from capeval_pipeline.methods.debiasing.estimates import OracleEstimate, mean_of_items
from capeval_pipeline.methods.debiasing.problem import OracleProblem

FloatArray = NDArray[np.float64]
EXPONENTS: FloatArray = np.linspace(0.25, 0.75, 51)


def extrapolation_half(problem: OracleProblem) -> OracleEstimate:
    """O(g) = O + a g^−½, least squares over all g."""
    items = problem.curve_items @ intercept_weights(problem.draws.n_generations, 0.5)
    return mean_of_items(items, "the bias decays as the root of the number of draws, as where all models are equal")


def extrapolation_fitted(problem: OracleProblem) -> OracleEstimate:
    """O(g) = O + a g^−λ, λ on [.25, .75] by least squares (½ with two draws, where every λ fits)."""
    curve = problem.curve_items.mean(axis=0)
    exponent = fitted_exponent(curve)
    items = problem.curve_items @ intercept_weights(len(curve), exponent)
    return mean_of_items(items, f"the bias decays with exponent {exponent:.2f}, fitted between .25 and .75")


def jackknife(problem: OracleProblem) -> OracleEstimate:
    """G·O(G) − (G−1)·O(G−1), that is a decay with exponent 1."""
    n_generations = problem.draws.n_generations
    if n_generations < 2:
        raise ValueError("the jackknife needs two draws a cell")
    items = n_generations * problem.curve_items[:, -1] - (n_generations - 1) * problem.curve_items[:, -2]
    return mean_of_items(items, "the bias decays as one over the number of draws")


def intercept_weights(n_generations: int, exponent: float) -> FloatArray:
    """Weights w with intercept = w · O(1…G) in the least-squares fit of O + a g^−exponent."""
    if n_generations < 2:
        raise ValueError("extrapolation needs two draws a cell")
    decay = np.arange(1, n_generations + 1) ** -exponent
    centred = decay - decay.mean()
    return np.asarray(1.0 / n_generations - decay.mean() * centred / (centred @ centred))


def fitted_exponent(curve: FloatArray) -> float:
    """The exponent on [.25, .75] with the smallest sum of squared residuals."""
    if len(curve) < 3:
        return 0.5
    losses = []
    for exponent in EXPONENTS:
        decay = np.arange(1, len(curve) + 1) ** -exponent
        design = np.stack([np.ones_like(decay), decay], axis=1)
        residual = curve - design @ np.linalg.lstsq(design, curve, rcond=None)[0]
        losses.append(float(residual @ residual))
    return float(EXPONENTS[int(np.argmin(losses))])
