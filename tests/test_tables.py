"""The table contract: names and columns typed here by hand, so that a changed one is a decision, not an accident."""

import pyarrow as pa
import pytest

from capeval_pipeline.storage.tables import TABLES, Column, Table, verdict_table

GAINS = "nll nll_global gain_percent gain_lower gain_upper"
VERDICTS = "benchmark_id question sentence source_table is_skipped"

# table: (grain after benchmark_id, all columns after benchmark_id)
PARTITIONED = {
    "raw.benchmarks": (
        "",
        "name version score_low score_high higher_is_better error_policy has_true_generations zero_cost metric "
        "settings",
    ),
    "raw.files": (
        "file_id",
        "file_id path format n_read n_kept n_rejected n_duplicate ingested_at replaced_by_file_id status tool_version "
        "created claimed_items warnings",
    ),
    "raw.items": ("item_id", "item_id prompt category content_hash embedding declared_ids"),
    "raw.models": ("model_id", "model_id raw_names provider revision quantization look_alike_of settings"),
    "raw.generations": (
        "item_id model_id generation_id",
        "item_id model_id generation_id status score cost_usd cost_source input_tokens output_tokens latency_s metric "
        "outcome is_cached cost_reported_usd cost_recomputed_usd judge_cost_usd cache_read_tokens cache_write_tokens "
        "reasoning_tokens file_id price_date",
    ),
    "raw.judgments": (
        "item_id model_a_id model_b_id judge_id position draw",
        "item_id model_a_id model_b_id outcome judge_id position draw margin category judge_cost_usd file_id",
    ),
    "raw.metric_values": (
        "item_id model_id generation_id metric",
        "item_id model_id generation_id metric value is_main file_id",
    ),
    "raw.rejections": ("file_id location reason", "file_id location severity reason message"),
    "estimates.item_embeddings": ("item_id", "item_id embedder embedding"),
    "estimates.strengths": (
        "model_id",
        "model_id mean_score score_lower score_upper strength lower upper rank rank_lower rank_upper tie_group n_items "
        "component_id is_separated",
    ),
    "estimates.model_pairs": (
        "model_a_id model_b_id",
        "model_a_id model_b_id n_shared_items difference lower upper p_value p_adjusted verdict",
    ),
    "estimates.ecc_fits": (
        "method",
        "method n_clusters embedding_weight temperature ridge shrinkage n_restarts objective objective_spread n_passes "
        "stop_reason converged seed fit_seconds category_ari n_items n_dropped_all_tied n_dropped_one_pair",
    ),
    "estimates.ecc_grid": (
        "n_clusters ridge embedding_weight",
        "n_clusters ridge embedding_weight heldout_nll heldout_nll_se is_chosen",
    ),
    "estimates.cluster_responsibilities": (
        "method item_id cluster_id",
        "method item_id cluster_id responsibility basis",
    ),
    "estimates.cluster_strengths": (
        "method cluster_id model_id",
        "method cluster_id model_id strength lower upper is_compared",
    ),
    "estimates.clusters": (
        "method cluster_id",
        "method cluster_id weight label top_item_ids top_categories top_terms best_model_id",
    ),
    "estimates.cluster_categories": (
        "method cluster_id category",
        "method cluster_id category share_of_cluster share_of_category lift",
    ),
    "estimates.ecc_evaluation": ("method inference pair_subset", f"method inference pair_subset n_pairs {GAINS}"),
    "estimates.probe_sensitivity": ("method draw pair_subset", "method draw pair_subset n_pairs gain_percent"),
    "estimates.routing_evaluation": (
        "router probe_policy",
        "router probe_policy n_items mean_score mean_cost_usd share_of_oracle_gain score_lower score_upper share_lower "
        "share_upper",
    ),
    "estimates.cold_start_evaluation": (
        "held_out_model_id method pull_budget",
        "held_out_model_id method pull_budget gain_percent gain_percent_unseen n_calls rank_error",
    ),
    "estimates.probe_policies": (
        "policy pair_subset",
        "policy pair_subset informative_share n_pairs gain_percent lower upper",
    ),
    "estimates.ood_evaluation": (
        "test_categories method n_clusters inference pair_subset",
        f"test_categories method n_clusters inference pair_subset n_pairs {GAINS}",
    ),
    "estimates.oracle_estimates": (
        "category estimator",
        "category estimator n_items n_models n_generations value lower upper lower_fixed upper_fixed assumption",
    ),
    "estimates.oracle_bias_curve": ("g source", "g source naive_value fitted_value local_exponent"),
    "estimates.frontier_points": (
        "cost_axis estimator routing point",
        "cost_axis estimator routing point cost_usd quality lower upper lower_fixed upper_fixed",
    ),
    "estimates.frontier_headlines": (
        "cost_axis estimator routing",
        "cost_axis estimator routing n_models draws_allowed constant_quality_at_matched_cost "
        "constant_quality_at_matched_cost_lower constant_quality_at_matched_cost_upper best_model_id best_quality "
        "best_quality_lower best_quality_upper best_quality_held_out best_cost_usd best_cost_usd_lower "
        "best_cost_usd_upper "
        "oracle_quality_at_matched_cost oracle_quality_at_matched_cost_lower oracle_quality_at_matched_cost_upper "
        "matched_cost_error_reduction matched_cost_error_reduction_lower matched_cost_error_reduction_upper "
        "matched_quality_cost_saving matched_quality_cost_saving_lower matched_quality_cost_saving_upper",
    ),
    "estimates.frontier_diagnostics": (
        "",
        "shock_z shock_factor bracket_ratio ceiling_share n_topics n_models left_out n_generations verdict reason "
        "generations_needed",
    ),
    "estimates.frontier_models": (
        "cost_axis model_id",
        "cost_axis model_id is_in_frontier reason quality cost_usd",
    ),
    "estimates.frontier_latency_limits": (
        "latency_limit_s",
        "latency_limit_s share_allowed best_model_id best_quality best_share_late naive_quality cross_fit_quality "
        "lower upper",
    ),
    "simulations.identification_runs": (
        "policy seed",
        "policy seed n_arms n_items best_gap pull_budget recommended_model_id is_correct pulls_to_certificate",
    ),
    "simulations.identification_curves": ("policy pull_budget", "policy pull_budget accuracy lower upper n_runs"),
    "simulations.identification_summary": (
        "policy",
        "policy pulls_for_target target_accuracy saving_vs_ucb_e coverage_simultaneous coverage_lower "
        "mean_interval_width bias_z seconds_per_run n_runs n_training_models rank bonus interval mean_error "
        "pulls_lower pulls_upper saving_lower saving_upper residual_variance_ratio n_certified n_wrong_certificates "
        "pulls_for_90 pulls_90_lower pulls_90_upper pairing_ratio",
    ),
    "simulations.identification_intervals": (
        "policy interval n_answers",
        "policy interval n_answers mean_width miss_any_time n_arm_runs",
    ),
    "simulations.identification_gap_classes": (
        "gap_class policy",
        "gap_class policy n_runs n_arms n_items smallest_gap median_gap mean_error target_accuracy pulls_for_target "
        "pulls_lower pulls_upper saving_vs_ucb_e saving_lower saving_upper n_certified n_wrong_certificates "
        "median_pulls_to_certificate mean_certificate_share",
    ),
    "meta.partition_state": ("", "data_version"),
}

# table: (grain, all columns)
UNPARTITIONED = {
    "studies.oracle_bias_decay": (
        "world n_models n_generations",
        "world n_models n_generations true_oracle naive bias local_exponent",
    ),
    "studies.debiaser_comparison": (
        "world n_models n_generations estimator",
        "world n_models n_generations estimator bias rmse coverage",
    ),
    "studies.interval_coverage": (
        "world n_items n_models n_generations interval",
        "world n_items n_models n_generations interval coverage mean_width share_point n_seeds",
    ),
    "studies.topic_entropy": ("world mixture", "world mixture entropy oracle_gap"),
    "studies.identification_gaps": ("world gap policy pull_budget", "world gap policy pull_budget accuracy n_runs"),
    "meta.data_versions": (
        "schema table benchmark_id",
        "schema table benchmark_id data_version delta_version code_version inputs config seed run_id materialized_at",
    ),
    "meta.pipeline_version": ("version", "version duckdb_version python_version materialized_at"),
    "meta.previous_leaderboard": (
        "benchmark_id model_id",
        "benchmark_id model_id rank rank_lower rank_upper mean_score data_version",
    ),
    "meta.held_back": ("benchmark_id", "benchmark_id reason is_left_out sentence"),
}

VERDICT_ASSETS = (
    "strengths item_embeddings ecc routing cold_start out_of_domain probe_policies probe_sensitivity identification "
    "frontier"
)

GOLDEN = (
    {
        key: (f"benchmark_id {grain}".split(), f"benchmark_id {names}".split())
        for key, (grain, names) in PARTITIONED.items()
    }
    | {key: (grain.split(), names.split()) for key, (grain, names) in UNPARTITIONED.items()}
    | {f"verdicts.{asset}": (["benchmark_id", "question"], VERDICTS.split()) for asset in VERDICT_ASSETS.split()}
)

# what each file said before files met: ingest's own, free to change
CONTRACT = {key: table for key, table in TABLES.items() if table.schema != "readings"}


def test_the_tables_are_those_of_the_contract():
    assert sorted(CONTRACT) == sorted(GOLDEN)


@pytest.mark.parametrize("key", sorted(GOLDEN))
def test_a_table_has_the_grain_and_columns_of_the_contract(key):
    grain, names = GOLDEN[key]
    assert list(TABLES[key].grain) == grain
    assert list(TABLES[key].column_names) == names


def test_partitioned_tables_lead_with_the_benchmark():
    assert {key for key, table in CONTRACT.items() if not table.is_partitioned} == set(UNPARTITIONED)
    assert all(table.arrow_schema.names[0] == "benchmark_id" for table in CONTRACT.values() if table.is_partitioned)


def test_clock_columns_are_the_four_that_tell_the_time():
    clocks = {(key, name) for key, table in CONTRACT.items() for name in table.clock_columns}
    assert clocks == {
        ("raw.files", "ingested_at"),
        ("meta.data_versions", "materialized_at"),
        ("meta.pipeline_version", "materialized_at"),
        ("estimates.ecc_fits", "fit_seconds"),
        ("simulations.identification_summary", "seconds_per_run"),
    }


def test_types_are_few():
    few = {
        pa.string(),
        pa.bool_(),
        pa.int64(),
        pa.float64(),
        pa.list_(pa.string()),
        pa.list_(pa.float64()),
        pa.timestamp("us", "UTC"),
    }
    columns = [column for table in CONTRACT.values() for column in table.columns]
    assert {column.type for column in columns} == few
    assert all(column.type_name == str(column.type) for column in columns)


@pytest.mark.parametrize(
    ("prefix_or_suffix", "expected"),
    [("n_", pa.int64()), ("is_", pa.bool_()), ("has_", pa.bool_()), ("_usd", pa.float64())],
)
def test_names_tell_types(prefix_or_suffix, expected):
    for table in CONTRACT.values():
        for column in table.columns:
            if column.name.startswith(prefix_or_suffix) or column.name.endswith(prefix_or_suffix):
                assert column.type == expected, f"{table.key}.{column.name}"


def test_costs_and_scores_may_be_unknown_and_keys_may_not():
    generations = TABLES["raw.generations"]
    nullable = {column.name for column in generations.columns if column.nullable}
    assert {"score", "cost_usd", "input_tokens", "latency_s"} <= nullable
    assert not nullable & {*generations.grain, "status", "cost_source"}


def test_only_these_keys_may_be_unknown():
    unknown = {
        (key, name) for key, table in CONTRACT.items() for name in table.grain if TABLES[key].column(name).nullable
    }
    assert unknown == {
        ("raw.judgments", "judge_id"),
        ("raw.judgments", "position"),
        ("estimates.ood_evaluation", "n_clusters"),  # methods without clusters
    }


def test_every_table_and_column_says_what_it_means():
    for table in TABLES.values():
        assert table.description.endswith("."), table.key
        assert all(column.meaning for column in table.columns), table.key


def test_the_schema_tells_what_may_be_unknown():
    schema = TABLES["raw.generations"].arrow_schema
    assert (schema.field("item_id").nullable, schema.field("score").nullable) == (False, True)


def test_a_verdict_table_belongs_to_an_asset():
    assert verdict_table("strengths") == TABLES["verdicts.strengths"]


A = Column("a", "string", "the a")
B = Column("benchmark_id", "string", "benchmark")


@pytest.mark.parametrize(
    ("grain", "columns", "message"),
    [
        (("a",), (B, A, A), "column 'a' is declared twice"),
        (("b",), (B, A), "grain column 'b' is not among the columns"),
        (("a",), (A, B), "expected 'benchmark_id' in a partitioned table"),
    ],
)
def test_a_contract_that_contradicts_itself_is_refused(grain, columns, message):
    with pytest.raises(ValueError, match=message):
        Table("raw", "things", grain, columns, "Things.")


def test_an_unknown_column_is_refused_with_those_there_are():
    with pytest.raises(KeyError, match=r"raw\.items has no column 'promt'; it has \['benchmark_id', 'item_id'"):
        TABLES["raw.items"].column("promt")
