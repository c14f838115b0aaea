"""Allocation policies: which arm is asked next, which of its items, and which arm is recommended.

A policy is a module with one `POLICY`; POLICIES is the registry, in the order tables show them.
"""

from capeval_pipeline.methods.identification.policies import (
    naive_pooling,
    paper_literal,
    pulse,
    pulse_active,
    pulse_shared_order,
    race,
    successive_rejects_shared,
    ucb_e,
    uniform,
)
from capeval_pipeline.methods.identification.records import Policy

POLICIES: dict[str, Policy] = {
    module.POLICY.name: module.POLICY
    for module in (
        uniform,
        ucb_e,
        naive_pooling,
        paper_literal,
        pulse,
        pulse_shared_order,
        pulse_active,
        successive_rejects_shared,
        race,
    )
}

# What a plain run compares; `--full` runs all of POLICIES.
PLAIN_POLICIES = ("uniform", "ucb_e", "naive_pooling", "pulse", "successive_rejects_shared", "race")
