"""The estimator, the intervals and the policies in plain Python: slow, readable, the reference of the kernels.

Only tests use this package. It favours the shape of the formulas over speed and shares no arithmetic with the kernels.

Words: an arm has n items; O are the revealed ones, U the rest, m = |U|, k = n - m; S are scores, p predictions.
"""

from capeval_pipeline.methods.identification.plain.draws import (
    Shrunk,
    centred_sums,
    combine,
    control_weight,
    newton_step,
    shrink,
    single_step_estimate,
)
from capeval_pipeline.methods.identification.plain.intervals import (
    Step,
    bernstein_interval,
    betting_interval,
    freedman_half_width,
    freedman_interval,
    log_wealths,
    predictable_bets,
)
from capeval_pipeline.methods.identification.plain.policies import (
    PlainArm,
    PlainRun,
    run_index_policy,
    run_successive_rejects,
)
from capeval_pipeline.methods.identification.plain.race import paired_log_e, run_race

__all__ = [
    "PlainArm",
    "PlainRun",
    "Shrunk",
    "Step",
    "bernstein_interval",
    "betting_interval",
    "centred_sums",
    "combine",
    "control_weight",
    "freedman_half_width",
    "freedman_interval",
    "log_wealths",
    "newton_step",
    "paired_log_e",
    "predictable_bets",
    "run_index_policy",
    "run_race",
    "run_successive_rejects",
    "shrink",
    "single_step_estimate",
]
