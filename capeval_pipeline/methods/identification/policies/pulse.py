"""PULSE: weighted single-step estimates plus the count bonus, independent orders.

The count bonus and not the variance bonus, because with useless predictions the policy then is UCB-E to rounding.
"""

from capeval_pipeline.methods.identification.records import Policy

POLICY = Policy(
    name="pulse",
    summary="weighted single-step estimates plus count bonus",
    estimate="weighted_steps",
    bonus="count",
)
