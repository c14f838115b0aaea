"""Replayed identification studies."""

import math

from tests.reporting.planted.names import QUIZ, Rows


def identification_tables() -> dict[str, Rows]:
    budgets = [round(100 * 10 ** (step / 8)) for step in range(17)]
    speeds = {"pulse": 1.3, "ucb_e": 1.0, "uniform": 0.6, "naive_pooling": 0.9}
    curves: Rows = []
    for policy, speed in speeds.items():
        for budget in budgets:
            accuracy = 1 - 0.9 * math.exp(-speed * budget / 1500)
            bounds = {"lower": max(0.0, accuracy - 0.07), "upper": min(1.0, accuracy + 0.06)}
            key = {"benchmark_id": QUIZ, "policy": policy, "pull_budget": budget}
            curves.append({**key, "accuracy": accuracy, "n_runs": 104, **bounds})
    summary: Rows = [
        {
            "benchmark_id": QUIZ,
            "policy": policy,
            "pulls_for_target": 4300 / speed if speed > 0.7 else None,
            "pulls_lower": 3900 / speed,
            "pulls_upper": 4900 / speed,
            "pulls_for_90": 3300 / speed,
            "pulls_90_lower": 2900 / speed,
            "pulls_90_upper": 3700 / speed,
            "target_accuracy": 0.95,
            "saving_vs_ucb_e": 1 - 1 / speed,
            "coverage_simultaneous": 0.97,
            "coverage_lower": 0.92,
            "mean_error": 0.2 / speed,
            "n_runs": 104,
            "n_certified": 3,
            "n_wrong_certificates": 0,
        }
        for policy, speed in speeds.items()
    ]
    intervals: Rows = [
        {
            "benchmark_id": QUIZ,
            "policy": "pulse",
            "interval": kind,
            "n_answers": answers,
            "mean_width": width / math.sqrt(answers),
            "miss_any_time": 0.01,
            "n_arm_runs": 700,
        }
        for kind, width in (("betting", 2.0), ("empirical_bernstein", 2.6))
        for answers in (50, 100, 200, 400)
    ]
    savings: Rows = [
        {
            "benchmark_id": QUIZ,
            "gap_class": gap_class,
            "policy": policy,
            "n_runs": 40,
            "mean_certificate_share": 0.31,
            "n_wrong_certificates": 1,
            "n_arms": 60,
            "n_items": 100,
            "smallest_gap": gap,
            "target_accuracy": 0.95,
            "pulls_for_target": 30 / gap / speeds[policy],
            "pulls_lower": 25 / gap / speeds[policy],
            "pulls_upper": 36 / gap / speeds[policy],
            "saving_vs_ucb_e": 1 - 1 / speeds[policy],
        }
        for gap_class, gap in ((".01–.02", 0.011), ("≥.04", 0.05))
        for policy in ("pulse", "ucb_e")
    ]
    return {
        "simulations.identification_gap_classes": savings,
        "simulations.identification_curves": curves,
        "simulations.identification_summary": summary,
        "simulations.identification_intervals": intervals,
    }
