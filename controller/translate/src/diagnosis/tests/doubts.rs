//! What is valid and hardly meant so.

use super::*;

const ROUTE: &str = "kind: HTTPRoute, name: shop";

fn policy(target: &str, spec: &str) -> String {
    let namespace = if target.contains("Gateway") {
        "infra"
    } else {
        "app"
    };
    format!(
        "{{apiVersion: gateway-system.io/v1alpha1, kind: TrafficPolicy, metadata: {{name: access, namespace: \
         {namespace}}}, spec: {{targetRefs: [{{group: gateway.networking.k8s.io, {target}}}], {spec}}}}}\n---\n"
    )
}

fn backend(spec: &str) -> String {
    format!(
        "{{apiVersion: gateway-system.io/v1alpha1, kind: Backend, metadata: {{name: shop, namespace: app}}, spec: \
         {spec}}}\n---\n"
    )
}

fn grant(from: &str, to: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: ReferenceGrant, metadata: {{name: others, namespace: \
         app}}, spec: {{from: [{{{from}, namespace: web}}], to: [{{{to}}}]}}}}\n---\n"
    )
}

/// A route that works.
fn working() -> String {
    let rules = "[{backendRefs: [{name: shop, port: 80}]}]";
    format!(
        "{}{SERVICE}{}",
        route("shop", rules),
        slice(PORT, READY, "")
    )
}

/// Each text has this one finding, or none.
fn assert_found(cases: &[(String, Option<&str>)]) {
    for (text, expected) in cases {
        let found = texts(text, &Options::machine());
        match expected {
            Some(part) => assert!(
                found.len() == 1 && found[0].contains(part),
                "{text}: {found:?}"
            ),
            None => assert_eq!(found, [] as [&str; 0], "{text}"),
        }
    }
}

#[test]
fn a_redirect_to_where_the_request_came_from_is_an_error() {
    let redirect = |matches: &str, to: &str| {
        let filter = format!("{{type: RequestRedirect, requestRedirect: {{{to}}}}}");
        route(
            "shop",
            &format!("[{{matches: [{matches}], filters: [{filter}]}}]"),
        )
    };
    let full = |path: &str| format!("path: {{type: ReplaceFullPath, replaceFullPath: {path}}}");
    let prefix =
        |path: &str| format!("path: {{type: ReplacePrefixMatch, replacePrefixMatch: {path}}}");
    let (all, exact) = ("{path: {value: /}}", "{path: {type: Exact, value: /old}}");
    let loops = Some(
        "error: HTTPRoute app/shop spec.rules[0].filters[0].requestRedirect: a request by listener `http`",
    );
    let others = |rules: &str| route("shop", rules);
    assert_found(&[
        (redirect(all, "statusCode: 301"), loops),
        (redirect(all, "port: 8080"), loops),
        (redirect(all, "hostname: shop.example"), loops),
        (redirect(all, "hostname: www.example"), None),
        (redirect(all, "scheme: https"), None),
        // The well-known port of the scheme, which is not that of the listener.
        (redirect(all, "scheme: http"), None),
        (redirect(all, "port: 8443"), None),
        (redirect(all, &full("/new")), loops),
        (redirect(exact, &full("/new")), None),
        (redirect(exact, &full("/old")), loops),
        (redirect("{path: {value: /old}}", &prefix("/new")), None),
        (redirect("{path: {value: /old}}", &prefix("/old/er")), loops),
        (
            redirect(
                "{path: {value: /}, headers: [{name: x-a, value: b}]}",
                &full("/new"),
            ),
            None,
        ),
        (
            others(
                "[{filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, \
                 replaceFullPath: /new}}}]}, {matches: [{path: {value: /new}}], filters: [{type: RequestRedirect, \
                 requestRedirect: {hostname: www.example}}]}]",
            ),
            None,
        ),
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
            rewrite("^/api/[(](.*)", "/\\2"),
            Some("`\\2` is always empty, since the pattern has 1 groups"),
        ),
    ]);
}

#[test]
fn backends_and_grants_that_cannot_be_meant_so_are_doubted() {
    let on = |spec: &str, port: &str| {
        let reference = format!("{{group: gateway-system.io, kind: Backend, name: shop{port}}}");
        route("shop", &format!("[{{backendRefs: [{reference}]}}]")) + &backend(spec)
    };
    let (routes, services) = (
        "group: gateway.networking.k8s.io, kind: HTTPRoute",
        "group: '', kind: Service",
    );
    let permits = |from: &str, to: &str| working() + &grant(from, to);
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
        // Of other controllers.
        (
            permits(
                "group: example.com, kind: Thing",
                "group: networking.istio.io, kind: Gateway",
            ),
            None,
        ),
    ]);
}
