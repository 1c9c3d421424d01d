//! An invalid rule rejects its requests: no other rule, which may check less, serves them.

use super::admin_trace::{events, message, watches};
use crate::support::{Client, Driver, Gateway, Origin, gateway, ok, on_both_drivers, origin};

/// A gateway with these rules, and a last one that allows every request.
fn beside_an_open_rule(driver: Driver, open: &Origin, rules: &[&str]) -> Gateway {
    let builder = gateway(driver).backend("app", &[open.address()]);
    let builder = rules
        .iter()
        .fold(builder, |builder, rule| builder.rule(rule));
    builder.rule("{backendRefs: [{@app}]}").start()
}

fn get(client: &mut Client, target: &str, fields: &str, status: u16) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
    client.sends(request).expects(status);
}

on_both_drivers! {
    fn a_rule_with_an_invalid_header_match_rejects_requests_with_the_header(driver) {
        let origin = origin().replies(ok("open"));
        let rule = "{matches: [{path: {value: /secret}, headers: [\
                    {name: tenant, type: RegularExpression, value: \"(?=a)\"}]}], backendRefs: [{@app}]}";
        let gateway = beside_an_open_rule(driver, &origin, &[rule]);
        let mut client = gateway.client();
        get(&mut client, "/secret/1", "Tenant: a\r\n", 500);
        get(&mut client, "/secret", "Tenant:\r\n", 500);
        assert!(origin.requests().is_empty(), "the open rule would serve them");
        get(&mut client, "/secret", "", 200);
        get(&mut client, "/other", "Tenant: a\r\n", 200);
        gateway.waits_for_log("Dropped Rule 0, whose requests get status 500");
    }

    fn a_rule_with_an_invalid_parameter_match_rejects_requests_with_the_parameter(driver) {
        let origin = origin().replies(ok("open"));
        let rule = "{matches: [{queryParams: [{name: key, type: RegularExpression, value: \"[\"}]}], \
                    backendRefs: [{@app}]}";
        let gateway = beside_an_open_rule(driver, &origin, &[rule]);
        let mut client = gateway.client();
        get(&mut client, "/?key=1", "", 500);
        get(&mut client, "/a?b=c&key", "", 500);
        get(&mut client, "/a?b=c", "", 200);
        assert_eq!(origin.requests().len(), 1);
    }

    fn a_rule_with_an_invalid_path_rejects_requests_with_its_literal_prefix(driver) {
        let origin = origin().replies(ok("open"));
        let invalid = "{matches: [{path: {type: RegularExpression, value: \"/admin/(?!public).*\"}}], \
                       backendRefs: [{@app}]}";
        let open = "{matches: [{path: {type: RegularExpression, value: \"/.*\"}}], backendRefs: [{@app}]}";
        let builder = gateway(driver).backend("app", &[origin.address()]);
        let gateway = builder.rule(invalid).rule(open).start();
        let mut client = gateway.client();
        get(&mut client, "/admin/users", "", 500);
        assert!(origin.requests().is_empty(), "the open rule would serve it");
        get(&mut client, "/users", "", 200);
    }

    fn a_rule_with_an_invalid_filter_rejects_the_requests_it_matches(driver) {
        let origin = origin().replies(ok("open"));
        let rule = "{matches: [{path: {value: /secret}}], backendRefs: [{@app}], filters: [{type: \
                    RequestHeaderModifier, requestHeaderModifier: {remove: [connection]}}]}";
        let gateway = beside_an_open_rule(driver, &origin, &[rule]);
        let mut client = gateway.client();
        get(&mut client, "/secret", "", 500);
        assert!(origin.requests().is_empty(), "the open rule would serve it");
        get(&mut client, "/other", "", 200);
    }

    /// The access log, the answer, the log and a trace name the same cause, with its field.
    fn every_place_names_the_cause(driver) {
        let rule = "{matches: [{path: {type: RegularExpression, value: \"/secret(\"}}]}";
        let gateway = gateway(driver).rule(rule).policy("accessLog: {format: text}").inspected().start();
        let mut watcher = watches(&gateway, "");
        let mut client = gateway.client();
        client.sends("GET /secret HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let answer = client.reads();
        assert_eq!((answer.status(), &*answer.text()), (500, "the rule of this route is invalid\n"));
        let traced = events(&mut watcher);
        assert_eq!(message(&traced, "requestFinished")["reason"], "invalid_rule");
        let mut causes = traced.iter().map(|it| &it["message"]).filter(|it| it["kind"] == "rule");
        let cause = causes.next().expect("a cause")["detail"].as_str().expect("a text");
        let (field, problem) = (
            "spec.rules[0].matches[0].path.value",
            "the regular expression `/secret(` does not compile",
        );
        assert!(cause.starts_with(&format!("the rule is invalid: {field}: {problem}")), "{cause}");
        gateway.waits_for_log(&format!("{field}: Accepted/UnsupportedValue: {problem}"));
        gateway.waits_for_access_log("reason=invalid_rule");
    }
}
