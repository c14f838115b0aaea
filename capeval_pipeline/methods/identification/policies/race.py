"""Certified stopping: survivors answer the same batch, and an arm goes when a paired test proves it not to be the best.

What is paired are residuals where item factors are known, else scores; see `race` for the test and what it saves.
"""

from capeval_pipeline.methods.identification.records import Policy

POLICY = Policy(
    name="race",
    summary="survivors answer the same items, arms go when a paired test proves them not to be the best",
    kind="race",
    draws="shared_order",
    interval="paired_e_value",
)
