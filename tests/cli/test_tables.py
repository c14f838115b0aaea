"""Tables on the terminal show data as it is."""

from capeval_pipeline.cli.invocation import print_table


def test_names_that_look_like_markup_or_an_emoji_are_shown_whole(capsys):
    names = ["lab/m[revision=ab12]", "lab/m[revision=cd34]", "[derive]", "x[red]y", ":smile:", "\\[a]"]
    print_table("of [bold]", ["model[a]", "n"], [(name, place) for place, name in enumerate(names)])
    told = capsys.readouterr().out
    for text in [*names, "of [bold]", "model[a]"]:
        assert text in told
