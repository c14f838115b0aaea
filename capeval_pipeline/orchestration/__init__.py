"""The only folder that knows dagster: assets, partitions, automation, checks, and the driver behind `capeval run`."""
