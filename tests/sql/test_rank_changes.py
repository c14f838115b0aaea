"""marts.rank_changes: ranks against those before the strengths last changed."""


def test_moves_are_told_from_what_the_old_interval_allowed(tables):
    now = {"moved": (1, 0.9), "within": (2, 0.8), "same": (3, 0.7), "new": (4, 0.6)}
    then = {"same": (3, 3, 3, 0.6), "within": (1, 1, 2, 0.8), "moved": (2, 2, 2, 0.7), "gone": (4, 4, 4, 0.1)}
    tables.fill("estimates.strengths", [{"model_id": m, "rank": r, "mean_score": s} for m, (r, s) in now.items()])
    names = ("rank", "rank_lower", "rank_upper", "mean_score")
    tables.fill(
        "meta.previous_leaderboard", [{"model_id": m, **dict(zip(names, row, strict=True))} for m, row in then.items()]
    )
    rows = {row["model_id"]: row for row in tables.run("marts.rank_changes")}
    assert {model: row["change"] for model, row in rows.items()} == {
        "moved": "moved",
        "within": "within its interval",
        "same": "same",
        "new": "new",
        "gone": "gone",
    }
    assert (rows["moved"]["ranks_gained"], rows["within"]["ranks_gained"], rows["new"]["ranks_gained"]) == (1, -1, None)
    assert tables.broken_claims("marts.rank_changes") == []


def test_without_an_earlier_state_nothing_has_changed(tables):
    tables.fill("estimates.strengths", [{"model_id": "m", "rank": 1, "mean_score": 0.5}])
    assert tables.run("marts.rank_changes") == []
