"""Readers of result files, one module a format; each knows its format and nothing else.

READERS is in the order in which formats are named to people. `matches(path)` gives a confidence from 0 to 1 for a
file, or for a folder that is one unit; `read(path, options)` gives a Reading.
"""

from types import ModuleType

from capeval_pipeline.formats import (
    alpaca_eval,
    arena,
    arena_hard,
    bigcodebench,
    canonical,
    evalplus,
    every_eval_ever,
    helm,
    inspect,
    livecodebench,
    lm_eval,
    long,
    mapping,
    mt_bench,
    promptfoo,
    swebench,
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
    "alpaca_eval": alpaca_eval,
    "arena_hard": arena_hard,
    "mt_bench": mt_bench,
    "swebench": swebench,
    "livecodebench": livecodebench,
    "evalplus": evalplus,
    "bigcodebench": bigcodebench,
    "mapping": mapping,
    "long": long,
    "wide": wide,
}
