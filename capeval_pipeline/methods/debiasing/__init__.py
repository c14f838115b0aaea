"""Oracle values without the luck of taking maxima: one module an estimator, all in DEBIASERS.

An estimator takes an OracleProblem and returns an OracleEstimate; all but `naive` need two draws a cell and raise
ValueError with one. Which of them may be quoted is decided in `verdict`.
"""

from collections.abc import Callable

from capeval_pipeline.methods.debiasing.beta_binomial import beta_binomial
from capeval_pipeline.methods.debiasing.cross_fit_estimator import cross_fit
from capeval_pipeline.methods.debiasing.draws import DrawTable
from capeval_pipeline.methods.debiasing.estimates import OracleEstimate
from capeval_pipeline.methods.debiasing.extrapolation import extrapolation_fitted, extrapolation_half, jackknife
from capeval_pipeline.methods.debiasing.gaussian import gaussian
from capeval_pipeline.methods.debiasing.model_based import bias_corrected, bracket_interpolation, pgm
from capeval_pipeline.methods.debiasing.naive import naive
from capeval_pipeline.methods.debiasing.problem import OracleProblem

DEBIASERS: dict[str, Callable[[OracleProblem], OracleEstimate]] = {
    "naive": naive,
    "cross_fit": cross_fit,
    "extrapolation_half": extrapolation_half,
    "extrapolation_fitted": extrapolation_fitted,
    "jackknife": jackknife,
    "gaussian": gaussian,
    "beta_binomial": beta_binomial,
    "pgm": pgm,
    "bracket_interpolation": bracket_interpolation,
    "bias_corrected": bias_corrected,
}

__all__ = ["DEBIASERS", "DrawTable", "OracleEstimate", "OracleProblem"]
