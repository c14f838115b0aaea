"""Answers seen plus predictions of the rest, uncorrected: the warning example, biased wherever the predictor is."""

from capeval_pipeline.methods.identification.records import Policy

POLICY = Policy(
    name="naive_pooling",
    summary="answers filled up with predictions, uncorrected, plus count bonus",
    estimate="filled_with_predictions",
    bonus="count",
)
