"""The name under which a benchmark's files, folders and locks go: safe in every path, and its own."""

import hashlib
import re
import unicodedata


def benchmark_key(benchmark_id: str) -> str:
    """Folder-safe key of a benchmark: an ASCII slug of at most 40 characters, '-' and 10 hex digits of its SHA-256.

    Partition folders are percent-encoded, so a long name in another script would not fit a file name.
    """
    plain = unicodedata.normalize("NFKD", benchmark_id).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")[:40] or "benchmark"
    return f"{slug}-{hashlib.sha256(benchmark_id.encode()).hexdigest()[:10]}"
