"""read = kept + rejected + duplicate."""

import pytest

from capeval_pipeline.ingestion.report import check_counts


def test_a_lost_record_is_a_bug_and_raises():
    check_counts("a.csv", n_read=3, n_kept=1, n_rejected=1, n_duplicate=1)
    with pytest.raises(AssertionError, match="read 3, but 1 kept"):
        check_counts("a.csv", n_read=3, n_kept=1, n_rejected=1, n_duplicate=0)
