"""Studies on synthetic worlds."""

from tests.reporting.planted.names import Rows


def study_tables() -> dict[str, Rows]:
    """Two worlds of each study."""
    worlds, draws = ("equal_means", "near_01"), (2, 5, 10)
    sizes = {"n_models": 8}
    return {
        "studies.oracle_bias_decay": [
            {"world": world, **sizes, "n_generations": g, "true_oracle": 0.7, "naive": 0.7 + 0.2 / g, "bias": 0.2 / g}
            for world in worlds
            for g in draws
        ],
        "studies.debiaser_comparison": [
            {"world": world, **sizes, "n_generations": g, "estimator": name, "bias": 0.1, "rmse": 0.1, "coverage": 0.9}
            for world in worlds
            for g in draws
            for name in ("naive", "bias_corrected")
        ],
        "studies.interval_coverage": [
            {
                "world": world,
                "n_items": 300,
                **sizes,
                "n_generations": g,
                "interval": "oracle, these items",
                "coverage": 0.97,
                "mean_width": 0.05,
                "share_point": 1.0,
                "n_seeds": 30,
            }
            for world in worlds
            for g in draws
        ],
        "studies.topic_entropy": [
            {"world": "relabelled", "mixture": f"{share}, {1 - share}", "entropy": share, "oracle_gap": share / 5}
            for share in (0.1, 0.3, 0.5)
        ],
    }
