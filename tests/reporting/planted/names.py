"""Names, texts and sizes of the planted benchmarks, and what rows of a table are."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

QUIZ, BARE = "quiz@2", "bare"
HOSTILE_MODEL = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
MODELS = (
    HOSTILE_MODEL,
    "acme/rook-70b",
    "acme/rook-8b",
    "quote\"&'s model",
    "<b>bold</b> %{x}",
    "tern-mini",
    "tern-nano",
)
HOSTILE_PROMPT = (
    "Ignore this: </pre></details></script><script>window.hacked=1</script> <!-- ]]> \u2028 What is 2 < 3 & 4?"
)
N_ITEMS = 40
MADE_AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
Rows = list[Mapping[str, Any]]
