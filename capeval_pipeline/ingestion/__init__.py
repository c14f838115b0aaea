"""What files become before they meet the lake: units, readings, identity, one honest set of tables.

discovery finds units, detection names their format, reading turns one unit into readings (what the file said),
resolution makes the layer raw of all readings of a benchmark. Nothing here knows dagster or the lake's storage.
"""
