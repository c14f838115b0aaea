"""The probabilistic model of right answers: topics, difficulty classes and cell noise.

Topic z_n ∈ 1…K and difficulty class d_j on an even grid −5…5 with free joint weights π_kj; logit m_lkj = a_lk − d_j;
p_nl | class ~ Beta(s m, s (1 − m)); Y_nl ~ Bin(G_nl, p_nl). Fitted by EM, K by BIC.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, logit

from capeval_pipeline.errors import ConvergenceError
from capeval_pipeline.methods.debiasing.cross_fit import additive_fit

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_DIFFICULTY_RANGE = 5.0
_GRID_SIZES = (13, 25, 49)
# The last stands for cells without noise of their own: at 1e4 a Beta still has a standard deviation of .005, which the
# best of 12 equal models turns into a bias of .006.
CONCENTRATIONS: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1e6)
_APTITUDE_VARIANCE = 1.2**2  # of a model's topics around its mean aptitude
_LEAST_ITERATIONS, _MOST_ITERATIONS = 40, 100
_RISE_PER_ITEM = 1e-3
_CONCENTRATION_ITERATIONS = (6, 18, 30)
_OPEN = 25.0  # log-likelihood below the best at which a concentration is not tried; few EM steps gain as much
_REFINING_STEPS = 6
_LEAST_WEIGHT = 0.02
_MAX_FITTED_ITEMS = 20_000
_STEPS = 20.0  # of a graded cell's mean: far below its noise, and a table that stays small


@dataclass(frozen=True, eq=False)
class TopicModelFit:
    """A fitted model and its posterior over these cells.

    aptitude : (n_models, n_topics), logit scale; class_mean : (n_classes, n_models), the m of the formulas
    class_weight : (n_classes,) = n_topics x difficulty classes; responsibility : (n_items, n_classes), rows sum to 1
    concentration : s; right, total : (n_items, n_models) counts the posterior rests on, total 0 for missing cells
    last_rise : the log-likelihood's last change, per item
    difficulties : (n_classes a topic,) the grid of d
    """

    aptitude: FloatArray
    class_weight: FloatArray
    class_mean: FloatArray
    concentration: float
    responsibility: FloatArray
    right: FloatArray
    total: FloatArray
    log_likelihood: float
    bic: float
    n_iterations: int
    last_rise: float
    difficulties: FloatArray

    @property
    def n_topics(self) -> int:
        return int(self.aptitude.shape[1])

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """One posterior draw of p, (n_items, n_models): a class an item, then independent Betas."""
        cumulative = np.cumsum(self.responsibility, axis=1)
        position = rng.random(len(cumulative)) * cumulative[:, -1]
        mean = self.class_mean[(cumulative < position[:, None]).sum(axis=1)]
        alpha = self.concentration * mean + self.right
        beta = self.concentration * (1.0 - mean) + self.total - self.right
        return np.asarray(rng.beta(alpha, beta))


def fit_topic_model(
    right: FloatArray, total: FloatArray, *, topic_counts: Sequence[int] = (1, 3, 6), seed: int = 0
) -> TopicModelFit:
    """Fit for each number of topics and keep the smallest BIC = −2ℓ + (L K + 13 K/2) ln N.

    right, total : (n_items, n_models) right draws and draws, total 0 where a cell is missing. Need not be whole:
        quasi-counts of graded scores are rounded to twentieths of their total.
    seed : keys the k-means start and, above 20,000 items, the subsample that is fitted

    Raises ConvergenceError where the log-likelihood still rises by more than 1e-3 an item after 100 iterations.
    """
    n_items, n_models = right.shape
    right = np.where(total > 0, right, 0.0)
    chosen = np.arange(n_items)
    if n_items > _MAX_FITTED_ITEMS:
        chosen = np.sort(np.random.default_rng([seed, 1]).choice(n_items, _MAX_FITTED_ITEMS, replace=False))
    best: TopicModelFit | None = None
    for n_topics in sorted({min(count, n_models, len(chosen)) for count in topic_counts}):
        fit = _fit(right[chosen], total[chosen], n_topics, np.random.default_rng([seed, 2, n_topics]))
        if best is None or fit.bic < best.bic:
            best = fit
    if best is None:
        raise ValueError("topic_counts is empty")
    return best if len(chosen) == n_items else _over_all_items(best, right, total)


def _over_all_items(fit: TopicModelFit, right: FloatArray, total: FloatArray) -> TopicModelFit:
    """One blocked E-pass of a fit to a part of the items over all of them."""
    codes, pairs = _encode(right, total)
    table = _log_table(fit.class_mean, fit.concentration, pairs)
    responsibility, _ = _expect(codes, table, np.log(fit.class_weight))
    return replace(fit, responsibility=responsibility, right=right, total=total)


def average_concentrations(
    fit: TopicModelFit, right: FloatArray, total: FloatArray, *, seed: int = 0
) -> list[tuple[float, TopicModelFit]]:
    """The fit at every concentration the draws leave open, with its posterior probability; largest first, sum 1.

    The likelihood is often flat between "a little noise of cells" and none while the bias of the naive oracle differs
    by half (planted: 1000 items of 12 equal models, 5 draws; log-likelihoods .2 apart at s = 64 and no noise, bias
    .16 and .23). Choosing the larger is a coin; so all are kept. Prior: half for no noise, which has one parameter
    less, the other half even over the rest. Each is improved by a few EM steps from the chosen fit; what has less than
    2 % is dropped.
    """
    n_items = len(right)
    chosen = np.arange(n_items)
    if n_items > _MAX_FITTED_ITEMS:
        chosen = np.sort(np.random.default_rng([seed, 1]).choice(n_items, _MAX_FITTED_ITEMS, replace=False))
    part_right, part_total = np.where(total > 0, right, 0.0)[chosen], total[chosen]
    codes, pairs = _encode(part_right, part_total)
    log_weight = np.log(fit.class_weight)
    at_fit = [_expect(codes, _log_table(fit.class_mean, s, pairs), log_weight)[1] for s in CONCENTRATIONS]
    nearby = [s for s, value in zip(CONCENTRATIONS, at_fit, strict=True) if value > max(at_fit) - _OPEN]
    fits = [_at_concentration(fit, s, codes, pairs, part_right, part_total) for s in nearby]
    prior = np.where(np.array(nearby) == CONCENTRATIONS[-1], 0.5, 0.5 / (len(CONCENTRATIONS) - 1))
    log_posterior = np.array([other.log_likelihood for other in fits]) + np.log(prior)
    weights = np.exp(log_posterior - log_posterior.max())
    weights /= weights.sum()
    kept = [index for index in np.argsort(-weights, kind="stable") if weights[index] >= _LEAST_WEIGHT]
    whole = float(weights[kept].sum())
    return [
        (
            float(weights[index]) / whole,
            fits[index] if len(chosen) == n_items else _over_all_items(fits[index], right, total),
        )
        for index in kept
    ]


def _at_concentration(
    fit: TopicModelFit, concentration: float, codes: IntArray, pairs: FloatArray, right: FloatArray, total: FloatArray
) -> TopicModelFit:
    """The fit with another concentration, improved by a few EM steps that leave it as it is."""
    aptitude, weight = fit.aptitude, fit.class_weight
    for step in range(_REFINING_STEPS + 1):
        class_mean = _class_mean(aptitude, fit.difficulties)
        responsibility, log_likelihood = _expect(codes, _log_table(class_mean, concentration, pairs), np.log(weight))
        if step == _REFINING_STEPS:
            break
        weight = (1.0 - 1e-3) * responsibility.mean(axis=0) + 1e-3 / len(weight)
        aptitude = _improve_aptitude(aptitude, fit.difficulties, responsibility, right, total, concentration)
    return replace(
        fit,
        aptitude=aptitude,
        class_weight=weight,
        class_mean=class_mean,
        concentration=concentration,
        responsibility=responsibility,
        right=right,
        total=total,
        log_likelihood=float(log_likelihood),
    )


def _fit(right: FloatArray, total: FloatArray, n_topics: int, rng: np.random.Generator) -> TopicModelFit:
    n_items, n_models = right.shape
    codes, pairs = _encode(right, total)
    difficulties = difficulty_grid(float(np.median(total.sum(axis=1))))
    aptitude = _start_aptitude(right, total, n_topics, rng)
    weight = np.full(n_topics * len(difficulties), 1.0 / (n_topics * len(difficulties)))
    concentration = 8.0
    previous, rise, iteration = -np.inf, np.inf, 0
    while True:
        table = _log_table(_class_mean(aptitude, difficulties), concentration, pairs)
        responsibility, log_likelihood = _expect(codes, table, np.log(weight))
        rise = (log_likelihood - previous) / n_items
        if iteration >= _LEAST_ITERATIONS and rise < _RISE_PER_ITEM:
            break
        if iteration >= _MOST_ITERATIONS:
            raise ConvergenceError(
                f"topic model with {n_topics} topics: the log-likelihood still rose by {rise:.1e} an item after "
                f"{iteration} iterations"
            )
        previous = log_likelihood
        iteration += 1
        # A floor of 1e-3 of the weight keeps every class reachable.
        weight = (1.0 - 1e-3) * responsibility.mean(axis=0) + 1e-3 / len(weight)
        aptitude = _improve_aptitude(aptitude, difficulties, responsibility, right, total, concentration)
        if iteration in _CONCENTRATION_ITERATIONS:
            means, log_weight = _class_mean(aptitude, difficulties), np.log(weight)
            likelihoods = [_expect(codes, _log_table(means, s, pairs), log_weight)[1] for s in CONCENTRATIONS]
            concentration = CONCENTRATIONS[int(np.argmax(likelihoods))]
            previous = max(likelihoods) if iteration >= _LEAST_ITERATIONS else -np.inf
    # Half a parameter for each of 13 classes, whatever the grid: a finer one has no more freedom, only less rounding.
    n_parameters = n_models * n_topics + _GRID_SIZES[0] * n_topics / 2
    bic = -2.0 * log_likelihood + n_parameters * np.log(n_items)
    return TopicModelFit(
        aptitude,
        weight,
        _class_mean(aptitude, difficulties),
        concentration,
        responsibility,
        right,
        total,
        float(log_likelihood),
        float(bic),
        iteration,
        float(rise),
        difficulties,
    )


def difficulty_grid(draws_an_item: float) -> FloatArray:
    """Difficulty classes −5…5, as fine as an item's draws can tell: 13, 25 or 49 of them.

    An item's difficulty is known to about 1/√(.15·draws); a step of more than 2.6 times that would show as noise of
    cells, independent over models, whose maximum is then taken for skill (bias .011 at 10 equal models, 50 draws).
    """
    known_to = 1.0 / np.sqrt(0.15 * max(draws_an_item, 1.0))
    steps = [2.0 * _DIFFICULTY_RANGE / (size - 1) for size in _GRID_SIZES]
    enough = [size for size, step in zip(_GRID_SIZES, steps, strict=True) if step <= 2.6 * known_to]
    size = enough[0] if enough else _GRID_SIZES[-1]
    return np.linspace(-_DIFFICULTY_RANGE, _DIFFICULTY_RANGE, size)


def _class_mean(aptitude: FloatArray, difficulties: FloatArray) -> FloatArray:
    """m of each class (topic-major) and model, (n_classes, n_models)."""
    mean = expit(aptitude.T[:, None, :] - difficulties[None, :, None])
    return np.asarray(mean.reshape(-1, aptitude.shape[0]))


def _encode(right: FloatArray, total: FloatArray) -> tuple[IntArray, FloatArray]:
    """Cells as codes of their distinct (right, total) pairs, −1 where missing: a table row serves all of a kind."""
    is_whole = np.array_equal(right, np.round(right)) and np.array_equal(total, np.round(total))
    with np.errstate(invalid="ignore", divide="ignore"):
        rounded = right if is_whole else np.where(total > 0, np.round(_STEPS * right / total) * total / _STEPS, 0.0)
    both = np.stack([rounded.ravel(), total.ravel()], axis=1)
    pairs, codes = np.unique(both, axis=0, return_inverse=True)
    codes = np.where(total.ravel() > 0, codes.ravel(), -1)
    return np.ascontiguousarray(codes.reshape(right.shape).astype(np.int64)), pairs


def _log_table(class_mean: FloatArray, concentration: float, pairs: FloatArray) -> FloatArray:
    """log beta-binomial without the binomial coefficient, (n_models, n_pairs, n_classes)."""
    alpha = concentration * class_mean.T[:, None, :]
    beta = concentration * (1.0 - class_mean.T)[:, None, :]
    right, total = pairs[None, :, :1], pairs[None, :, 1:]
    # ln B in its three parts: the sum of both arguments is the same for all models and classes.
    table = gammaln(alpha + right) + gammaln(beta + total - right) - gammaln(alpha) - gammaln(beta)
    table -= gammaln(concentration + total) - gammaln(concentration)
    return np.ascontiguousarray(table)


@numba.njit(nogil=True, cache=True)
def _expect(codes, table, log_weight):  # type: ignore[no-untyped-def]
    """E-step: responsibilities (n_items, n_classes) and the log-likelihood (up to the binomial coefficients)."""
    n_items, n_models = codes.shape
    n_classes = log_weight.shape[0]
    responsibility = np.empty((n_items, n_classes))
    log_likelihood = 0.0
    for item in range(n_items):
        row = responsibility[item]
        row[:] = log_weight
        for model in range(n_models):
            code = codes[item, model]
            if code >= 0:
                for k in range(n_classes):
                    row[k] += table[model, code, k]
        highest = row.max()
        total = 0.0
        for k in range(n_classes):
            row[k] = np.exp(row[k] - highest)
            total += row[k]
        for k in range(n_classes):
            row[k] /= total
        log_likelihood += highest + np.log(total)
    return responsibility, log_likelihood


def _improve_aptitude(
    aptitude: FloatArray,
    difficulties: FloatArray,
    responsibility: FloatArray,
    right: FloatArray,
    total: FloatArray,
    concentration: float,
) -> FloatArray:
    """Two Newton steps on the logistic likelihood with over-dispersed counts (weight (1+s)/(G+s) a draw)."""
    n_models, n_topics = aptitude.shape
    weight = (1.0 + concentration) / (total + concentration)
    shape = (n_models, n_topics, len(difficulties))
    right_by_class = ((weight * right).T @ responsibility).reshape(shape)
    total_by_class = ((weight * total).T @ responsibility).reshape(shape)
    for _ in range(2):
        mean = expit(aptitude[:, :, None] - difficulties)
        centre = aptitude.mean(axis=1, keepdims=True)
        gradient = (right_by_class - total_by_class * mean).sum(axis=2) - (aptitude - centre) / _APTITUDE_VARIANCE
        curvature = (total_by_class * mean * (1.0 - mean)).sum(axis=2) + 1.0 / _APTITUDE_VARIANCE
        aptitude = np.clip(aptitude + np.clip(gradient / curvature, -1.0, 1.0), -8.0, 8.0)
    return _shrink_models(aptitude, (total_by_class * mean * (1.0 - mean)).sum(axis=(1, 2)))


def _shrink_models(aptitude: FloatArray, information: FloatArray) -> FloatArray:
    """Pull the models' mean aptitudes together by as much as they would scatter by chance.

    information : (n_models,) Fisher information of a shift of all of a model's aptitudes. Without this the best of L
    equal models stands out by chance in every class, and the simulated truth is too high: by .011 in planted worlds
    of equal means (1000 items, 12 models, 5 draws).
    """
    if len(aptitude) < 3:
        return aptitude
    centre = aptitude.mean(axis=1)
    noise = 1.0 / np.maximum(information, 1e-12)
    signal = max(float(centre.var(ddof=1) - noise.mean()), 0.0)
    weight = signal / (signal + noise)
    return np.asarray(aptitude + ((weight - 1.0) * (centre - centre.mean()))[:, None])


def _start_aptitude(right: FloatArray, total: FloatArray, n_topics: int, rng: np.random.Generator) -> FloatArray:
    """Clusters of items by what is left of the rates without row and column means; a logit of each cluster's rates."""
    with np.errstate(invalid="ignore"):
        rates = np.where(total > 0, right / np.where(total > 0, total, 1.0), np.nan)
    residual = np.where(np.isnan(rates), 0.0, rates - additive_fit(rates))
    left, singular, _ = np.linalg.svd(residual, full_matrices=False)
    cluster = _k_means(left[:, :n_topics] * singular[:n_topics], n_topics, rng)
    known = ~np.isnan(rates)
    filled = np.where(known, rates, 0.0)
    model_mean = filled.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    aptitude = np.empty((right.shape[1], n_topics))
    for topic in range(n_topics):
        members = cluster == topic
        shrunk = (filled[members].sum(axis=0) + 5.0 * model_mean) / (known[members].sum(axis=0) + 5.0)
        aptitude[:, topic] = 1.3 * logit(np.clip(shrunk, 0.02, 0.98))
    return aptitude


def _k_means(points: FloatArray, n_clusters: int, rng: np.random.Generator, n_rounds: int = 30) -> IntArray:
    """Lloyd's rounds from a k-means++ start; an emptied cluster keeps its centre."""
    centres = points[[int(rng.integers(len(points)))]]
    for _ in range(1, n_clusters):
        distance = _squared_distances(points, centres).min(axis=1)
        total = distance.sum()
        position = rng.random() * total
        following = int(np.searchsorted(np.cumsum(distance), position)) if total > 0 else 0
        centres = np.concatenate([centres, points[[min(following, len(points) - 1)]]])
    assigned = np.zeros(len(points), dtype=np.int64)
    for _ in range(n_rounds):
        nearest = _squared_distances(points, centres).argmin(axis=1)
        if np.array_equal(nearest, assigned):
            break
        assigned = nearest
        for cluster in np.unique(assigned):
            centres[cluster] = points[assigned == cluster].mean(axis=0)
    return assigned


def _squared_distances(points: FloatArray, centres: FloatArray) -> FloatArray:
    return np.asarray(((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2))
