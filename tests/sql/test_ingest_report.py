"""marts.ingest_report: one row a file, over all its benchmarks."""


def test_counts_add_up_over_benchmarks_and_the_first_rejection_is_told(tables):
    counts = {"path": "inbox/a.csv", "format": "long", "status": "read"}
    tables.fill(
        "raw.files",
        [
            {"benchmark_id": "B", **counts, "n_read": 5, "n_kept": 3, "n_rejected": 2, "n_duplicate": 0},
            {"benchmark_id": "A", **counts, "n_read": 2, "n_kept": 1, "n_rejected": 0, "n_duplicate": 1},
        ],
    )
    rejected = {"severity": "rejected", "reason": "score_not_numeric"}
    tables.fill(
        "raw.rejections",
        [
            {**rejected, "location": "line 10", "message": "second"},
            {**rejected, "location": "line 2", "message": "first"},
            {"severity": "warning", "reason": "coverage", "location": "file", "message": "…"},
            {"severity": "warning", "reason": "id_reused", "location": "line 3", "message": "…"},
            {"severity": "warning", "reason": "id_reused", "location": "line 4", "message": "…"},
            {"severity": "duplicate", "reason": "duplicate", "location": "line 1", "message": "…"},
        ],
    )
    (row,) = tables.run("marts.ingest_report")
    assert (row["n_read"], row["n_kept"], row["n_rejected"], row["n_duplicate"]) == (7, 4, 2, 1)
    assert (row["first_rejection"], row["warnings"]) == ("first", "coverage: 1, id_reused: 2")
    assert row["benchmark_ids"] == ["A", "B"]
    assert tables.broken_claims("marts.ingest_report") == []


def test_a_clean_file_has_nothing_to_tell(tables):
    tables.fill(
        "raw.files", [{"path": "a", "status": "read", "n_read": 1, "n_kept": 1, "n_rejected": 0, "n_duplicate": 0}]
    )
    (row,) = tables.run("marts.ingest_report")
    assert (row["first_rejection"], row["warnings"]) == (None, None)
