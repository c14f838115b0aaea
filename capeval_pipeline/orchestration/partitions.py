"""A partition is a benchmark: methods fit all models of a benchmark together, so a new model re-runs just its own."""

import dagster as dg

BENCHMARKS = dg.DynamicPartitionsDefinition(name="benchmark")
