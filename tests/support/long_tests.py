"""Tests that take long for what each change has to pass: ``conftest.py`` marks them ``nightly``.

Each kind has shorter tests that remain in ``make test``; these are of another program, another
version or a longer wait. Measured on two cores; about six seconds or more, or many of one kind.
"""

from __future__ import annotations

# File → tests; of one case of a parametrized test, the begin of its id follows a bracket.
LONG: dict[str, tuple[str, ...]] = {
    "tests/agent_c/test_agent_text.py": ("test_gcc_has_no_warning[-O2]",),
    "tests/agent_c/test_cfi_oracle.py": ("test_expressions_agree_with_pyelftools[libcrypto]",),
    "tests/agent_c/test_filter_race.py": ("test_filter_that_comes_at_any_moment_kills_nobody",),
    "tests/agent_c/test_gotable.py": ("test_rows_agree_with_a_second_reading[True]",),
    "tests/agent_c/test_greenlet_step.py": ("test_every_chain_is_one_of_one_greenlet",),
    "tests/agent_c/test_opened.py": ("test_no_wait_goes_on_after_a_signal_that_its_mask_let_in",),
    "tests/agent_c/test_samples.py": ("test_samples_come_out_whole_and_in_order",),
    "tests/agent_c/test_self_profile.py": (
        "test_no_batch_is_missing",
        "test_threads_without_procfs_are_sampled_while_they_run",
    ),
    "tests/agent_c/test_unwind.py": ("test_every_case_is_listed",),
    "tests/agent_c/test_upkeep.py": ("test_without_a_beat_it_ends[silent_from_the_start]",),
    "tests/browser/test_page.py": (
        "test_arrow_keys_walk_the_boxes_and_are_read_out",
        "test_click_zooms_and_the_breadcrumb_leads_back",
        "test_clocks_count_different_things",
        "test_n_goes_from_match_to_match_and_zooms_to_narrow_ones",
        "test_phone_has_no_sideways_scroll_and_a_tap_tells_before_it_zooms",
        "test_theme_follows_the_system_until_it_is_chosen",
        "test_threads_are_chosen_and_told_by_what_they_wait_in",
    ),
    "tests/browser/test_page_code.py": (
        "TestLongFunction::test_only_what_is_in_sight_is_drawn",
        "test_modules_share_the_profile_while_the_panel_is_open",
        "test_panel_follows_zoom_clock_and_growth",
    ),
    "tests/browser/test_page_gil.py": ("test_only_the_time_with_the_gil",),
    "tests/browser/test_page_line.py": (
        "test_clock_and_threads_stay_as_shown_when_no_other_can_be_fetched",
        "test_last_view_is_asked_for_again_when_it_was_not_answered",
        "test_line_that_is_lost_before_any_status_is_told",
        "test_server_that_falls_silent_is_taken_for_lost_and_asked_again",
        "test_status_that_was_long_on_its_way_takes_nothing_back",
        "test_wish_that_hangs_while_the_line_breaks_is_given_up",
    ),
    "tests/browser/test_page_live.py": (
        "TestDeepStack::test_canvas_stays_small_and_rows_come_as_one_scrolls",
        "TestDeepStack::test_scroll_position_stays_with_the_rows",
        "test_boxes_keep_their_order_and_nearly_their_places",
        "test_news_in_quick_succession_are_fetched_together",
        "test_open_panels_and_text_being_typed_outlast_updates",
    ),
    "tests/browser/test_page_login.py": ("test_url_opens_the_page_through_a_tunnel_and_again",),
    "tests/browser/test_page_python.py": (
        "TestNativeRecording::test_has_no_control_of_languages",
        "test_language_is_chosen_kept_in_the_url_and_undone",
        "test_source_panel_shows_the_lines_of_a_python_file",
    ),
    "tests/fuzz/test_host.py": ("test_no_input_stops_a_reader",),
    "tests/fuzz/test_replay.py": (
        "test_replay[elf-5]",
        "test_replay[gotable-5]",
        "test_replay[inflate-5]",
        "test_replay[procfs-5]",
        "test_replay[unwind-5]",
    ),
    "tests/hostile/test_claim.py": ("test_another_user_cannot_take_a_process_that_is_not_theirs",),
    "tests/hostile/test_memory.py": (
        "test_memory_has_a_limit_and_no_time_is_lost[addresses]",
        "test_memory_has_a_limit_and_no_time_is_lost[hidden threads]",
        "test_memory_has_a_limit_and_no_time_is_lost[stacks]",
        "test_memory_has_a_limit_and_no_time_is_lost[threads]",
        "test_memory_has_a_limit_and_no_time_is_lost[trace ids]",
    ),
    "tests/hostile/test_mutator.py": (
        "test_mutating_target_neither_stops_nor_spoils_a_recording[1-1-nmjtslfr]",
    ),
    "tests/hostile/test_page_connections.py": (
        "test_page_and_its_events_go_on_beside_connections_that_come_again_and_again",
    ),
    "tests/hostile/test_page_queries.py": ("test_no_query_makes_an_internal_error",),
    "tests/hostile/test_page_token.py": ("test_address_that_other_machines_reach_is_warned_of",),
    "tests/hostile/test_paths.py": ("test_swapped_folder_leads_nowhere_out_of_the_root",),
    "tests/hostile/test_python.py": (
        "test_damaged_structures_neither_stop_nor_spoil_a_recording[1]",
    ),
    "tests/hostile/test_python_objects.py": ("test_dump_of_damaged_objects_harms_neither_side",),
    "tests/hostile/test_ring.py": (
        "test_ring_that_is_changed_ends_the_recording_at_worst[garbage]",
        "test_ring_that_is_changed_ends_the_recording_at_worst[positions]",
        "test_ring_that_is_changed_ends_the_recording_at_worst[punch]",
    ),
    "tests/hostile/test_symbols_bombs.py": ("test_bomb_in_mini_debug_info_is_a_note",),
    "tests/hostile/test_terminal.py": (
        "test_functions_at_addresses",
        "test_lists_and_checks",
        "test_stacks_and_names",
    ),
    "tests/integration/test_attach.py": (
        "test_main_thread_amid_malloc_is_brought_out_of_it",
        "test_stop_that_comes_while_a_function_runs_leaves_nothing",
        "test_target_with_another_c_library",
    ),
    "tests/integration/test_attach_pulse.py": (
        "test_thread_that_computes_and_waits_by_turns_loses_no_wait",
    ),
    "tests/integration/test_bad_input.py": (
        "test_already_traced",
        "test_less_shared_memory_is_a_warning",
        "test_pid_that_does_not_exist",
        "test_shared_memory_that_would_freeze_it",
        "test_static_glibc",
    ),
    "tests/integration/test_cpu_accounting.py": (
        "test_cpu_time_is_put_where_it_was_used_and_not_where_turns_end",
        "test_cpu_weight_is_what_the_kernel_counted",
    ),
    "tests/integration/test_dead_man.py": (
        "test_host_stopped_for_a_moment_goes_on",
        "test_stopped_host_is_given_up_and_ends_in_order_when_it_goes_on",
        "test_stopped_target_does_not_take_its_host_for_dead",
    ),
    "tests/integration/test_endings.py": (
        "test_command_that_dies_has_its_own_exit_code",
        "test_end_is_told_and_the_recording_saved[kill",
        "test_end_is_told_and_the_recording_saved[return",
    ),
    "tests/integration/test_equation.py": (
        "test_cpu_and_waiting_and_sleep_make_up_the_time_that_passed[python]",
    ),
    "tests/integration/test_fork.py": ("test_children_made_amid_an_attach_find_no_lock_taken",),
    "tests/integration/test_governor.py": (
        "test_target_that_sets_its_own_handler_keeps_it",
        "test_the_command_line_tells_that_the_rate_was_lowered",
        "test_what_is_no_budget_is_refused[]",
        "test_what_is_no_budget_is_refused[x]",
    ),
    "tests/integration/test_jit.py": (
        "test_cpython_with_trampolines",
        "test_node_with_a_jitdump",
        "test_node_with_a_perf_map",
    ),
    "tests/integration/test_late_stacks.py": (
        "test_stacks_known_as_unfit_stay_unused_when_handlers_come[shared]",
        "test_tiny_stack_for_faults_stays_unused",
    ),
    "tests/integration/test_live.py": (
        "test_dump_says_why_a_thread_was_not_seen",
        "test_dump_shows_busy_threads_beside_handlers_on_alternate_stacks",
        "test_dump_shows_every_thread_once_with_its_wait",
        "test_live_serves_lines_and_instructions_while_it_records",
    ),
    "tests/integration/test_moved_files.py": (
        "test_private_copies_and_replaced_files_are_named_by_what_runs",
    ),
    "tests/integration/test_no_harm.py": (
        "test_many_attaches_in_a_row_leave_it_healthy",
        "test_nothing_stays_behind[parked short]",
        "test_output_goes_on_unbroken",
    ),
    "tests/integration/test_nothing_lost.py": ("test_stopped_time_is_in_no_interval",),
    "tests/integration/test_patchwork.py": ("test_shares_in_a_program_of_many_mappings_are_right",),
    "tests/integration/test_preflight_targets.py": (
        "test_missing_right_is_named[asker2-owner2-CAP_SYS_PTRACE]",
        "test_program_run_by_valgrind",
        "test_remedy_for_a_user_without_room_helps",
    ),
    "tests/integration/test_python_churn.py": (
        "test_functions_that_live_for_microseconds_have_their_names[3.10]",
        "test_functions_that_live_for_microseconds_have_their_names[3.11]",
        "test_functions_that_live_for_microseconds_have_their_names[3.12]",
        "test_functions_that_live_for_microseconds_have_their_names[3.13]",
        "test_functions_that_live_for_microseconds_have_their_names[3.9]",
    ),
    "tests/integration/test_python_gil.py": (
        "test_finalizers_are_called_by_the_garbage_collection[3.12]",
        "test_garbage_collection_has_the_share_that_the_program_measures[3.12]",
        "test_garbage_collection_has_the_share_that_the_program_measures[3.9]",
        "test_garbage_collection_has_the_share_that_the_program_measures[debian]",
        "test_threads_that_share_the_lock",
    ),
    "tests/integration/test_python_greenlets.py": (
        "test_greenlets_are_not_mixed_and_have_their_shares",
    ),
    "tests/integration/test_python_stacks.py": (
        "test_dump_has_names_variables_and_tasks[3.11]",
        "test_functions_are_shown_while_the_interpreter_ends[3.10]",
        "test_functions_are_shown_while_the_interpreter_ends[3.11]",
        "test_functions_are_shown_while_the_interpreter_ends[3.12]",
        "test_functions_are_shown_while_the_interpreter_ends[3.9]",
        "test_of_a_deep_recursion_the_innermost_functions_are_shown[3.10]",
        "test_of_a_deep_recursion_the_innermost_functions_are_shown[3.11]",
        "test_of_a_deep_recursion_the_innermost_functions_are_shown[3.12]",
        "test_of_a_deep_recursion_the_innermost_functions_are_shown[3.9]",
        "test_shares_are_those_that_the_program_measures[3.10]",
        "test_shares_are_those_that_the_program_measures[3.11]",
        "test_shares_are_those_that_the_program_measures[3.12]",
        "test_shares_are_those_that_the_program_measures[3.8]",
        "test_shares_are_those_that_the_program_measures[3.9]",
        "test_waiting_threads_have_the_frames_that_the_interpreter_sees[3.10]",
        "test_waiting_threads_have_the_frames_that_the_interpreter_sees[3.11]",
        "test_waiting_threads_have_the_frames_that_the_interpreter_sees[3.12]",
        "test_waiting_threads_have_the_frames_that_the_interpreter_sees[3.9]",
    ),
    "tests/integration/test_real_targets.py": (
        "test_cpython",
        "test_nginx_worker_under_wrk",
        "test_node",
        "test_redis_under_benchmark",
    ),
    "tests/integration/test_record.py": (
        "test_command_killed_by_a_signal_gives_128_and_its_number",
        "test_commands_output_and_exit_code_are_its_own_however_short",
        "test_deep_recursion_is_complete_up_to_the_limit",
        "test_first_signal_stops_and_saves",
    ),
    "tests/integration/test_seccomp.py": (
        "test_containers_default_filter_is_no_obstacle",
        "test_filter_that_kills_is_refused[each kcmp-process_vm_readv]",
        "test_filter_that_kills_is_refused[error-rt_sigreturn]",
        "test_filter_that_kills_is_refused[trap-getdents64]",
    ),
    "tests/integration/test_standstill.py": (
        "test_frozen_target_is_refused_and_frozen_amid_a_recording_it_goes_on",
        "test_target_stopped_amid_a_recording_goes_on",
        "test_target_that_ends_amid_an_attach",
        "test_third_ctrl_c_waits_for_nobody",
    ),
    "tests/integration/test_stray_stacks.py": (
        "test_in_a_pid_namespace_it_gets_no_signal_either",
        "test_stack_aligned_as_an_arena_is_a_stack",
    ),
    "tests/integration/test_truth.py": (
        "test_cpu_time_is_shown_where_it_was_spent_on_one_cpu[convoy]",
    ),
    "tests/integration/test_unwind_oracle.py": ("test_parked_stacks_agree[java]",),
    "tests/integration/test_unwind_targets.py": (
        "test_a_module_without_any_is_named",
        "test_handler_on_an_alternate_stack",
        "test_unwind_information_is_found_wherever_it_is",
    ),
    "tests/integration/test_verify_detach.py": (
        "test_busy_process_is_not_blamed_on_us",
        "test_changed_code_is_told_and_the_recording_saved",
    ),
    "tests/unit/inject/test_connection_keeper.py": (
        "test_line_is_kept_until_a_stopped_process_has_gone_on_for_a_while",
    ),
}


def is_long(node_id: str) -> bool:
    """Return True for a test of the list, by its id in pytest."""
    file, _, test = node_id.partition("::")
    return any(
        test == entry or test.startswith(entry if "[" in entry else f"{entry}[")
        for entry in LONG.get(file, ())
    )
