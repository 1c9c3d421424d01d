use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Map, Value, json};
use xds::model::{AuthorizationPolicy, AuthorizationRule};

use super::{Authorization, ClaimValues, Forbidden, Subject};
use crate::policy::sample::{effective, fields};

fn policy(deny: &[&str], allow: &[&str]) -> Authorization {
    let rules = |rules: &[&str]| {
        let rules = rules.iter().map(|when| AuthorizationRule {
            name: String::new(),
            when: (*when).to_owned(),
        });
        rules.collect()
    };
    Authorization::compile(
        "TrafficPolicy/a/b",
        &AuthorizationPolicy {
            deny: rules(deny),
            allow: rules(allow),
        },
    )
}

/// Evaluates a GET of `/a/b` on `a.test` with these claims.
fn evaluate(policy: &Authorization, claims: Option<&Value>) -> Result<(), Forbidden> {
    let claims = claims.and_then(Value::as_object).map(ClaimValues::new);
    let head = fields(&[("X-Team", "red"), ("x-team", "blue"), ("X-Odd", "\u{7f}")]);
    let subject = Subject {
        method: b"GET",
        host: "a.test",
        path: "/a/b",
        fields: effective(&head),
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        claims: claims.as_ref(),
    };
    policy.evaluate(&policy.attributes(subject)).result
}

#[test]
fn requests_are_rejected_if_denied_or_not_allowed_by_any_rule() {
    use Forbidden::{Denied, NotAllowed, NotEvaluated};

    let claims = json!({"group": "users", "level": 3, "roles": ["a", "b"], "nested": {"x": true}});
    let (yes, no) = ("claims.group == 'users'", "claims.group == 'admins'");
    let missing = "claims.missing == 'x'";
    for (deny, allow, expected) in [
        (&[][..], &[][..], Ok(())),
        (&[], &[yes], Ok(())),
        (&[], &[no], Err(NotAllowed)),
        (&[], &[no, yes], Ok(())),
        (&[no], &[], Ok(())),
        (&[no, yes], &[yes], Err(Denied)),
        // A rule that cannot be evaluated counts against the request.
        (&[], &[missing], Err(NotAllowed)),
        (&[], &[missing, yes], Ok(())),
        (&[missing], &[yes], Err(NotEvaluated)),
        (&["claims.level"], &[], Err(NotEvaluated)),
        (&[], &["claims.level"], Err(NotAllowed)),
        (&["claims.level == 'three'"], &[], Ok(())),
        (&["claims.level < 'three'"], &[], Err(NotEvaluated)),
        (&[], &["claims.level >= 3 && claims.level < 4.5"], Ok(())),
        (
            &[],
            &["'b' in claims.roles && !('c' in claims.roles)"],
            Ok(()),
        ),
        (&[], &["claims.roles.exists(r, r == 'b')"], Ok(())),
        (&[], &["claims.roles.all(r, r == 'b')"], Err(NotAllowed)),
        (&[], &["claims.nested.x"], Ok(())),
        (
            &[],
            &["has(claims.missing) ? claims.missing == 'x' : true"],
            Ok(()),
        ),
        (&[], &["size(claims.roles) == 2"], Ok(())),
    ] {
        let policy = policy(deny, allow);
        assert_eq!(
            evaluate(&policy, Some(&claims)),
            expected,
            "{deny:?} {allow:?}"
        );
    }
}

#[test]
fn requests_without_a_token_have_no_claims() {
    let empty = Value::Object(Map::new());
    for claims in [None, Some(&empty)] {
        let allow = policy(&[], &["claims.group == 'users'"]);
        assert_eq!(evaluate(&allow, claims), Err(Forbidden::NotAllowed));
        let deny = policy(&["claims.group == 'guests'"], &[]);
        assert_eq!(evaluate(&deny, claims), Err(Forbidden::NotEvaluated));
        assert_eq!(
            evaluate(&policy(&[], &["!has(claims.group)"]), claims),
            Ok(())
        );
    }
}

#[test]
fn rules_evaluate_the_attributes_of_requests() {
    for (allow, expected) in [
        ("request.method == 'GET' && request.host == 'a.test'", true),
        ("request.path.startsWith('/a/')", true),
        ("request.headers['x-team'] == 'red, blue'", true),
        (
            "'x-odd' in request.headers && !('X-Team' in request.headers)",
            true,
        ),
        ("request.headers['x-missing'] == ''", false),
        ("client.address == '127.0.0.1'", true),
    ] {
        let judged = evaluate(&policy(&[], &[allow]), None);
        assert_eq!(judged.is_ok(), expected, "{allow}: {judged:?}");
    }
}

#[test]
fn a_policy_that_cannot_be_compiled_refuses_every_request() {
    for invalid in ["", "claims.", "claims.a.matches('a')"] {
        assert_eq!(
            evaluate(&policy(&[], &[invalid]), None),
            Err(Forbidden::Denied)
        );
    }
}

#[test]
fn the_deciding_rule_and_evaluation_errors_are_reported() {
    let policy = Authorization::compile(
        "TrafficPolicy/a/b",
        &AuthorizationPolicy {
            deny: Vec::new(),
            allow: vec![
                AuthorizationRule {
                    name: String::new(),
                    when: "claims.a == 1".to_owned(),
                },
                AuthorizationRule {
                    name: "everybody".to_owned(),
                    when: "true".to_owned(),
                },
            ],
        },
    );
    let head = fields(&[]);
    let subject = Subject {
        method: b"GET",
        host: "a",
        path: "/",
        fields: effective(&head),
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        claims: None,
    };
    let attributes = policy.attributes(subject);
    let verdict = policy.evaluate(&attributes);
    assert_eq!((verdict.result, verdict.rule), (Ok(()), Some("everybody")));
    let [(rule, why)] = verdict.errors.as_slice() else {
        panic!("one rule: {:?}", verdict.errors);
    };
    assert_eq!(*rule, "allow[0]");
    assert!(why.contains('a'), "{why}");
}

/// Whether an address is in a network does not depend on where in a condition that is asked.
#[test]
fn networks_are_found_anywhere_in_a_condition() {
    let inside = |network: &str| format!("cidr('{network}').contains(client.address)");
    let (home, far, v6) = (inside("127.0.0.0/8"), inside("10.0.0.0/8"), inside("::/0"));
    for (condition, holds) in [
        (home.clone(), true),
        (far.clone(), false),
        (v6.clone(), false),
        (format!("{far} || {home}"), true),
        (format!("{home} && !{far} && !{v6}"), true),
        (format!("claims.roles.exists(r, r == 'a' && {home})"), true),
        (format!("claims.roles.all(r, {far})"), false),
        (format!("({home} ? claims.sub : 'b') == 'a'"), true),
    ] {
        let claims = json!({"sub": "a", "roles": ["a", "b"]});
        let result = evaluate(&policy(&[], &[&condition]), Some(&claims));
        assert_eq!(result.is_ok(), holds, "{condition}");
    }
}
