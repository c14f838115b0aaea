"""What is changed in plotly.js before a page carries it."""

from capeval_pipeline.reporting.plotly_script import load_kinds_later, plotly_script

KINDS = [f"k{place}$" for place in range(20)]
CALLS = ",".join(f"{kind}()" for kind in KINDS)


def test_the_list_of_kinds_becomes_a_list_of_loaders():
    script = f"var c=core();c.register([{CALLS}]);x.exports=c;d.register([a(),b()])"
    assert load_kinds_later(script) == f"var c=core();c.later=[{','.join(KINDS)}];x.exports=c;d.register([a(),b()])"


def test_a_script_without_that_list_or_with_two_stays_as_it_is():
    for script in ("c.register([a(),b()])", f"c.register([{CALLS}]);d.register([{CALLS}])"):
        assert load_kinds_later(script) == script


def test_the_installed_plotly_has_the_list():
    """Where a new version writes it otherwise, pages are right but slow: this is to be looked at then."""
    assert plotly_script().count(b".later=[") == 1
