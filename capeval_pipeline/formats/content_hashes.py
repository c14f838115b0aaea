"""Hashes by which items are known wherever their files come from: of a prompt, of a document."""

import hashlib
import json
import unicodedata
from typing import Any


def text_hash(text: str) -> str | None:
    """SHA-256 of a prompt: NFC, line ends \\n, trailing blanks of lines and outer blanks cut; None for no text."""
    normal = unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n")
    normal = "\n".join(line.rstrip() for line in normal.split("\n")).strip()
    return hashlib.sha256(normal.encode("utf-8", "surrogatepass")).hexdigest() if normal else None


POSITION_KEYS = frozenset({"idx", "index", "id", "doc_id"})
"""Keys of a document that number it and do not belong to its content."""


_SORTED = json.JSONEncoder(sort_keys=True, ensure_ascii=False)


def document_hash(document: Any) -> str | None:
    """SHA-256 of a document: its JSON with sorted keys, without the keys that only number it; None if it is empty."""
    if isinstance(document, dict):
        document = {key: value for key, value in document.items() if key not in POSITION_KEYS}
    if document is None or document in ("", {}, []):
        return None
    text = _SORTED.encode(document)
    return hashlib.sha256(unicodedata.normalize("NFC", text).encode("utf-8", "surrogatepass")).hexdigest()
