"""What people are told of a file is one printable line."""

from capeval_pipeline.formats.refusals import message


def test_messages_are_one_line_of_at_most_300_characters():
    told = message("a\nb.csv", "line 2", "x" * 500, "y", "z")
    assert len(told) == 300
    assert "\n" not in told
