"""A policy as an object that decides the next draws and takes in answers as they come: what a live session asks.

`select` decides a batch, `update` takes in answers in whatever order they arrive, and nothing else changes the state.
The moves are the kernels of the study's replay, so that a session whose answers all arrive before the next decision
makes exactly the pulls of the replay with the same draws.

An answer counts in the order in which it was drawn: an arm's estimate uses the longest answered prefix of its draws, in
the policies that keep arms abreast the longest prefix of items that all survivors have. What comes back first (short,
easy, right) must not decide what counts. An arm has at most one open batch: control weight and predictions are frozen
for it, and the policy decides anew once it is answered.
"""

from __future__ import annotations

from capeval_pipeline.methods.identification.allocation.base import Allocation, AllocationSettings, Batch
from capeval_pipeline.methods.identification.allocation.by_index import IndexAllocation
from capeval_pipeline.methods.identification.allocation.in_rounds import RaceAllocation, SuccessiveRejectsAllocation
from capeval_pipeline.methods.identification.records import Draws, Policy, Predictor

__all__ = ["Allocation", "AllocationSettings", "Batch", "make_allocation"]


def make_allocation(
    policy: Policy, draws: Draws, settings: AllocationSettings, predictor: Predictor | None = None
) -> Allocation:
    """The object that plays a policy live.

    Raises ValueError where the policy needs a predictor or a pull budget that is not given.
    """
    if policy.needs_predictor and predictor is None:
        raise ValueError(f"policy {policy.name!r} needs item factors of training models")
    if policy.kind == "race":
        return RaceAllocation(policy, draws, settings, predictor)
    if policy.kind == "successive_rejects":
        return SuccessiveRejectsAllocation(policy, draws, settings)
    return IndexAllocation(policy, draws, settings, predictor)
