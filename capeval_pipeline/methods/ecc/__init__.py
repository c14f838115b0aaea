"""Evidence-calibrated clusters (ECC): items grouped so that the groups explain both texts and who beats whom.

fit: the clusters; inference: probabilities for a new item; selection: how many clusters; evaluation: gain and control;
baselines: linear, human labels, blend; calibration: the probe; routing, description: what people read.
"""
