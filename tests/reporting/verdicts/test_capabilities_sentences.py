"""Sentences hold the number, its interval and its control, and never more certainty than there is."""

from capeval_pipeline.reporting.verdicts.capabilities import (
    GainFigure,
    clusters_sentence,
    is_probe_useful,
    no_text_sentence,
    probe_sentence,
    routing_sentence,
)
from capeval_pipeline.reporting.verdicts.strengths import strengths_sentence

NAN = float("nan")


def clusters(**changes):
    arguments = {
        "n_clusters": 4,
        "gain": GainFigure(9.31, 7.7, 11.5),
        "linear": GainFigure(10.5),
        "paper": GainFigure(0.7),
        "blend": GainFigure(11.0),
        "n_items": 3164,
        "n_dropped": 598,
    }
    return clusters_sentence(**{**arguments, **changes})


def test_clusters_stand_beside_a_linear_model_and_the_papers_settings():
    sentence = clusters()
    assert sentence.startswith("4 clusters of items explain who beats whom 9.3 % (7.7 to 11.5) better than one ranking")
    for part in ("a linear model of the text does 10.5 %, which is more", "the paper's settings 0.7 %", "598 of 3,164"):
        assert part in sentence


def test_an_interval_that_holds_zero_shows_no_difference():
    assert "no difference to one ranking shown" in clusters(gain=GainFigure(1.0, -0.5, 2.5))


def test_one_cluster_is_a_result():
    assert clusters(n_clusters=1).startswith("No clusters found that predict better than one ranking")


def test_the_probe_sentence_holds_the_control_with_one_decimal():
    sentence = probe_sentence(
        gain_all=36.52, control_all=50.04, gain_disjoint=25.3, without_disjoint=2.5, excess_disjoint_lower=15.0
    )
    assert "50.0 %" in sentence
    assert "not shown to be useful" in sentence  # the control is better on all pairs


def test_a_useful_probe_needs_a_sure_point_and_to_beat_the_control():
    assert is_probe_useful(excess_disjoint_lower=1.0, gain_all=60, control_all=50)
    assert not is_probe_useful(excess_disjoint_lower=0.9, gain_all=60, control_all=50)
    assert not is_probe_useful(excess_disjoint_lower=5.0, gain_all=49, control_all=50)
    assert "Too few test pairs" in probe_sentence(
        gain_all=1, control_all=1, gain_disjoint=NAN, without_disjoint=NAN, excess_disjoint_lower=NAN
    )


def test_worse_than_one_ranking_is_said():
    sentence = no_text_sentence(n_clusters=30, gain=GainFigure(-65.9, -105, -33), control=GainFigure(43.5))
    assert "worse than one ranking, −65.9 % (−105.0 to −33.0)" in sentence


def test_without_text_an_interval_that_holds_zero_shows_no_difference_either():
    sentence = no_text_sentence(n_clusters=30, gain=GainFigure(-1.0, -6.8, 4.5), control=GainFigure(3.8, 1.9, 6.0))
    assert "30 clusters then show no difference to one ranking, −1.0 % (−6.8 to 4.5); a rule" in sentence


def test_the_leader_is_named_with_those_it_cannot_be_told_from():
    sentence = strengths_sentence(
        best_model="a", mean_score=0.8, score_lower=0.7, score_upper=0.9, tied_models=["b", "c", "d", "e"],
        n_models=9, n_items=100,
    )  # fmt: skip
    assert sentence == (
        "a leads 9 models on 100 items with a mean score of 0.800 (0.700 to 0.900); no difference is shown to b, c, d "
        "and 1 more."
    )


def test_an_undeclared_range_has_no_made_up_interval():
    sentence = strengths_sentence(
        best_model="a", mean_score=7.5, score_lower=NAN, score_upper=NAN, tied_models=[], n_models=2, n_items=10
    )
    assert "no interval" in sentence


def test_a_single_model_leads_nobody():
    sentence = strengths_sentence(
        best_model="a", mean_score=-0.25, score_lower=-0.5, score_upper=0.0, tied_models=[], n_models=1, n_items=1
    )
    assert sentence == "a is the only model, on 1 item with a mean score of −0.250 (−0.500 to 0.000)."


def test_more_clusters_than_items_can_carry_are_warned_of():
    assert "many for 63 training items" in clusters(n_clusters=30, n_training_items=63)
    assert "training items" not in clusters(n_clusters=30, n_training_items=2000)


def test_what_rounds_to_zero_has_no_sign():
    assert "0.0 % (0.0 to 1.0)" in clusters(gain=GainFigure(-0.04, -0.02, 1.0))


def test_a_router_is_named_in_words_and_a_loss_has_a_true_minus():
    sentence = routing_sentence(
        router="ecc_shrunk", score=0.7, score_lower=0.6, score_upper=0.8, share=-0.11, global_best_model="a",
        global_best=0.71, oracle=0.8, n_items=84, is_probe_winner_oracle=False,
    )  # fmt: skip
    assert sentence == (
        "Routing 84 test items by shrunk clusters reaches 0.700 (0.600 to 0.800), −11 % of what perfect routing "
        "would add; always a: 0.710, perfect: 0.800."
    )
