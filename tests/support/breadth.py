"""Of tests that show more of the same: how many of their cases run in every `./course test`. ``--long`` runs them all.

A list of answers that were once let through, a grid of sizes: each case is worth keeping, and none needs to be seen at
every push. The first of a test's cases are kept, so what matters most stands first. By the file and the test's name.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

KEPT: dict[str, dict[str, int]] = {
    "test_exercises.py": {
        "test_a_right_answer_by_a_forbidden_way_is_told_so": 12,
        # the solutions, which run each time, hand in every reference, and the learners' copies every stub
        "test_the_reference_solution_passes": 6,
        "test_the_learners_stub_is_not_attempted": 6,
    },
    "test_lesson_00_reviews.py": {
        "test_a_share_that_is_right_for_some_sizes_or_in_another_form_is_refused": 3,
        "test_a_mean_that_costs_too_much_or_leaves_something_behind_is_refused": 4,
    },
    "test_lesson_01_answers.py": {"test_other_forms_of_a_mistake_are_recognised": 1},
    "test_lesson_01_reviews.py": {
        "test_a_step_that_leaves_something_or_costs_too_much_is_refused": 2,
        "test_a_second_run_that_leaves_something_behind_is_refused": 2,
        "test_an_evaluation_that_changes_or_keeps_something_is_refused": 5,
    },
    "test_lesson_02_answers.py": {"test_fakes_that_give_the_right_sum_are_turned_away_by_cost": 2},
    "test_lesson_02_reviews.py": {"test_what_was_accepted_is_refused_and_told": 3},
    "test_lesson_02_told.py": {"test_a_message_says_what_was_seen_and_no_more": 3},
    # Machinery that CI itself uses at every push, or that few changes touch, in launches of half a minute of CPU.
    "test_course_script.py": {
        "test_life_of_an_environment": 0,
        "test_stopped_while_pip_works": 0,
        "test_python_without_its_venv_module": 1,
        "test_pip_fails_and_nothing_half_made_is_used": 0,
        "test_help_and_a_mistyped_verb_install_nothing": 2,
    },
    "test_environment_install.py": {
        "test_pip_does_it_where_uv_fails": 0,
        "test_pip_does_not_try_what_it_cannot_do_either": 0,
        "test_real_uv_from_files": 0,
    },
    "test_nodes_launch.py": {  # lessons 12a and 12b do the same in every run
        "test_a_killed_rank_restarts_both_nodes_and_a_killed_node_comes_back": 0,
        "test_two_agents_meet_and_what_crosses_between_them_is_counted_and_slowed": 0,
        "test_a_hang_is_ended_at_its_limit_and_the_ranks_say_where_they_stand": 0,
    },
    "test_launch_files.py": {"test_ssh_starts_two_agents_that_meet": 0},
    "test_preflight.py": {"test_ranks_that_cannot_meet_end_with_a_sentence": 1},
    "test_cluster_folders.py": {"test_what_a_killed_notebook_has_left_is_removed_by_the_next": 0},
    "test_cluster_shortage.py": {"test_a_cluster_that_finds_no_descriptor_says_so_and_works_when_there_are_some": 0},
    "test_cluster_surroundings.py": {"test_what_torch_changes_when_a_part_of_it_is_loaded_late_is_nobodys_fault": 0},
    "test_capstone_cheats.py": {"test_a_cheat_is_told_by_name": 9},
    "test_capstone_hiding.py": {
        "test_what_the_system_counts_is_told_by_name": 5,
        "test_another_loss_than_one_devices_has_no_points_and_is_no_cheat": 1,
    },
    "test_capstone_honest.py": {"test_a_style_is_no_cheat": 2},
    "test_capstone_attempts.py": {"test_what_a_mesh_holds_and_sends_is_what_was_expected": 2},
    "test_capstone_face.py": {"test_no_name_is_shadowed_by_a_module": 0},
    "test_mesh_launches.py": {"test_four_ranks_are_stopped_by_sigterm_and_one_process_without_torchrun_goes_on": 0},
    "test_mesh_saving.py": {"test_another_mesh_loads_the_same_bits_and_goes_on": 1},
    "test_cluster_black_box.py": {"test_the_reader_of_pytorch_names_the_rank_that_did_not_join": 0},
    "test_cluster_hardships.py": {
        "test_modules_beside_the_notebook_may_be_named_like_the_librarys": 0,
        "test_a_program_ends_though_a_temporary_folder_was_made_before_the_course_came_in": 0,
        "test_a_stopped_rank_does_not_outlive_a_parent_that_is_killed": 0,
    },
    "test_warm_kernels.py": {
        "test_all_end_when_the_run_is_killed": 0,
        "test_outputs_are_compared_and_errors_seen_in_forked_kernels": 0,
    },
    "test_cluster_notebook.py": {
        "test_loading_ends_with_its_notebook": 0,
        "test_loading_is_silent_survives_and_leaves_things_as_they_were": 0,
    },
    "test_device_discipline.py": {"test_values_on_another_device_are_those_of_the_cpu": 16},
    "test_lesson_03_answers.py": {"test_wrong_answers_do_not_pass": 3},
    "test_lesson_03_reviews.py": {"test_what_was_accepted_is_refused_and_told": 4},
    "test_lesson_04_answers.py": {"test_another_right_answer_passes": 2},
    "test_lesson_04_reviews.py": {"test_what_was_found_accepted_is_refused": 1},
    "test_lesson_05_clip.py": {"test_wrong_clips_are_turned_away": 3},
    "test_lesson_05_optimizer.py": {"test_wrong_optimizers_are_turned_away": 1},
    "test_lesson_05_unit.py": {"test_wrong_layers_are_turned_away": 3},
    "test_lesson_06_reviews.py": {"test_what_was_found_accepted_is_refused": 3},
    "test_lesson_07_answers.py": {
        "test_another_right_answer_passes": 4,
        "test_a_wrong_answer_is_told_what_was_seen": 10,
    },
    "test_lesson_07_left_behind.py": {"test_what_an_answer_leaves_or_forgets_is_seen": 3},
    "test_lesson_07_reviews.py": {
        "test_a_wrong_answer_that_was_accepted_is_refused": 6,
        "test_a_message_says_what_was_seen_and_no_more": 6,
    },
    "test_lesson_08_losses.py": {
        "test_what_is_wrong_with_a_loss_is_named_and_nothing_else": 3,
        "test_wrong_losses_are_turned_away": 3,
    },
    "test_lesson_09_norm.py": {"test_wrong_norms_are_turned_away": 2},
    "test_lesson_10_dispatch.py": {"test_wrong_journeys_are_turned_away": 2},
    "test_lesson_10_join.py": {"test_a_wrong_answer_of_another_form_is_told_what_is_so": 8},
    "test_lesson_10_zigzag.py": {"test_a_wrong_answer_of_another_form_is_told_what_is_so": 8},
    "test_lesson_11_fits.py": {"test_a_wrong_answer_of_another_form_is_refused_without_a_name_that_is_not_its_own": 6},
    "test_lesson_12_hierarchical.py": {"test_wrong_answers_are_turned_away": 2},
    "test_lesson_12_rendezvous.py": {"test_a_wrong_answer_of_another_form_is_refused": 6},
    "test_lesson_08_parts.py": {
        "test_wrong_attention_is_turned_away": 1,
        "test_wrong_tables_are_turned_away": 1,
        "test_wrong_blocks_along_positions_are_turned_away": 1,
        "test_wrong_gates_along_positions_are_turned_away": 1,
    },
    "test_lesson_08_reviews.py": {"test_a_usual_slip_of_a_split_loss_is_named": 4},
    "test_trial_again.py": {
        "test_a_message_says_what_was_seen": 6,
        "test_what_was_accepted_once_is_refused": 6,
    },
    "test_trial_of_leavings.py": {"test_what_is_left_is_told_and_nothing_else": 2},
    "test_trial_of_checks.py": {"test_a_cut_that_is_no_sequence_of_whole_numbers_is_refused": 3},
    "test_trial_on_ranks.py": {
        "test_a_message_says_what_was_seen_in_the_learners_terms": 2,
        "test_a_right_answer_that_was_refused_once_passes": 1,
        "test_what_was_accepted_once_is_refused": 2,
    },
    "test_trial_third.py": {"test_what_was_accepted_once_is_refused": 2},
    "test_trial_third_told.py": {
        "test_a_message_says_what_was_seen": 7,
        "test_a_right_answer_that_was_refused_once_passes": 2,
    },
    "test_learn_ranks_told.py": {"test_no_verdict_shows_a_file_of_the_judges": 2},
    "test_cluster_failures.py": {
        "test_ranks_do_not_outlive_a_parent_that_dies_while_they_are_busy": 0,
        "test_a_slow_rank_whose_peers_have_returned_is_left_to_finish": 0,
    },
    "test_cluster_fuzz.py": {"test_after_any_body_a_right_call_is_right": 1},
    "test_cluster_hope.py": {"test_a_call_that_nobody_can_end_ends_at_once": 4},
    "test_cluster_left_over.py": {"test_what_is_left_is_named_and_the_next_call_is_right": 5},
    "test_context_transformer.py": {"test_losses_and_weights_after_five_steps_are_those_of_one_device": 2},
    "test_experts_cost.py": {"test_the_meter_counts_the_formulas_bytes": 3},
    "test_experts_parallel.py": {"test_five_steps_are_those_of_one_process": 4},
    "test_mesh_checkpoint.py": {"test_saved_on_one_mesh_and_loaded_on_another_and_on_one_rank": 1},
    "test_mesh_on_mesh.py": {
        "test_training_on_a_mesh_equals_one_process": 4,
        "test_with_other_schedules_and_sequence_parallelism": 3,
    },
    "test_parallel_collectives.py": {"test_all_reduce_gives_the_same_whole_numbers_by_every_algorithm": 4},
    "test_parallel_ddp.py": {"test_weights_after_5_steps_are_those_of_one_process": 10},
    "test_parallel_checkpoint.py": {"test_several_writers_of_one_name_all_succeed_and_the_file_is_always_whole": 0},
    "test_claims.py": {"test_facts_are_the_same_in_every_run": 4},
    "test_pipeline_failures.py": {"test_a_stage_that_fails_is_named_and_ends_all_ranks_which_then_go_on": 3},
    "test_mesh_training.py": {"test_three_steps_on_four_ranks_equal_one_process": 1},
    "test_pipeline_runtime.py": {"test_loss_gradients_and_weights_are_those_of_one_process": 9},
    "test_pipeline_validate.py": {"test_broken_schedules_are_told_from_those_that_still_run": 3},
    "test_sharded_checkpoint.py": {"test_saved_on_three_or_four_ranks_and_loaded_on_any_number": 1},
    "test_sharded_cost.py": {
        "test_memory_is_that_of_the_formula": 1,
        "test_stage_2_never_holds_the_whole_gradients": 1,
    },
    "test_sharded_equality.py": {"test_it_equals_one_device": 6, "test_however_it_is_wrapped": 4},
    "test_sharded_modes.py": {
        "test_compiled_it_is_the_same_model": 1,
        "test_gradients_of_inputs_alone": 2,
        "test_reentrant_checkpointing_is_refused_with_the_sentence_of_ddp": 1,
    },
    "test_sharded_optimizer.py": {"test_it_equals_one_device": 6},
    "test_sharded_stages.py": {"test_every_part_of_a_step_of_every_stage_holds_what_the_formula_says": 2},
    "test_tensor_parallel_dtensor.py": {"test_a_block_equals_dtensors": 1},
    "test_tensor_parallel_transformer.py": {"test_training_equals_one_process": 2},
    "test_widget_plan.py": {"test_every_machine_and_every_model_are_planned": 3},
    # The test above each of them asks the same in every run, of stand-ins for ranks and clocks.
    "test_cost_collectives.py": {"test_the_bench_measures_and_predicts_every_case": 0},
    "test_calibration.py": {"test_a_real_calibration": 0},
    "test_capstone_record.py": {"test_a_search_says_how_long_it_takes_and_puts_the_quickest_first": 0},
    "test_widget_matmul.py": {"test_the_button_runs_the_plan_and_compares": 2},
    "test_testing.py": {
        "test_stopped_with_all_that_it_started": 1,
        "test_what_is_not_over_at_the_end_is_stopped_and_not_told_as_passed": 0,
    },
    "test_testing_quick.py": {
        "test_the_tests_of_the_course_are_found": 1,
        "test_the_plan_for_a_change": 1,
        "test_a_part_that_does_not_end_in_time_is_stopped_and_named": 0,
    },
    "test_environment_files.py": {"test_pins_hold_together_under_every_python": 1},
    "test_bench_gpu_far.py": {"test_it_runs_where_the_rank_computes": 4},
    "test_pipeline_data_parallel.py": {"test_two_pipelines_that_average_gradients_learn_as_one_process_does": 2},
    "test_lesson_08_answers.py": {
        "test_another_right_answer_passes": 3,
        "test_wrong_mlps_are_turned_away": 2,
        "test_wrong_gates_are_turned_away": 2,
    },
    "test_lesson_09_assemble.py": {
        "test_wrong_assemblies_are_turned_away": 1,
        "test_rows_dealt_in_turn_are_right": 0,
    },
    "test_parallel_model_parallel.py": {
        "test_cut_in_parts_it_learns_as_the_uncut_model_does": 16,
        "test_moved_from_device_to_device_it_is_the_same_model": 6,
    },
    "test_plot.py": {"test_the_same_data_gives_the_same_bytes_and_a_picture_of_the_right_size": 2},
    "test_plan_record.py": {"test_the_schema_holds_and_the_plan_comes_back": 2},
}


def more_of_the_same(items: list[pytest.Item]) -> list[pytest.Item]:
    """The cases that wait for ``--long``, because as many as are kept stand before them."""
    seen: Counter[tuple[Path, str]] = Counter()
    waiting = []
    for item in items:
        name = getattr(item, "originalname", item.name)
        kept = KEPT.get(item.path.name, {}).get(name)
        if kept is None or item.get_closest_marker("long"):
            continue
        seen[item.path, name] += 1
        if seen[item.path, name] > kept:
            waiting.append(item)
    return waiting
