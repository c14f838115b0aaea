"""Estimators: arrays in, frozen records out.

No tables, files, clock or global random state; a method draws only from the `rng` or the keyed seed it is given.
"""
