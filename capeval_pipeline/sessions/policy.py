"""The policy of a session, as the object that the study's replay agrees with; `ask` and `status` load no more."""

from __future__ import annotations

import numpy as np

from capeval_pipeline.methods.identification.allocation import Allocation, AllocationSettings, make_allocation
from capeval_pipeline.methods.identification.policies import POLICIES
from capeval_pipeline.methods.identification.records import Predictor, make_draws
from capeval_pipeline.sessions.records import SessionConfig


def allocation_of(config: SessionConfig, predictor: Predictor | None) -> Allocation:
    """The policy of a session before any answer. Its draws are those of the study's first run with the same seed."""
    draws = make_draws(np.random.default_rng([config.seed, 0]), len(config.arms), config.n_items)
    settings = AllocationSettings(
        batch=config.batch,
        delta=config.delta,
        exploration=config.exploration,
        pseudo_pairs=config.pseudo_pairs,
        pull_budget=config.pull_budget,
    )
    return make_allocation(POLICIES[config.policy], draws, settings, predictor)
