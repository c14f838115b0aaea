"""Numbers as people read them."""

import pytest

from capeval_pipeline.reporting import numbers


@pytest.mark.parametrize("writer", [numbers.score, numbers.count, numbers.percent, numbers.dollars, numbers.number])
@pytest.mark.parametrize("unknown", [None, float("nan")])
def test_unknown_is_a_dash_never_zero(writer, unknown):
    assert writer(unknown) == "–"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (numbers.dollars(0.0000123), "$0.0000123"),
        (numbers.dollars(0.00200), "$0.00200"),
        (numbers.dollars(1234.5), "$1,234.50"),
        (numbers.dollars(0.0), "$0"),
        (numbers.score(0.7354), "0.735"),
        (numbers.score(-0.0004), "0.000"),
        (numbers.percent(-0.021), "−2.1 %"),
        (numbers.covered(34790 / 34804), "99.9 %"),
        (numbers.covered(14 / 34804), "0.1 %"),
        (numbers.covered(1.0), "100.0 %"),
        (numbers.covered(0.0), "0.0 %"),
        (numbers.covered(None), "–"),
        (numbers.count(8997.4), "8,997"),
        (numbers.between(0.1, None), "at least 0.100"),
        (numbers.between(None, 0.97), "at most 0.970"),
        (numbers.between(0.069, 0.098, numbers.percent), "6.9 to 9.8 %"),
    ],
)
def test_numbers_read_as_expected(written, expected):
    assert written == expected


def test_a_shortened_name_keeps_both_ends():
    short = numbers.shortened("provider/a-long-model-name-70b-instruct", 20)
    assert len(short) == 20
    assert short.startswith("provider/")
    assert short.endswith("instruct"[-8:])
