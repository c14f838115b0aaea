"""Readers of result files, one module a format; each knows its format and nothing else.

READERS is in the order in which formats are named to people. `matches(path)` gives a confidence from 0 to 1 for a
file, or for a folder that is one unit; `read(path, options)` gives a Reading.
"""

from types import ModuleType

from capeval_pipeline.formats import (
    arena,
    canonical,
    every_eval_ever,
    helm,
    inspect,
    lm_eval,
    long,
    mapping,
    promptfoo,
    wide,
)

READERS: dict[str, ModuleType] = {
    "canonical": canonical,
    "lm_eval": lm_eval,
    "inspect": inspect,
    "helm": helm,
    "every_eval_ever": every_eval_ever,
    "promptfoo": promptfoo,
    "arena": arena,
    "mapping": mapping,
    "long": long,
    "wide": wide,
}
