"""Bradley-Terry strengths from weighted win matrices, many fits at once.

A weighted Bradley-Terry fit sees its data only through the matrix of weighted wins, so the cost of a fit does not
depend on the number of comparisons. Building win matrices belongs to the callers (`ranking`, `ecc`).
"""

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from capeval_pipeline.errors import ConvergenceError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

GRADIENT_LIMIT = 1e-6
"""No fit leaves this module with a larger gradient entry."""

# Up to here a batched LAPACK solve beats conjugate gradients; above, the Laplacian of a well filled comparison graph is
# so well conditioned that a few dozen products with it replace a factorisation of cubic cost.
LARGEST_DIRECT_SOLVE = 400


@dataclass(frozen=True)
class BradleyTerryFit:
    """Strengths on the logit scale and how well they solve the equations.

    strengths : (n_models,) or (n_fits, n_models), as the wins were given
    max_gradient : largest absolute entry of each fit's gradient, () or (n_fits,)
    objective : negative log-likelihood plus ridge term, () or (n_fits,)
    n_steps : Newton steps of the slowest fit
    """

    strengths: FloatArray
    max_gradient: FloatArray
    objective: FloatArray
    n_steps: int


def fit_bradley_terry(
    wins: npt.ArrayLike,
    *,
    ridge: float,
    prior: npt.ArrayLike = 0.0,
    start: npt.ArrayLike | None = None,
    tolerance: float = 1e-9,
    max_steps: int = 200,
) -> BradleyTerryFit:
    """Fit Bradley-Terry strengths by damped Newton steps, all win matrices at once.

    Minimises, for each matrix W, -sum_ab W[a, b] log sigma(t_a - t_b) + ridge/2 |t - prior|^2. The log-likelihood is
    concave (Zermelo 1929; Hunter 2004, Annals of Statistics 32), so the minimum is unique where it exists.

    Parameters
    ----------
    wins : (n_models, n_models) or (n_fits, n_models, n_models)
        Weighted wins of the row's model over the column's, >= 0; the diagonal is ignored.
    ridge : float
        >= 0. At 0 the strengths of each connected component are centred at 0.
    prior : scalar, (n_models,) or (n_fits, n_models)
        Where the ridge pulls to.
    start : like the strengths, optional
        First guess; by default the log-odds of the share of wins.
    tolerance : float
        Steps stop when no gradient entry is larger (in units of wins), or when rounding hides further progress.

    Raises
    ------
    ValueError
        Wrong shapes, negative or non-finite wins.
    ConvergenceError
        Strengths that are not finite without a ridge (a group of models that never lost to the rest), or a gradient
        entry above 1e-6 after `max_steps`.
    """
    stacked = np.ascontiguousarray(wins, dtype=np.float64)
    is_single = stacked.ndim == 2
    if is_single:
        stacked = stacked[None]
    if stacked.ndim != 3 or stacked.shape[1] != stacked.shape[2]:
        raise ValueError(f"wins: shape {np.shape(wins)}; expected (n, n) or (k, n, n)")
    if not ridge >= 0.0:
        raise ValueError(f"ridge: {ridge}; expected >= 0")
    n_fits, n_models, _ = stacked.shape
    # One reduction finds negative, NaN and infinite entries without a temporary the size of the matrix.
    if stacked.size and not (stacked.min() >= 0.0 and np.isfinite(stacked.max())):
        raise ValueError("wins: negative or non-finite entries; expected weights >= 0")
    target = np.broadcast_to(np.asarray(prior, dtype=np.float64), (n_fits, n_models)).copy()
    if n_models == 0 or n_fits == 0:
        empty = np.zeros(n_fits)
        strengths = np.zeros((n_fits, n_models))
        return _pack(strengths, empty, empty.copy(), 0, is_single=is_single)
    components = None if ridge > 0.0 else np.stack([_finite_components(matrix) for matrix in stacked])
    if start is None:
        strengths = np.stack([_log_odds_of_wins(m, ridge, t) for m, t in zip(stacked, target, strict=True)])
    else:
        strengths = np.broadcast_to(np.asarray(start, dtype=np.float64), (n_fits, n_models)).copy()
    if components is not None:
        strengths = _centre_by_component(strengths, components)
    max_gradient, objective, n_steps = _newton(
        stacked, strengths, ridge, target, components, tolerance=tolerance, max_steps=max_steps
    )
    worst = float(max_gradient.max())
    if not worst <= GRADIENT_LIMIT:
        worst_fit = int(np.argmax(max_gradient))
        raise ConvergenceError(
            f"Bradley-Terry: largest gradient entry of fit {worst_fit} is {worst:.1e} after {n_steps} steps; "
            f"expected <= {GRADIENT_LIMIT:.0e}"
        )
    return _pack(strengths, max_gradient, objective, n_steps, is_single=is_single)


def comparison_components(wins: npt.ArrayLike) -> IntArray:
    """Number the connected parts of the graph "was compared with".

    wins : (n_models, n_models), any non-zero entry in either direction is an edge. Returns (n_models,) labels; 0 is the
    largest part, equal sizes in the order of their first model.
    """
    matrix = np.asarray(wins) != 0
    _, labels = connected_components(csr_matrix(matrix | matrix.T), directed=False)
    sizes = np.bincount(labels, minlength=1)
    _, first = np.unique(labels, return_index=True)
    order = np.lexsort((first, -sizes))
    renumbered = np.empty(len(sizes), dtype=np.int64)
    renumbered[order] = np.arange(len(sizes))
    return renumbered[labels]


def separated_models(wins: npt.ArrayLike) -> tuple[BoolArray, BoolArray]:
    """Find models that won, or lost, every one of their comparisons: their strength has no finite estimate.

    wins : (n_models, n_models). Returns (always_won, always_lost), each (n_models,); a model without any comparison
    is neither.
    """
    matrix = np.asarray(wins, dtype=np.float64)
    diagonal = np.diag(matrix)
    won, lost = matrix.sum(axis=1) - diagonal, matrix.sum(axis=0) - diagonal
    return (won > 0) & (lost == 0), (lost > 0) & (won == 0)


def _pack(
    strengths: FloatArray, max_gradient: FloatArray, objective: FloatArray, n_steps: int, *, is_single: bool
) -> BradleyTerryFit:
    if is_single:
        return BradleyTerryFit(strengths[0], max_gradient[0], objective[0], n_steps)
    return BradleyTerryFit(strengths, max_gradient, objective, n_steps)


def _finite_components(wins: FloatArray) -> IntArray:
    """Components of the comparison graph; refuses those whose strengths are infinite without a ridge (Ford 1957)."""
    off_diagonal = wins.copy()
    np.fill_diagonal(off_diagonal, 0.0)
    labels = comparison_components(off_diagonal)
    n_strong, _ = connected_components(csr_matrix(off_diagonal), directed=True, connection="strong")
    if n_strong > labels.max() + 1:
        raise ConvergenceError(
            "Bradley-Terry: without a ridge strengths are infinite, because some models never lost to the others"
        )
    return labels


def _centre_by_component(values: FloatArray, components: IntArray) -> FloatArray:
    centred = values.copy()
    for fit in range(len(values)):
        sums = np.bincount(components[fit], weights=values[fit])
        centred[fit] -= (sums / np.bincount(components[fit]))[components[fit]]
    return centred


def _log_odds_of_wins(wins: FloatArray, ridge: float, target: FloatArray) -> FloatArray:
    """First guess. A model that always won starts near its far-away strength instead of walking a unit a step."""
    diagonal = np.diag(wins)
    won, lost = wins.sum(axis=1) - diagonal, wins.sum(axis=0) - diagonal
    pseudo = 0.5 if ridge == 0.0 else max(0.25 * ridge, 1e-3)
    odds = np.log((won + pseudo) / (lost + pseudo))
    # Same sum as the solution: at the minimum the ridge's pull sums to zero.
    return odds - odds.mean() + target.mean()


@numba.njit(nogil=True, cache=True)
def _derivatives(
    wins: FloatArray, strengths: FloatArray, ridge: float, prior: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> float:
    """Objective of one fit; fills its gradient and Hessian. One exponential a pair of models."""
    n = strengths.shape[0]
    loss = 0.0
    for a in range(n):
        offset = strengths[a] - prior[a]
        loss += 0.5 * ridge * offset * offset
        gradient[a] = ridge * offset
        hessian[a, a] = ridge
    for a in range(n):
        for b in range(a):
            won, lost = wins[a, b], wins[b, a]
            if won == 0.0 and lost == 0.0:
                hessian[a, b] = 0.0
                hessian[b, a] = 0.0
                continue
            gap = strengths[a] - strengths[b]
            tail = np.exp(-abs(gap))
            larger = 1.0 / (1.0 + tail)
            smaller = tail * larger
            softplus = np.log1p(tail)
            if gap >= 0.0:
                loss += won * softplus + lost * (gap + softplus)
                pull = lost * larger - won * smaller
            else:
                loss += won * (softplus - gap) + lost * softplus
                pull = lost * smaller - won * larger
            curvature = (won + lost) * larger * smaller
            gradient[a] += pull
            gradient[b] -= pull
            hessian[a, a] += curvature
            hessian[b, b] += curvature
            hessian[a, b] = -curvature
            hessian[b, a] = -curvature
    return loss


def derivatives_reference(
    wins: FloatArray, strengths: FloatArray, ridge: float, prior: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Objective, gradient and Hessian of one fit, written as in the formula; what the kernel is tested against."""
    gaps = strengths[:, None] - strengths[None, :]
    off_diagonal = wins * (1.0 - np.eye(len(wins)))
    win_probability = 1.0 / (1.0 + np.exp(-gaps))
    loss = float(-(off_diagonal * np.log(win_probability)).sum() + 0.5 * ridge * ((strengths - prior) ** 2).sum())
    surprise = off_diagonal * (1.0 - win_probability)
    gradient = -surprise.sum(axis=1) + surprise.sum(axis=0) + ridge * (strengths - prior)
    weights = (off_diagonal + off_diagonal.T) * win_probability * (1.0 - win_probability)
    hessian = np.diag(weights.sum(axis=1)) - weights + ridge * np.eye(len(wins))
    return loss, gradient, hessian


def _newton(
    wins: FloatArray,
    strengths: FloatArray,
    ridge: float,
    prior: FloatArray,
    components: IntArray | None,
    *,
    tolerance: float,
    max_steps: int,
) -> tuple[FloatArray, FloatArray, int]:
    """Run damped Newton steps on `strengths` in place; returns (max_gradient, objective, n_steps)."""
    n_fits, n_models, _ = wins.shape
    gradient = np.empty((n_fits, n_models))
    hessian = np.empty((n_fits, n_models, n_models))
    objective = np.empty(n_fits)
    for fit in range(n_fits):
        objective[fit] = _derivatives(wins[fit], strengths[fit], ridge, prior[fit], gradient[fit], hessian[fit])
    max_gradient = np.abs(gradient).max(axis=1)
    is_stuck = np.zeros(n_fits, dtype=bool)
    n_steps = 0
    while n_steps < max_steps:
        active = np.flatnonzero((max_gradient > tolerance) & ~is_stuck)
        if len(active) == 0:
            break
        n_steps += 1
        steps = _solve(hessian, gradient, active, components, ridge)
        for position, fit in enumerate(active.tolist()):
            moved = _damped_step(
                wins[fit], strengths[fit], steps[position], ridge, prior[fit], objective[fit], max_gradient[fit],
                gradient[fit], hessian[fit],
            )  # fmt: skip
            if moved is None:
                is_stuck[fit] = True
            else:
                objective[fit], max_gradient[fit] = moved
    return max_gradient, objective, n_steps


def _damped_step(
    wins: FloatArray,
    strengths: FloatArray,
    step: FloatArray,
    ridge: float,
    prior: FloatArray,
    objective: float,
    max_gradient: float,
    gradient: FloatArray,
    hessian: FloatArray,
) -> tuple[float, float] | None:
    """Halve the step while the objective rises; None (and nothing moved) when rounding hides any progress."""
    rounding = 1e-12 * abs(objective)
    scale = 1.0
    for _ in range(40):
        candidate = strengths - scale * step
        candidate_objective = float(_derivatives(wins, candidate, ridge, prior, gradient, hessian))
        candidate_gradient = float(np.abs(gradient).max())
        if candidate_objective < objective - rounding or (
            candidate_objective <= objective + rounding and candidate_gradient < max_gradient
        ):
            strengths[:] = candidate
            return candidate_objective, candidate_gradient
        if abs(candidate_objective - objective) <= rounding and max_gradient <= GRADIENT_LIMIT:
            break
        scale *= 0.5
    _derivatives(wins, strengths, ridge, prior, gradient, hessian)
    return None


def _solve(
    hessian: FloatArray, gradient: FloatArray, active: IntArray, components: IntArray | None, ridge: float
) -> FloatArray:
    """Newton directions of the active fits, (n_active, n_models)."""
    n_models = gradient.shape[1]
    if n_models > LARGEST_DIRECT_SOLVE:
        return np.stack([_conjugate_gradients(hessian[fit], gradient[fit]) for fit in active])
    matrices = hessian[active]
    if components is not None:
        # The Laplacian is singular along each component's constant vector; adding that vector's square fixes the
        # gauge and leaves the solution alone, since the gradient sums to zero within a component.
        same = components[active][:, :, None] == components[active][:, None, :]
        matrices = (
            matrices
            + same * np.maximum(matrices[:, range(n_models), range(n_models)].max(axis=1), 1e-300)[:, None, None]
        )
    if len(active) == 1:
        factor = scipy.linalg.cho_factor(matrices[0], lower=True, check_finite=False)
        solution: FloatArray = scipy.linalg.cho_solve(factor, gradient[active[0]], check_finite=False)[None]
        return solution
    return np.asarray(np.linalg.solve(matrices, gradient[active][:, :, None])[:, :, 0], dtype=np.float64)


def _conjugate_gradients(matrix: FloatArray, right_side: FloatArray, relative_tolerance: float = 1e-8) -> FloatArray:
    """Solve a positive (semi-)definite system; scaled by the diagonal so that separated models converge too."""
    inverse_diagonal = 1.0 / np.maximum(np.diag(matrix), 1e-300)
    solution: FloatArray = np.zeros(len(right_side))
    residual = right_side.copy()
    scaled = inverse_diagonal * residual
    direction = scaled.copy()
    energy = float(residual @ scaled)
    target = relative_tolerance**2 * energy
    for _ in range(4 * len(right_side)):
        if energy <= target or energy == 0.0:
            break
        product = matrix @ direction
        curvature = float(direction @ product)
        if curvature <= 0.0:
            break
        length = energy / curvature
        solution += length * direction
        residual -= length * product
        scaled = inverse_diagonal * residual
        previous, energy = energy, float(residual @ scaled)
        direction = scaled + (energy / previous) * direction
    return solution
