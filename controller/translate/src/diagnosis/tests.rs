use super::{Diagnosis, Others, diagnose};
use crate::files::{Source, admit};
use crate::level::Level;
use crate::{Options, Store};

mod doubts;
mod floods;
mod redirects;

const GATEWAY: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: infra}
spec:
  gatewayClassName: gateway
  listeners: [{name: http, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
";

fn found(text: &str, options: &Options) -> Vec<Diagnosis> {
    let source = Source::new("a.yaml", format!("{GATEWAY}{text}"));
    let admitted = admit(&[source]);
    assert_eq!(admitted.findings, [], "{text}");
    let store: Store = admitted.objects.into_iter().map(|(it, _)| it).collect();
    diagnose(&store, options, Others::Named)
}

/// The findings as text, with their levels.
fn texts(text: &str, options: &Options) -> Vec<String> {
    let found = found(text, options).into_iter();
    found.map(|it| format!("{}: {it}", it.level)).collect()
}

fn route(name: &str, rules: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: {name}, namespace: app}}, \
         spec: {{parentRefs: [{{name: edge, namespace: infra}}], hostnames: [shop.example], rules: {rules}}}}}\n---\n"
    )
}

const SERVICE: &str = "{apiVersion: v1, kind: Service, metadata: {name: shop, namespace: app}, \
    spec: {ports: [{name: http, port: 80}]}}\n---\n";

fn slice(ports: &str, endpoints: &str, labels: &str) -> String {
    format!(
        "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: shop, namespace: app, \
         labels: {{kubernetes.io/service-name: shop{labels}}}}}, addressType: IPv4, ports: {ports}, \
         endpoints: {endpoints}}}\n---\n"
    )
}

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

/// A route with one rule of matches and filters.
fn redirecting(name: &str, host: &str, matches: &str, to: &str) -> String {
    let filter = format!("{{type: RequestRedirect, requestRedirect: {{{to}}}}}");
    let rules = format!("[{{matches: [{matches}], filters: [{filter}]}}]");
    route(name, &rules).replace("[shop.example]", host)
}

fn serving(name: &str, host: &str, matches: &str) -> String {
    let rules = format!("[{{matches: [{matches}], backendRefs: [{{name: shop, port: 80}}]}}]");
    let route = route(name, &rules).replace("[shop.example]", host);
    format!("{route}{SERVICE}{}", slice(PORT, READY, ""))
}

const MANAGED: &str = ", endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io";
const PORT: &str = "[{name: http, port: 8080}]";
const READY: &str = "[{addresses: [10.0.0.1]}]";

/// Slices of a Service, where they are, and why it has no endpoint with them.
type WithoutEndpoints = (String, Options, &'static str);

fn without_endpoints() -> Vec<WithoutEndpoints> {
    let not_ready = "[{addresses: [10.0.0.1], conditions: {ready: false}}]";
    let (machine, cluster) = (Options::machine, Options::cluster);
    vec![
        (
            String::new(),
            machine(),
            "no EndpointSlice has the label `kubernetes.io/service-name: shop`",
        ),
        (
            String::new(),
            cluster(),
            "it has no EndpointSlice: does it have a selector?",
        ),
        (
            slice(PORT, "[]", MANAGED),
            cluster(),
            "its selector matches no running pod",
        ),
        (
            slice(PORT, "[]", ""),
            cluster(),
            "its EndpointSlices list no endpoints",
        ),
        (
            slice("[{name: web, port: 8080}]", READY, ""),
            cluster(),
            "its port 80 is named `http`, and the TCP ports of its EndpointSlices are: named `web`",
        ),
        (
            slice("[{name: http, port: 8080, protocol: UDP}]", READY, ""),
            machine(),
            "the TCP ports of its EndpointSlices are: none; add one of the same name and protocol",
        ),
        (
            slice("[]", READY, MANAGED),
            cluster(),
            "are: none; does its targetPort name a port of the pods?",
        ),
        (
            slice(PORT, not_ready, MANAGED),
            cluster(),
            "none of its pods is ready",
        ),
    ]
}

#[test]
fn a_service_without_endpoints_says_why() {
    let route = route("shop", "[{backendRefs: [{name: shop, port: 80}]}]");
    for (slices, options, expected) in without_endpoints() {
        let found = texts(&format!("{route}{SERVICE}{slices}"), &options);
        let [only] = &*found else {
            panic!("{slices}: {found:?}")
        };
        let start = "error: HTTPRoute app/shop spec.rules[0].backendRefs[0]: Service app/shop has no \
                     endpoint that is ready: ";
        assert!(only.starts_with(start) && only.contains(expected), "{only}");
        let end = "; until then its requests get status 503";
        assert!(only.ends_with(end), "{only}");
    }
    let ready = slice(PORT, READY, MANAGED);
    let found = texts(&format!("{route}{SERVICE}{ready}"), &Options::cluster());
    assert_eq!(found, [] as [&str; 0]);
}

#[test]
fn rules_that_cannot_respond_are_errors() {
    let ready = format!("{SERVICE}{}", slice(PORT, READY, ""));
    for (rules, expected) in [
        (
            "[{}]",
            Some("the rule has no backendRefs, so its requests get status 500"),
        ),
        (
            "[{backendRefs: [{name: shop, port: 80, weight: 0}]}]",
            Some("all backends of the rule have weight 0"),
        ),
        (
            "[{filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}]",
            None,
        ),
        ("[{backendRefs: [{name: shop, port: 80}]}]", None),
    ] {
        let found = texts(
            &format!("{}{ready}", route("shop", rules)),
            &Options::machine(),
        );
        assert_eq!(
            found.len(),
            usize::from(expected.is_some()),
            "{rules}: {found:?}"
        );
        let text = found.first().cloned().unwrap_or_default();
        assert!(text.contains(expected.unwrap_or_default()), "{text}");
    }
}

#[test]
fn a_parent_that_does_not_exist_is_an_error_in_a_cluster() {
    let ready = format!("{SERVICE}{}", slice(PORT, READY, ""));
    let good = route("shop", "[{backendRefs: [{name: shop, port: 80}]}]");
    for (parent, expected) in [
        ("{name: edge, namespace: infra}", None),
        (
            "{name: egde, namespace: infra}",
            Some("Gateway infra/egde does not exist (did you mean `edge`?)"),
        ),
        (
            "{name: edge}",
            Some("Gateway app/edge does not exist (namespace `infra` has one of this name)"),
        ),
        (
            "{name: egde}",
            Some("Gateway app/egde does not exist (did you mean `edge` of namespace `infra`?)"),
        ),
        (
            "{name: other}",
            Some("Gateway app/other does not exist, so"),
        ),
        (
            "{name: more, kind: ListenerSet}",
            Some("ListenerSet app/more does not exist, so"),
        ),
    ] {
        let text = good.replace("{name: edge, namespace: infra}", parent) + &ready;
        let found = found(&text, &Options::cluster());
        assert_eq!(
            found.len(),
            usize::from(expected.is_some()),
            "{parent}: {found:?}"
        );
        for it in found {
            assert!(it.text.contains(expected.unwrap_or_default()), "{it}");
            assert_eq!(it.is_probably_ours, it.text.contains('('), "{it}");
        }
        // Its own condition says so.
        assert_eq!(texts(&text, &Options::machine()), [] as [&str; 0]);
    }
}

#[test]
fn a_star_in_a_path_is_a_doubt() {
    let ready = format!("{SERVICE}{}", slice(PORT, READY, ""));
    let backends = "backendRefs: [{name: shop, port: 80}]";
    for (kind, value, is_doubtful) in [
        ("PathPrefix", "/api/*", true),
        ("Exact", "/*", true),
        ("PathPrefix", "/api", false),
        ("RegularExpression", "/a.*", false),
    ] {
        let rules =
            format!("[{{matches: [{{path: {{type: {kind}, value: {value:?}}}}}], {backends}}}]");
        let found = texts(
            &format!("{}{ready}", route("shop", &rules)),
            &Options::machine(),
        );
        assert_eq!(found.len(), usize::from(is_doubtful), "{value}: {found:?}");
        assert!(
            found.iter().all(|it| it.starts_with("warning: ")),
            "{found:?}"
        );
    }
}

#[test]
fn the_later_of_two_equal_matches_gets_no_requests() {
    let ready = format!("{SERVICE}{}", slice(PORT, READY, ""));
    let rule = "{backendRefs: [{name: shop, port: 80}]}";
    let one = route("one", &format!("[{rule}]"));
    let twin = route("two", &format!("[{rule}]"));
    let other_host = twin.replace("[shop.example]", "[cart.example]");
    let within = route("one", &format!("[{rule}, {rule}]"));
    for (text, expected) in [
        (
            format!("{one}{twin}"),
            Some("HTTPRoute app/two spec.rules[0].matches[0]: "),
        ),
        (format!("{one}{other_host}"), None),
        (within, Some("HTTPRoute app/one spec.rules[1].matches[0]: ")),
        (one, None),
    ] {
        let found = texts(&format!("{text}{ready}"), &Options::machine());
        assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
        for it in found {
            assert!(it.contains(expected.unwrap_or_default()), "{it}");
            assert!(
                it.contains("gets no requests for host `shop.example`"),
                "{it}"
            );
        }
    }
}

#[test]
fn a_rule_on_claims_needs_tokens() {
    let ready = format!("{SERVICE}{}", slice(PORT, READY, ""));
    let policy = |name: &str, target: &str, spec: &str| {
        format!(
            "{{apiVersion: gateway-system.io/v1alpha1, kind: TrafficPolicy, metadata: {{name: {name}, namespace: \
             {}}}, spec: {{targetRefs: [{{group: gateway.networking.k8s.io, {target}}}], {spec}}}}}\n---\n",
            if target.contains("Gateway") {
                "infra"
            } else {
                "app"
            }
        )
    };
    let route = route("shop", "[{backendRefs: [{name: shop, port: 80}]}]") + &ready;
    let of_route = "kind: HTTPRoute, name: shop";
    let allow = policy(
        "allow",
        of_route,
        "authorization: {allow: [{when: \"claims.sub == 'me'\"}]}",
    );
    let plain = policy(
        "allow",
        of_route,
        "authorization: {allow: [{when: \"request.method == 'GET'\"}]}",
    );
    let jwt = "jwt: {providers: [{name: a, issuer: \"https://a\", jwks: {remote: {url: \"https://a/keys\"}}}]}";
    for (policies, is_bare) in [
        (allow.clone(), true),
        (plain, false),
        (format!("{allow}{}", policy("tokens", of_route, jwt)), false),
        (
            format!(
                "{allow}{}",
                policy("tokens", "kind: Gateway, name: edge", jwt)
            ),
            false,
        ),
        (
            format!(
                "{allow}{}",
                policy("tokens", "kind: HTTPRoute, name: other", jwt)
            ),
            true,
        ),
    ] {
        let found = found(&format!("{route}{policies}"), &Options::machine());
        assert_eq!(found.len(), usize::from(is_bare), "{policies}: {found:?}");
        for it in found {
            assert_eq!(it.level, Level::Error);
            assert_eq!(it.field, "spec.authorization.allow[0].when");
        }
    }
}
