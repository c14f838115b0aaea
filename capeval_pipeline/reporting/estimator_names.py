"""How estimators of the best mixture are called, in tables and figures alike; in the order in which they are shown."""

ESTIMATORS = {
    "headline": "the answer (luck removed)",
    "bias_corrected": "bias corrected",
    "bracket_interpolation": "inside the bracket",
    "pgm": "topic model",
    "gaussian": "gaussian",
    "jackknife": "jackknife",
    "extrapolation_half": "extrapolated, root",
    "extrapolation_fitted": "extrapolated, fitted",
    "beta_binomial": "beta-binomial (a warning)",
    "cross_fit": "cross-fit (lower end)",
    "naive": "naive (biased, upper end)",
}
