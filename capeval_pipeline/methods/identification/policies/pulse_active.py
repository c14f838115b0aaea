"""PULSE that draws uncertain items more often, gated by the gain the draws so far promise."""

from capeval_pipeline.methods.identification.records import Policy

POLICY = Policy(
    name="pulse_active",
    summary="weighted single-step estimates plus count bonus, gated active draws",
    estimate="weighted_steps",
    bonus="count",
    draws="active",
)
