"""marts.identification_savings: what identification costs on subsets of the models, by how close their best two are."""

from capeval_pipeline.methods.identification.gap_classes import GAP_CLASSES


def of_class(gap_class, policy, smallest_gap, **figures):
    return {
        "gap_class": gap_class,
        "policy": policy,
        "n_runs": 40,
        "n_arms": 24,
        "n_items": 100,
        "smallest_gap": smallest_gap,
        "mean_error": 0.2,
        **figures,
    }


def run(policy, seed, gap):
    return {"policy": policy, "seed": seed, "n_arms": 60, "n_items": 100, "best_gap": gap, "pull_budget": 6000}


def test_classes_come_by_gap_and_say_how_many_replays_of_the_study_itself_are_as_hard(tables, pick):
    tables.fill(
        "simulations.identification_gap_classes",
        [
            of_class("≥.04", "pulse", 0.041),
            of_class(".01–.02", "pulse", 0.01, pulls_for_target=700.0, saving_vs_ucb_e=0.3),
            of_class("<.005", "pulse", 0.0),
        ],
    )
    # The lower end of a class is inside it.
    gaps = [0.0, 0.0049, 0.01, 0.0199, 0.04]
    tables.fill("simulations.identification_runs", [run("pulse", seed, gap) for seed, gap in enumerate(gaps)])
    tables.fill(
        "simulations.identification_summary", [{"policy": "pulse", "residual_variance_ratio": 0.8, "n_runs": 5}]
    )
    tables.run("marts.identification_savings")
    rows = tables.rows("select * from marts.identification_savings")
    assert pick(rows, "gap_class", "n_runs", "n_study_runs", "pulls_for_target", "residual_variance_ratio") == [
        ("<.005", 40, 2, None, 0.8),
        (".01–.02", 40, 2, 700.0, 0.8),
        ("≥.04", 40, 1, None, 0.8),
    ]
    assert tables.broken_claims("marts.identification_savings") == []


def test_a_policy_that_the_study_left_out_still_has_its_classes(tables, pick):
    tables.fill("simulations.identification_gap_classes", [of_class(".02–.04", "ucb_e", 0.02)])
    (row,) = tables.run("marts.identification_savings")
    assert (row["n_runs"], row["n_study_runs"], row["residual_variance_ratio"]) == (40, 0, None)


def test_replays_of_the_study_are_classed_as_the_subsets_were(tables):
    names = [name for name, _, _ in GAP_CLASSES]
    tables.fill(
        "simulations.identification_gap_classes", [of_class(name, "pulse", low) for name, low, _ in GAP_CLASSES]
    )
    # The lowest gap of each class, and one just below the next class.
    gaps = [gap for _, low, following in GAP_CLASSES for gap in (low, min(1.0, following - 1e-9))]
    tables.fill("simulations.identification_runs", [run("pulse", seed, gap) for seed, gap in enumerate(gaps)])
    found = {row["gap_class"]: row["n_study_runs"] for row in tables.run("marts.identification_savings")}
    assert found == dict.fromkeys(names, 2)
