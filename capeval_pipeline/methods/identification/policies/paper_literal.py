"""PULSE with the plain average of single-step estimates, as the paper states it.

The average never becomes exact by itself, so the policy takes the exact mean once an arm is exhausted; without that it
would not reach 90 % even with every cell read when predictions are useless.
"""

from capeval_pipeline.methods.identification.records import Policy

POLICY = Policy(
    name="paper_literal",
    summary="plain average of single-step estimates plus count bonus",
    estimate="averaged_steps",
    bonus="count",
)
