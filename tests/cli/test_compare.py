import pytest

from specextend_cli.bench.statistics import first_difference


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [([1, 2, 3], [1, 2, 3], None), ([1, 2, 3], [1, 9, 3], 1), ([1, 2], [1, 2, 3], 2), ([], [], None), ([], [1], 0)],
)
def test_the_first_token_that_differs_is_found(one, other, expected):
    assert first_difference(one, other) == expected
