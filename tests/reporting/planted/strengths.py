"""What is known of the models: scores, pairs, judgments."""

from collections.abc import Sequence

from tests.reporting.planted.names import N_ITEMS, QUIZ, Rows


def strength_tables(models: Sequence[str]) -> dict[str, Rows]:
    step, logits = min(0.06, 0.75 / len(models)), min(0.5, 6 / len(models))
    strengths: Rows = [
        {
            "benchmark_id": QUIZ,
            "model_id": model,
            "mean_score": 0.8 - step * place,
            "score_lower": 0.75 - step * place,
            "score_upper": 0.84 - step * place,
            "strength": 1.5 - logits * place,
            "lower": 1.2 - logits * place,
            "upper": None if place == 0 else 1.8 - logits * place,
            "rank": place + 1,
            "rank_lower": max(1, place),
            "rank_upper": min(len(models), place + 2),
            "tie_group": place // 2 + 1,
            "n_items": N_ITEMS,
            "component_id": 0,
            "is_separated": False,
        }
        for place, model in enumerate(models)
    ]
    pairs: Rows = []
    for place, model in enumerate(models):
        for other_place in range(place + 1, len(models)):
            other, gap = models[other_place], step * (other_place - place)
            first, second, sign = (model, other, 1.0) if model < other else (other, model, -1.0)
            better = "a_better" if sign > 0 else "b_better"
            pairs.append(
                {
                    "benchmark_id": QUIZ,
                    "model_a_id": first,
                    "model_b_id": second,
                    "n_shared_items": N_ITEMS,
                    "difference": sign * gap,
                    "lower": sign * gap - 0.05,
                    "upper": sign * gap + 0.05,
                    "p_value": 0.01 / gap,
                    "p_adjusted": min(1.0, 0.05 / gap),
                    "verdict": "cannot_tell" if other_place - place == 1 else better,
                }
            )
    previous: Rows = [
        {
            "benchmark_id": QUIZ,
            "model_id": model,
            "rank": place + 2,
            "rank_lower": place + 2,
            "rank_upper": place + 3,
            "mean_score": 0.78 - step * place,
            "data_version": "0000",
        }
        for place, model in enumerate(models[:3])
    ]
    return {
        "estimates.strengths": strengths,
        "estimates.model_pairs": pairs,
        "meta.previous_leaderboard": previous,
        "raw.judgments": judgment_rows(models),
    }


def judgment_rows(models: Sequence[str]) -> Rows:
    """One pair judged in both orders on four items; on one of them the other answer wins when they change places."""
    return [
        {
            "benchmark_id": QUIZ,
            "item_id": f"q{item}",
            "model_a_id": models[1],
            "model_b_id": models[2],
            "judge_id": "a judge",
            "position": position,
            "draw": 0,
            "outcome": 1.0 if item else float(position),
            "file_id": "f1",
        }
        for item in range(4)
        for position in (0, 1)
    ]
