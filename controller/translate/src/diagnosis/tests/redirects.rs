//! Redirects that lead back, and those that only seem to.

use super::*;

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

/// Routes of two objects, of which the first redirects.
#[test]
fn a_redirect_that_another_route_takes_is_no_loop() {
    let (all, shop) = ("{path: {value: /}}", "[shop.example]");
    let full = |path: &str| format!("path: {{type: ReplaceFullPath, replaceFullPath: {path}}}");
    let prefix =
        |path: &str| format!("path: {{type: ReplacePrefixMatch, replacePrefixMatch: {path}}}");
    let loops = Some("error: HTTPRoute app/a spec.rules[0].filters[0].requestRedirect: ");
    let (app, api) = ("{path: {value: /app}}", "{path: {value: /api}}");
    let pair = |to: &str, host: &str, matches: &str| {
        redirecting("a", shop, all, to) + &serving("b", host, matches)
    };
    assert_found(&[
        (pair(&full("/app/"), shop, app), None),
        (pair(&full("/app/"), shop, api), loops),
        (pair(&full("/app/"), "[www.example]", app), loops),
        (pair(&full("/app/"), "['*.example']", app), loops),
        (pair(&prefix("/v2"), shop, "{path: {value: /v2}}"), None),
        (
            pair(
                &full("/app"),
                shop,
                "{path: {type: RegularExpression, value: '/a.*'}}",
            ),
            None,
        ),
        // What the client sends may differ the next time.
        (
            redirecting("a", shop, "{method: POST}", "statusCode: 303"),
            None,
        ),
        (
            redirecting(
                "a",
                shop,
                "{headers: [{name: x-forwarded-proto, value: http}]}",
                "statusCode: 302",
            ),
            None,
        ),
        (
            redirecting("a", shop, "{method: GET}", "statusCode: 302"),
            loops,
        ),
    ]);
}

#[test]
fn a_redirect_to_one_of_several_hosts_comes_back_unless_another_route_takes_it() {
    let (all, app) = ("{path: {value: /}}", "{path: {value: /app}}");
    let full = |path: &str| format!("path: {{type: ReplaceFullPath, replaceFullPath: {path}}}");
    let loops = Some("error: HTTPRoute app/a spec.rules[0].filters[0].requestRedirect: ");
    let both = "[shop.example, www.example]";
    let www = "hostname: www.example";
    assert_found(&[
        // One host of several: requests for it go round, unless another route takes them.
        (redirecting("a", both, all, www), loops),
        (
            redirecting("b", both, all, www) + &serving("a", "[www.example]", all),
            Some(
                "warning: HTTPRoute app/b spec.rules[0].matches[0]: the match gets no requests for host `www",
            ),
        ),
        (
            redirecting("a", both, all, www) + &serving("b", "[www.example]", app),
            loops,
        ),
        (redirecting("a", "[]", all, &full("/app")), loops),
        (
            redirecting("a", "[]", all, &full("/app")) + &serving("b", "[]", app),
            None,
        ),
    ]);
}

#[test]
fn a_redirect_that_a_cookie_or_a_policy_ends_is_no_loop() {
    let cookie = "[{filters: [{type: RequestRedirect, requestRedirect: {statusCode: 302}}, {type: \
                  ResponseHeaderModifier, responseHeaderModifier: {set: [{name: set-cookie, value: a=b}]}}]}]";
    let redirect = redirecting("shop", "[shop.example]", "{path: {value: /}}", "port: 8080");
    assert_found(&[
        (route("shop", cookie), None),
        (redirect + &policy(ROUTE, "respond: {status: 503}"), None),
    ]);
}

/// The finding would tell a tenant the names of listeners that are not for it.
#[test]
fn only_listeners_that_accept_a_route_take_what_it_redirects() {
    let gateway = |namespaces: &str| {
        format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: two, namespace: infra}}, \
             spec: {{gatewayClassName: gateway, listeners: [{{name: http, port: 80, protocol: HTTP, allowedRoutes: \
             {{namespaces: {{from: All}}}}}}, {{name: secret-https, port: 443, protocol: HTTPS, tls: \
             {{certificateRefs: [{{name: a}}]}}, allowedRoutes: {namespaces}}}]}}}}\n---\n"
        )
    };
    let set = "{apiVersion: gateway.networking.k8s.io/v1, kind: ListenerSet, metadata: {name: more, namespace: app}, \
               spec: {parentRef: {name: edge, namespace: infra}, listeners: [{name: own, port: 8443, protocol: \
               HTTPS, tls: {certificateRefs: [{name: a}]}}]}}\n---\n";
    let redirect = |parent: &str, to: &str| {
        let redirect = redirecting("shop", "[shop.example]", "{path: {value: /}}", to);
        redirect.replace("{name: edge, namespace: infra}", parent)
    };
    let two = redirect("{name: two, namespace: infra}", "scheme: https");
    let namespace =
        "{apiVersion: v1, kind: Namespace, metadata: {name: app, labels: {team: a}}}\n---\n";
    let selected = "{namespaces: {from: Selector, selector: {matchLabels: {team: a}}}}";
    let loops = Some("a request by listener `secret-https` is redirected");
    let to_set = "{name: more, kind: ListenerSet}";
    assert_found(&[
        (gateway("{namespaces: {from: All}}") + &two, loops),
        (gateway("{namespaces: {from: Same}}") + &two, None),
        (gateway(selected) + &two, None),
        (gateway(selected) + namespace + &two, loops),
        (
            gateway("{namespaces: {from: All}, kinds: [{kind: GRPCRoute}]}") + &two,
            None,
        ),
        // The Gateway allows no ListenerSets.
        (set.to_owned() + &redirect(to_set, "port: 8443"), None),
    ]);
}
