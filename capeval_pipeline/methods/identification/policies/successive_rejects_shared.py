"""Successive rejects (Audibert, Bubeck, Munos 2010) on one order of items for all arms.

It must know its budget beforehand, so a curve of it is one run a budget, not one run read at many counts.
"""

from capeval_pipeline.methods.identification.records import Policy

POLICY = Policy(
    name="successive_rejects_shared",
    summary="drops the lowest mean in each of K - 1 phases, one order for all arms",
    kind="successive_rejects",
    draws="shared_order",
    interval="",
)
