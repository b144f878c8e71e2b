//! The list of cases, as one test each.

/// Makes one test of every case of the suite. The expression makes a fresh [`Place`](crate::store_suite::Place); it is
/// evaluated once for each test.
#[macro_export]
macro_rules! store_suite {
    ($place:expr) => {
        $crate::store_suite_cases! { $place;
            acceptance: inv_02_an_acceptance_survives_reopening,
            acceptance: route_05_the_keys_of_a_tenant_survive_reopening,
            acceptance: inv_06_a_repeated_call_is_answered_with_the_first_delegation,
            acceptance: inv_36_an_id_that_is_taken_is_refused,
            acceptance: an_acceptance_in_a_wrong_shape_is_refused,
            acceptance: only_a_process_that_entered_may_accept,
            acceptance: k07_results_that_come_by_themselves_are_accepted_only_for_a_session_that_is_there,
            acceptance: k07_of_an_acceptance_and_the_deletion_of_its_session_one_is_carried_out,
            facts: facts_are_appended_under_the_expected_number_only,
            facts: an_illegal_move_refuses_its_own_append_and_no_other,
            facts: inv_02_an_outcome_is_stored_while_siblings_still_run,
            facts: inv_10_outcomes_stay_with_their_own_tasks,
            facts: a_unit_settles_with_its_last_child_and_not_before,
            facts: an_append_may_carry_a_whole_life,
            facts: k24_odd_and_large_texts_come_back_unchanged,
            owners: inv_30_a_late_owner_is_fenced_everywhere,
            owners: inv_30_a_process_that_was_declared_gone_is_kept_out,
            owners: inv_30_a_process_that_was_declared_gone_writes_nothing_more,
            owners: taking_over_moves_named_open_delegations_only,
            owners: k08_what_a_process_has_told_of_the_end_of_its_attempts_stands,
            owners: owners_of_open_work_are_listed,
            owners: groups_are_remembered_until_dropped,
            owners: pulses_are_stored_for_the_owner_only,
            claims: one_of_eight_claimers_gets_the_unit,
            claims: only_a_ready_unit_can_be_claimed,
            claims: a_claim_that_is_not_current_moves_nothing,
            claims: claims_end_together_or_not_at_all,
            claims: a_parked_unit_comes_back_or_is_dismissed,
            claims: the_ledger_tells_every_move,
            claims: inv_05_nothing_undelivered_is_pruned,
            unread: inv_01_what_a_child_had_not_read_ends_with_its_own_results,
            unread: k05_what_a_child_had_not_read_is_given_up_with_its_own_results,
            unread: what_is_open_below_stays,
            journal: a_journal_comes_back_in_order,
            journal: a_step_begins_at_the_next_free_place,
            journal: only_an_open_step_can_end,
            journal: a_write_is_stored_whole_or_not_at_all,
            journal: inv_02_steps_and_acknowledgement_are_one_commit,
            journal: a_session_has_a_journal_of_its_own,
            history: a_history_comes_back_in_order,
            history: a_turn_is_appended_under_the_expected_length_only,
            history: inv_02_a_turn_and_its_acknowledgement_are_one_commit,
            history: sessions_are_listed_newest_first,
            history: an_opening_is_the_first_thing_a_user_said,
            sessions: inv_30_a_session_is_written_by_its_holder_only,
            sessions: of_eight_openers_one_gets_the_session,
            sessions: a_dead_holder_is_replaced_by_name_only,
            sessions: a_name_is_taken_once_in_a_folder,
            sessions: inv_05_a_session_is_deleted_only_when_all_is_over,
            sessions: inv_02_a_session_is_discarded_only_by_its_holder_and_only_unused,
            sessions: a_deleted_session_takes_its_own_with_it_and_nothing_else,
            sessions: every_kind_of_session_comes_back,
            journal: inv_02_a_turn_of_a_journal_and_its_history_are_one_commit,
            journal: inv_02_a_write_that_is_stored_already_is_refused_whole,
            journal: a_turn_of_a_journal_is_stored_whole_or_not_at_all,
            steers: ctrl_10_a_steer_is_seen_missed_or_refused,
            steers: ctrl_10_a_steer_is_seen_once_by_its_own_child,
            steers: k27_no_more_texts_wait_for_a_child_than_may_whoever_says_them,
            steers: inv_02_a_steer_is_seen_in_the_commit_of_its_step,
            steers: ctrl_10_steers_and_the_end_of_their_child_come_in_one_order,
            steers: nothing_that_was_said_is_pruned_before_its_child,
            steers: inv_11_a_stop_that_nobody_carried_out_outlives_its_age_while_its_work_is_open,
            steers: dur_07_all_that_is_old_is_pruned_at_once,
            steers: a_pause_holds_for_the_whole_store,
            damage: k35_one_delegation_that_cannot_be_read_keeps_no_other_back,
            damage: k35_a_request_that_cannot_be_read_keeps_no_other_back,
            damage: k35_results_of_which_it_cannot_be_read_where_they_are_keep_no_others_back,
            damage: k35_facts_of_what_cannot_be_read_are_refused_and_no_others,
            damage: k35_health_names_what_cannot_be_read,
            damage: inv_05_nothing_that_cannot_be_read_is_pruned,
            damage: inv_01_what_cannot_be_read_is_told_with_nothing,
            due: undelivered_units_come_in_the_order_they_became_ready,
            due: undelivered_units_tell_where_they_are,
            due: k03_what_is_due_is_read_in_portions_that_neither_repeat_nor_lose_a_unit,
            notices: a_notice_goes_the_way_of_a_unit_and_is_none,
            notices: a_notice_ends_with_its_unit_and_keeps_nothing,
            notices: a_notice_without_an_early_failure_is_refused,
            lookup: an_exact_id_wins_over_a_beginning,
            lookup: an_ambiguous_beginning_gives_all,
            lookup: delegations_are_listed_newest_first,
            lookup: requests_come_in_order_until_they_are_settled,
            lookup: health_counts_what_is_open_and_undelivered,
        }
    };
}

/// Makes tests of the cases that are named.
#[doc(hidden)]
#[macro_export]
macro_rules! store_suite_cases {
    ($place:expr; $($group:ident: $case:ident,)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                let place = $place;
                $crate::store_suite::cases::$group::$case(&place).await;
            }
        )*
    };
}
