//! The tests that run on a cluster: one of e2e's, or any that KUBECONFIG names.
//!
//! A test is an async function with a namespace of its own. A failure is printed with a diagnosis:
//! events, states of pods, last log lines of pods that are not ready.

mod charts;
mod control_plane;
mod diagnosis;
mod failures;
mod gateway_pod;
mod http;
mod load;
mod manifests;
mod objects;
mod operator;
mod platform;
mod port_forward;
mod protocols;
mod runner;
mod scope;
mod tls;

use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::args::TestArgs;
use crate::home::Home;
use crate::process::print_line;
use control_plane::{
    access, answers, autoscaling, bad_input, crowds, endpoints, error_pages, external_auth,
    features, hostile, idp, inference, infrastructure, kinds, life, live_traffic, long, mistakes,
    permissions, precedence, sessions, tenancy, x_backends,
};
use runner::{Runner, TestCluster};
use scope::{Images, Scope};

/// Timeout of a test on a busy machine, and of a long one.
const TIMEOUT: Duration = Duration::from_mins(5);
const LONG_TIMEOUT: Duration = Duration::from_mins(45);

/// The requirements of a test: a cluster; from `TestCluster` on one of e2e's, from `Controller` on
/// one with the controller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Needs {
    Any,
    /// A cluster of e2e's: its nodes' files, its network, its components.
    TestCluster,
    /// A cluster of e2e's with the controller.
    Controller,
    /// Beside these, the image of Keycloak.
    Keycloak,
    /// Beside these, the image of the Inference Extension's endpoint picker.
    Picker,
    /// Beside these, the image of the metrics server.
    Metrics,
    /// Beside these, images of the commit before.
    Previous,
}

type TestFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

struct Test {
    name: &'static str,
    needs: Needs,
    run: for<'a> fn(&'a Scope) -> TestFuture<'a>,
}

impl Test {
    fn timeout(&self) -> Duration {
        let is_long = LONG_TESTS.iter().any(|it| it.name == self.name);
        if is_long { LONG_TIMEOUT } else { TIMEOUT }
    }
}

macro_rules! tests {
    ($($needs:ident $file:ident :: $name:ident,)*) => {
        &[$(Test {
            name: concat!(stringify!($file), "::", stringify!($name)),
            needs: Needs::$needs,
            run: |scope| Box::pin($file::$name(scope)),
        }),*]
    };
}

const TESTS: &[Test] = tests! {
    Any platform::a_missing_image_is_named_within_seconds,
    Any platform::names_of_services_resolve,
    TestCluster platform::load_balancer_addresses_are_reachable_until_released,
    TestCluster platform::load_balancers_follow_local_endpoints,
    Any charts::the_api_server_accepts_the_definitions,
    Any charts::a_release_is_installed_upgraded_rolled_back_and_uninstalled,
    Any gateway_pod::uses_io_uring_without_a_seccomp_profile,
    Any gateway_pod::falls_back_to_epoll_under_runtime_default,
    TestCluster gateway_pod::uses_io_uring_under_the_installed_seccomp_profile,
    Any gateway_pod::serves_tls_on_port_443,
    TestCluster gateway_pod::sigterm_under_load_loses_no_request,
    Any gateway_pod::shards_follow_the_cpu_quota,
    TestCluster gateway_pod::a_shard_is_bound_to_an_exclusive_cpu,
    TestCluster gateway_pod::many_clients_fit_into_the_memory_limit,
    TestCluster gateway_pod::requests_are_rejected_before_the_pod_is_oom_killed,
    Any protocols::h2c_reaches_a_backend,
    Any protocols::grpc_reaches_a_backend,
    Any protocols::websocket_reaches_a_backend,
    Any protocols::tcp_reaches_a_backend,
    TestCluster protocols::udp_reaches_a_backend,
    TestCluster failures::a_cut_between_nodes_fails_requests_until_it_heals,
    TestCluster failures::packets_between_nodes_can_be_delayed,
    TestCluster failures::packets_between_nodes_can_be_dropped,
    TestCluster failures::traffic_continues_without_the_api_server,
    Controller operator::a_release_serves_from_install_to_uninstall,
    Controller life::routes_services_and_pods_can_be_changed_and_deleted,
    Controller life::a_gateway_can_be_changed_and_deleted,
    Controller kinds::routes_of_each_kind_are_served_until_deleted,
    Controller kinds::certificates_and_listener_sets_take_effect_until_deleted,
    Controller kinds::policies_and_backends_take_effect_until_deleted,
    Controller kinds::grants_and_labels_permit_cross_namespace_references,
    Controller kinds::classes_and_parameters_take_effect_until_deleted,
    Controller features::a_session_stays_with_its_pod,
    Controller features::a_service_policy_enables_session_persistence,
    Controller features::regular_expressions_match_whole_values,
    Controller features::retries_stay_within_their_budget,
    Controller features::retries_stay_within_their_rate,
    Controller features::routes_attach_to_default_gateways,
    Controller features::addresses_have_the_requested_routability,
    Controller features::client_certificates_are_verified_with_trust_bundles,
    Controller access::networks_see_the_address_that_a_load_balancer_passes,
    Controller access::networks_see_the_address_that_haproxy_passes,
    Controller access::limits_of_clients_outlive_changes_of_their_policy,
    Controller precedence::no_policy_of_a_tenant_admits_what_an_overriding_one_refuses,
    Controller external_auth::an_http_server_authorizes_requests,
    Controller external_auth::an_ext_authz_server_authorizes_requests,
    Controller external_auth::a_listener_authorizes_before_route_matching,
    Controller error_pages::a_page_server_has_the_pages_of_errors,
    Controller x_backends::pods_are_selected_by_label_and_port,
    Picker inference::an_endpoint_picker_selects_the_pod,
    Controller infrastructure::gateways_report_the_addresses_of_services_and_nodes,
    Controller infrastructure::an_autoscaler_takes_over_and_gives_back_the_number_of_proxies,
    Controller endpoints::requests_stay_in_the_zone_until_it_is_drained,
    Controller answers::maintenance_is_for_all_but_the_office,
    Controller answers::backends_get_the_paths_that_policies_rewrite,
    Controller mistakes::mistakes_in_objects_are_named_until_they_are_mended,
    Controller mistakes::what_keeps_pods_from_running_is_named_until_it_is_mended,
    Controller live_traffic::the_controller_is_killed,
    Controller live_traffic::another_replica_becomes_the_leader,
    Controller live_traffic::the_api_server_is_unavailable,
    Controller live_traffic::the_xds_mode_changes,
    Controller live_traffic::proxies_are_replaced_while_the_controller_is_unavailable,
    Controller live_traffic::routes_change,
    Controller live_traffic::a_backend_is_restarted,
    Controller live_traffic::proxies_are_scaled_up_and_down,
    Controller live_traffic::a_node_is_drained,
    Controller live_traffic::the_network_between_nodes_is_cut,
    Controller sessions::a_new_key_and_new_proxies_move_no_session,
    Controller permissions::every_permission_is_used_and_none_is_missing,
    Controller tenancy::proxies_cannot_read_resources_of_another_gateway,
    Controller tenancy::the_impact_of_hostile_proxies_is_bounded,
    Controller bad_input::dangling_references_are_reported_in_the_status,
    Controller bad_input::a_reserved_port_and_an_address_in_use_are_rejected,
    Controller bad_input::names_of_253_characters_are_supported,
    Controller bad_input::another_writer_replacing_our_status_causes_few_writes,
    Controller bad_input::unselected_namespaces_are_ignored,
};

/// Tests that take minutes each, or that measure times, which needs a machine that does nothing else.
const LONG_TESTS: &[Test] = tests! {
    Controller infrastructure::gateways_at_ports_of_the_same_nodes_do_not_disturb_each_other,
    Controller infrastructure::proxies_on_bare_metal_are_replaced_without_a_failed_request,
    Controller endpoints::a_ready_pod_whose_health_check_fails_gets_no_requests,
    Metrics autoscaling::an_autoscaler_follows_the_cpu_time_of_proxies,
    Controller long::the_api_server_is_unavailable_for_minutes,
    Controller long::the_network_is_cut_for_minutes,
    Controller long::routes_change_a_thousand_times,
    Controller long::the_certificate_authority_is_replaced,
    Controller crowds::a_full_gateway_says_so_and_its_proxies_reconnect,
    Controller crowds::a_thousand_misspelt_gateways_delay_no_other,
    Controller crowds::a_thousand_invalid_policies_delay_no_gateway,
    Controller hostile::a_quiet_tenant_does_not_notice_a_hostile_one,
    Controller hostile::a_quiet_tenant_does_not_notice_a_hostile_one_for_half_an_hour,
    Controller long::ten_thousand_broken_routes_do_not_delay_other_gateways,
    Keycloak idp::keycloak_users_are_distinguished_by_their_group,
    Previous operator::a_release_is_upgraded_from_the_commit_before,
};

/// Runs the test that the filter names, or else those whose names contain it.
pub(crate) fn run(home: &Home, name: &str, args: &TestArgs) -> Result<ExitCode> {
    let tests = if args.long { LONG_TESTS } else { TESTS };
    let mut chosen: Vec<&Test> = tests
        .iter()
        .filter(|test| test.name.contains(&args.filter))
        .collect();
    if chosen.iter().any(|test| test.name == args.filter) {
        chosen.retain(|test| test.name == args.filter);
    }
    if chosen.is_empty() {
        bail!(
            "no test's name contains '{}': `e2e test --list` names all",
            args.filter
        );
    }
    if args.list {
        for test in chosen {
            print_line(test.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let all_passed = if args.existing {
        run_on_existing(&chosen)?
    } else {
        let needs: Vec<Needs> = chosen.iter().map(|it| it.needs).collect();
        let ours = TestCluster {
            home,
            name,
            keep: args.keep,
            needs: &needs,
        };
        ours.run(|runner| runner.run_all(&chosen))?
    };
    Ok(if all_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run_on_existing(chosen: &[&Test]) -> Result<bool> {
    let kubeconfig = std::env::var_os("KUBECONFIG")
        .context("--existing needs a cluster: set KUBECONFIG to its kubeconfig")?;
    let kubeconfig = PathBuf::from(kubeconfig);
    Runner::new(kubeconfig, None, Images::of_environment())?.run_all(chosen)
}
