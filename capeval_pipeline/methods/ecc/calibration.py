"""Small convex fits on the calibration fifth: the calibrated probe, the control's offset, the blend's weights."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capeval_pipeline.errors import ConvergenceError
from capeval_pipeline.methods.bradley_terry import FloatArray
from capeval_pipeline.methods.ecc.evaluation import EvaluationPairs
from capeval_pipeline.methods.ecc.fit import EccFit
from capeval_pipeline.methods.ecc.inference import log_sigmoid, logits_of, mixture_probabilities, place_probes

PROBE_WEIGHTS = (1.0, 1 / 2, 1 / 3, 1 / 7, 1 / 14, 0.03, 0.0)
OFFSET_PENALTY = 0.5e-4
"""Without it the offset is infinite on 0/1 scores, where carried-over pairs are certain."""
BLEND_PENALTY = 1e-3


def fit_logistic(
    features: FloatArray, *, penalty: FloatArray, centre: FloatArray, offset: FloatArray | float = 0.0
) -> FloatArray:
    """Weights w minimising mean log(1 + exp(-(features @ w + offset))) + sum_j penalty_j (w_j - centre_j)^2.

    features : (n_pairs, n_features), signed so that a positive score favours the observed winner
    penalty, centre : (n_features,). Raises ConvergenceError when Newton steps do not settle.
    """
    n_pairs, n_features = features.shape
    weights = centre.astype(np.float64).copy()
    if n_pairs == 0:
        return weights

    def objective(candidate: FloatArray) -> float:
        pulled = float((penalty * (candidate - centre) ** 2).sum())
        return pulled - float(log_sigmoid(features @ candidate + offset).mean())

    value = objective(weights)
    for _ in range(200):
        surprise = np.exp(log_sigmoid(-(features @ weights + offset)))
        gradient = -(features.T @ surprise) / n_pairs + 2.0 * penalty * (weights - centre)
        if np.abs(gradient).max() <= 1e-9:
            return weights
        curvature = surprise * (1.0 - surprise) / n_pairs
        hessian = (features * curvature[:, None]).T @ features + np.diag(2.0 * penalty + 1e-12)
        step = np.linalg.solve(hessian, gradient)
        scale = 1.0
        while scale > 1e-6 and objective(weights - scale * step) > value:
            scale *= 0.5
        if scale <= 1e-6:
            if np.abs(gradient).max() <= 1e-6:
                return weights
            break
        weights = weights - scale * step
        value = objective(weights)
    raise ConvergenceError(f"calibration: {n_features} weights did not settle on {n_pairs} pairs")


@dataclass(frozen=True)
class ProbeCalibration:
    """logit p' = sharpness * logit p_mix(probe_weight) + offset * carry-over sign."""

    probe_weight: float
    sharpness: float
    offset: float
    loss: float


def fit_offset(logits: FloatArray, carry_over: FloatArray) -> float:
    """Offset of carried-over outcomes on top of given logits: the control's gamma, and `linear`'s."""
    weights = fit_logistic(carry_over[:, None], penalty=np.array([OFFSET_PENALTY]), centre=np.zeros(1), offset=logits)
    return float(weights[0])


def calibrate_probe(
    fit: EccFit,
    embeddings: npt.NDArray[np.floating],
    pairs: EvaluationPairs,
    *,
    probe_weights: tuple[float, ...] = PROBE_WEIGHTS,
) -> ProbeCalibration:
    """Choose how much a probe counts, on items the fit has not seen.

    Minimises mean loss + 0.5e-4 offset^2 over (probe_weight from a grid, sharpness, offset). With probe_weights=(0.,)
    it is what the rule for a useful probe compares with: sharpening alone already gains.

    embeddings : (n_items, n_dimensions) of the calibration items that `pairs` number
    """
    best: ProbeCalibration | None = None
    for probe_weight in probe_weights:
        responsibilities = place_probes(
            fit, embeddings, pairs.probe_winner, pairs.probe_loser, probe_weight=probe_weight
        )
        logits = logits_of(
            mixture_probabilities(responsibilities, fit.strengths, pairs.item, pairs.winner, pairs.loser)
        )
        features = np.column_stack([logits, pairs.carry_over])
        sharpness, offset = fit_logistic(features, penalty=np.array([0.0, OFFSET_PENALTY]), centre=np.array([1.0, 0.0]))
        loss = OFFSET_PENALTY * offset**2 - float(
            log_sigmoid(features @ np.array([sharpness, offset])).mean() if len(features) else 0.0
        )
        if best is None or loss < best.loss - 1e-12:
            best = ProbeCalibration(probe_weight, float(sharpness), float(offset), loss)
    if best is None:
        raise ValueError("probe_weights: none given")
    return best


def calibrated_losses(
    calibration: ProbeCalibration, fit: EccFit, embeddings: npt.NDArray[np.floating], pairs: EvaluationPairs
) -> FloatArray:
    """Losses of the pairs under a calibrated probe, (n_pairs,)."""
    responsibilities = place_probes(
        fit, embeddings, pairs.probe_winner, pairs.probe_loser, probe_weight=calibration.probe_weight
    )
    logits = logits_of(mixture_probabilities(responsibilities, fit.strengths, pairs.item, pairs.winner, pairs.loser))
    return -log_sigmoid(calibration.sharpness * logits + calibration.offset * pairs.carry_over)


def fit_blend(logits: FloatArray) -> FloatArray:
    """Weights of a logit blend, (n_components,), summing to whatever predicts best; negative ones are fine.

    logits : (n_pairs, n_components) of the observed winner, each from fits that have not seen these items. Minimises
    mean loss + 1e-3 sum_j (w_j - 1 / n_components)^2.
    """
    n_components = logits.shape[1]
    return fit_logistic(
        logits, penalty=np.full(n_components, BLEND_PENALTY), centre=np.full(n_components, 1.0 / n_components)
    )
