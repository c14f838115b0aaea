"""PULSE with one order of items for all arms and the variance bonus.

Rows stay arm-local: with a common order, pooling the control weight would look at other arms' answers to the very items
still to come, so its pseudo-pairs come from held-out training models.
"""

from capeval_pipeline.methods.identification.records import Policy

POLICY = Policy(
    name="pulse_shared_order",
    summary="weighted single-step estimates plus variance bonus, one order for all arms",
    estimate="weighted_steps",
    bonus="variance",
    draws="shared_order",
)
