"""Round robin, one batch an arm; the estimate is the sample mean. The baseline that adapts to nothing."""

from capeval_pipeline.methods.identification.records import Policy

POLICY = Policy(
    name="uniform",
    summary="round robin, sample means",
    selection="round_robin",
)
