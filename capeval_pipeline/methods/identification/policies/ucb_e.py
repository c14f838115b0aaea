"""UCB-E (Audibert, Bubeck, Munos 2010): sample mean plus sqrt(a / N). Savings are measured against it."""

from capeval_pipeline.methods.identification.records import Policy

POLICY = Policy(
    name="ucb_e",
    summary="largest sample mean plus count bonus",
    bonus="count",
)
