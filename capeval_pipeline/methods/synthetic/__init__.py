"""Worlds with a known truth: what the sample, the studies and the tests are made from.

Everything is drawn from the `rng` it is given and nothing else, so the same seed gives the same world. Frames and
files are made elsewhere (`data/sample/make_sample.py`, `orchestration/assets/studies.py`).
"""

from capeval_pipeline.methods.synthetic.cluster_world import ClusterWorld, make_cluster_world
from capeval_pipeline.methods.synthetic.generation_world import (
    WORLD_KINDS,
    GenerationWorld,
    make_generation_world,
    observe_world,
)
from capeval_pipeline.methods.synthetic.low_rank_world import LowRankWorld, make_low_rank_world
from capeval_pipeline.methods.synthetic.prompts import (
    EVERYDAY_UNITS,
    SUPPORT_DESK,
    ConversionQuestion,
    PromptTopic,
    fill_prompts,
    make_conversion_questions,
)

__all__ = [
    "EVERYDAY_UNITS",
    "SUPPORT_DESK",
    "WORLD_KINDS",
    "ClusterWorld",
    "ConversionQuestion",
    "GenerationWorld",
    "LowRankWorld",
    "PromptTopic",
    "fill_prompts",
    "make_cluster_world",
    "make_conversion_questions",
    "make_generation_world",
    "make_low_rank_world",
    "observe_world",
]
