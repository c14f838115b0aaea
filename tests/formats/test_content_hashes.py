"""Items are known by what they say, not by how a tool wrote it down."""

from capeval_pipeline.formats.content_hashes import document_hash, text_hash


def test_a_hash_looks_through_line_ends_blanks_and_unicode_forms():
    assert text_hash("Caf\u00e9 \r\nnow\n") == text_hash("Cafe\u0301\nnow")
    assert text_hash("a b") != text_hash("a  b")
    assert text_hash(" \n ") is None


def test_a_document_is_known_without_its_number():
    first = document_hash({"idx": 0, "question": "q", "doc_id": 4})
    assert first == document_hash({"question": "q", "idx": 9})
    assert first != document_hash({"question": "r"})
    assert document_hash({}) is None
