"""Certified stopping: survivors answer the same batch, a rival goes when a paired e-value proves it lower."""

from capeval_pipeline.methods.identification.records import Policy

POLICY = Policy(
    name="race",
    summary="survivors answer the same items, rivals go when a paired test proves them lower",
    kind="race",
    draws="shared_order",
    interval="paired_e_value",
)
