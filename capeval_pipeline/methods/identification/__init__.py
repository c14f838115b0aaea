"""PULSE: how few calls find the best model. Estimator, intervals, policies, and the replay study."""
