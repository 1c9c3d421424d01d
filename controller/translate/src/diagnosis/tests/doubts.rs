//! What is valid and hardly meant so.

use super::*;

fn backend(spec: &str) -> String {
    format!(
        "{{apiVersion: gateway-system.io/v1alpha1, kind: Backend, metadata: {{name: shop, namespace: app}}, spec: \
         {spec}}}\n---\n"
    )
}

pub(super) fn grant(from: &str, to: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: ReferenceGrant, metadata: {{name: others, namespace: \
         app}}, spec: {{from: [{{{from}, namespace: web}}], to: [{{{to}}}]}}}}\n---\n"
    )
}

#[test]
fn services_without_hints_are_doubted_for_their_ready_endpoints() {
    let service = SERVICE.replace("{ports", "{trafficDistribution: PreferSameZone, ports");
    let backend = route("shop", "[{backendRefs: [{name: shop, port: 80}]}]") + &service;
    let hinted = "{addresses: [10.0.0.1], hints: {forZones: [{name: a}]}}";
    let (plain, gone) = (
        "{addresses: [10.0.0.2]}",
        "{addresses: [10.0.0.3], conditions: {ready: false, serving: true, terminating: true}}",
    );
    let with = |endpoints: &str| backend.clone() + &slice(PORT, &format!("[{endpoints}]"), "");
    let doubt = Some("none of its endpoints has a hint");
    let locality = |spec: &str| {
        let policy = policy("kind: Service, name: shop", &format!("balance: {{{spec}}}"));
        with(plain) + &policy.replace("group: gateway.networking.k8s.io", "group: ''")
    };
    assert_found(&[
        (with(plain), doubt),
        (with(&format!("{plain}, {hinted}")), None),
        // Those that end, or start, have none.
        (with(gone), None),
        (with(&format!("{gone}, {hinted}")), None),
        (locality("locality: {mode: PreferZone}"), None),
        (locality("hash: {by: [{header: x-user}]}"), None),
        (locality("slowStart: {window: 30s}"), doubt),
    ]);
}

#[test]
fn a_header_that_a_match_has_twice_is_doubted() {
    let twice = |second: &str| {
        let matches = format!("{{headers: [{{name: x-a, value: b}}, {second}]}}");
        serving("shop", "[shop.example]", &matches)
    };
    let doubt =
        Some("spec.rules[0].matches[0].headers[1].name: has no effect, since headers[0] has");
    assert_found(&[
        (twice("{name: X-A, value: c}"), doubt),
        (twice("{name: X-A, value: b}"), None),
        (twice("{name: x-b, value: c}"), None),
    ]);
}

#[test]
fn settings_of_policies_that_are_hardly_meant_so_are_doubted() {
    let on_route = |spec: &str| working() + &policy(ROUTE, spec);
    let on_gateway = |spec: &str| working() + &policy("kind: Gateway, name: edge", spec);
    assert_found(&[
        (
            on_route("authorization: {deny: [{when: \"request.method == 'get'\"}]}"),
            Some("error: "),
        ),
        (
            on_route("authorization: {deny: [{when: \"request.method == 'GET'\"}]}"),
            None,
        ),
        (
            on_route("respond: {status: 503, except: \"request.path == 'a'\"}"),
            Some("spec.respond.except: "),
        ),
        (
            on_route("rateLimit: {rules: [{name: a, requests: 0}]}"),
            Some("warning: "),
        ),
        (
            on_route(
                "rateLimit: {rules: [{name: a, requests: 0, when: \"request.path == '/a'\"}]}",
            ),
            None,
        ),
        (
            on_route("rateLimit: {rules: [{name: a, requests: 0, dryRun: true}]}"),
            None,
        ),
        (
            on_route("rateLimit: {rules: [{name: a, requests: 1, key: [{claim: sub}]}]}"),
            Some("so all share one limit"),
        ),
        (
            on_route(
                "rateLimit: {rules: [{name: a, requests: 1, key: [{claim: sub}, {clientAddress: {}}]}]}",
            ),
            Some("so that part of the key is the same for all"),
        ),
        (
            on_gateway("trustedSources: [10.0.0.0/8, '::/0']"),
            Some("spec.trustedSources[1]: trusts every address"),
        ),
        (on_gateway("trustedSources: [10.0.0.0/8]"), None),
        (
            on_route("networks: {allow: [10.1.0.0/16], deny: [10.0.0.0/8]}"),
            Some("spec.networks.allow[0]: admits nobody"),
        ),
        (
            on_route("networks: {allow: [10.0.0.0/8], deny: [10.1.0.0/16]}"),
            None,
        ),
    ]);
}

#[test]
fn pages_and_rewrites_without_effect_are_doubted() {
    let on_route = |spec: &str| working() + &policy(ROUTE, spec);
    let page = |statuses: &str| {
        format!("{{statuses: {statuses}, bodies: [{{contentType: text/plain, body: a}}]}}")
    };
    let pages = |first: &str, second: &str| {
        on_route(&format!("errorPages: [{}, {}]", page(first), page(second)))
    };
    let rewrite = |pattern: &str, substitution: &str| {
        on_route(&format!(
            "pathRewrite: {{pattern: '{pattern}', substitution: '{substitution}'}}"
        ))
    };
    assert_found(&[
        (
            pages("['500-599']", "['503']"),
            Some("spec.errorPages[1].statuses: pages before this one"),
        ),
        (pages("['503']", "['500-599']"), None),
        (
            rewrite("^/api/(.*)", "new"),
            Some("error: TrafficPolicy app/access spec.pathRewrite.substitution: "),
        ),
        (rewrite("^/api/(.*)", "/new/\\1"), None),
        (rewrite("/api", "new"), None),
        (
            rewrite("^/api", ""),
            Some(
                "warning: TrafficPolicy app/access spec.pathRewrite.substitution: the pattern takes the slash at the \
                 beginning of paths away, and this puts none there: requests for paths in which no slash follows the \
                 match, such as `/api`, get status 500",
            ),
        ),
        (rewrite("^/api", "new"), Some("error: ")),
        (rewrite("^/api/", ""), Some("error: ")),
        (rewrite("^/api/(.*)", ""), Some("error: ")),
        (rewrite("^/api$", ""), Some("error: ")),
        (rewrite("^/(api|v1)[0-9]?", ""), None),
        (
            rewrite("^/api[0-9]?", ""),
            Some("requests for paths in which no slash follows the match get status 500"),
        ),
        (
            rewrite("^/api/[(](.*)", "/\\2"),
            Some("`\\2` is always empty, since the pattern has only 1 group: "),
        ),
    ]);
}

#[test]
fn backends_that_cannot_be_meant_so_are_doubted() {
    let on = |spec: &str, port: &str| {
        let reference = format!("{{group: gateway-system.io, kind: Backend, name: shop{port}}}");
        route("shop", &format!("[{{backendRefs: [{reference}]}}]")) + &backend(spec)
    };
    assert_found(&[
        (on("{addresses: [{host: 10.0.0.1, port: 80}]}", ""), None),
        (
            on("{addresses: [{host: 10.0.0.1, port: 80}]}", ", port: 80"),
            None,
        ),
        (
            on("{addresses: [{host: 10.0.0.1, port: 80}]}", ", port: 81"),
            Some("backendRefs[0].port: 81 has no effect"),
        ),
        (
            on("{addresses: [{host: 10.0.0.1, port: 443}]}", ""),
            Some("warning: Backend app/shop spec.protocol: "),
        ),
        (
            on("{dns: {name: a.example, port: 443}, protocol: TCP}", ""),
            None,
        ),
        (
            on("{addresses: [{host: '::', port: 80}]}", ""),
            Some("error: Backend app/shop spec.addresses[0].host: "),
        ),
    ]);
}

#[test]
fn grants_that_permit_nothing_are_doubted() {
    let (routes, services) = (
        "group: gateway.networking.k8s.io, kind: HTTPRoute",
        "group: '', kind: Service",
    );
    let permits = |from: &str, to: &str| working() + &grant(from, to);
    assert_found(&[
        (permits(routes, services), None),
        (
            permits(routes, "group: core, kind: Service"),
            Some("write kind Service with the empty group"),
        ),
        (
            permits(routes, "group: '', kind: service"),
            Some("write kind Service"),
        ),
        (
            permits(
                "group: gateway.networking.k8s.io, kind: HttpRoute",
                services,
            ),
            Some("write kind HTTPRoute of group"),
        ),
        (
            permits(
                "group: gateway.networking.x-k8s.io, kind: HTTPRoute",
                services,
            ),
            Some(
                "error: ReferenceGrant app/others spec.from[0]: nothing is permitted by it: there is no kind",
            ),
        ),
        // It may be one of another controller.
        (
            permits("group: gateway.networking.k8s.io, kind: HTTPRute", services),
            Some("note: ReferenceGrant app/others spec.from[0]: "),
        ),
        // Of other controllers.
        (
            permits(
                "group: gateway.networking.k8s.io, kind: BackendLBPolicy",
                services,
            ),
            None,
        ),
        (
            permits(
                "group: gateway.networking.x-k8s.io, kind: XListenerSet",
                services,
            ),
            None,
        ),
        (
            permits(
                "group: example.com, kind: Thing",
                "group: networking.istio.io, kind: Gateway",
            ),
            None,
        ),
    ]);
}

#[test]
fn passwords_that_others_can_learn_are_doubted() {
    let secret = |line: &str| {
        format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: users, namespace: app}}, stringData: {{auth: \
             '{line}'}}}}\n---\n"
        )
    };
    let weak = secret("bob:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=");
    let strong = secret("a:$2y$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe");
    let asks = working() + &policy(ROUTE, "basicAuth: {secretRefs: [{name: users}]}");
    let trusts = policy("kind: Gateway, name: edge", "trustedSources: [10.0.0.0/8]");
    let plain =
        "spec.basicAuth: browsers and programs send passwords in plain text to listener `http`";
    assert_found(&[
        (
            asks.clone() + &weak + &trusts,
            Some(
                "spec.basicAuth.secretRefs[0]: line 1 of Secret app/users: the hash is of SHA-1 or apr1",
            ),
        ),
        (asks.clone() + &strong, Some(plain)),
        (asks + &strong + &trusts, None),
    ]);
}

/// Only the listeners that accept the route count: nobody is told the names of others.
#[test]
fn listeners_that_do_not_accept_a_route_get_none_of_its_passwords() {
    let gateway = |of_plain: &str, of_tls: &str| {
        let listeners = format!(
            "[{{name: secret-http, port: 80, protocol: HTTP, allowedRoutes: {{namespaces: {{from: {of_plain}}}}}}}, \
             {{name: https, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{{name: a}}]}}, allowedRoutes: \
             {{namespaces: {{from: {of_tls}}}}}}}]"
        );
        format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: two, namespace: infra}}, \
             spec: {{gatewayClassName: gateway, listeners: {listeners}}}}}\n---\n"
        )
    };
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: users, namespace: app}, stringData: {auth: \
                  'a:$2y$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe'}}\n---\n";
    let asks = working().replace(
        "name: edge, namespace: infra",
        "name: two, namespace: infra",
    ) + secret
        + &policy(ROUTE, "basicAuth: {secretRefs: [{name: users}]}");
    assert_found(&[
        (
            gateway("All", "Same") + &asks,
            Some("in plain text to listener `secret-http`"),
        ),
        (gateway("Same", "All") + &asks, None),
        (gateway("All", "All") + &asks, None),
    ]);
    let both = texts(&(gateway("Same", "Same") + &asks), &Options::machine());
    assert!(!both.concat().contains("secret-http"), "{both:?}");
}
