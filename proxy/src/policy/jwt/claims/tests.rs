use serde_json::json;

use super::Claims;

fn claims() -> Claims {
    let claims = json!({
        "sub": "alice",
        "name": "Alïce",
        "level": 3,
        "share": 0.5,
        "admin": false,
        "none": null,
        "groups": ["a", "b c", 7],
        "odd": ["a,b", "c"],
        "empty": [],
        "realm": {"roles": ["x", "y"], "id": {"n": "z"}},
        "https://example.test/role": "owner",
        "line": "a\r\nX-Admin: 1",
        "nul": "a\u{0}b",
        "escape": "a\u{1b}[0m",
        "next": "a\u{85}b",
        "space": " alice",
        "behind": "alice ",
    });
    serde_json::from_value(claims).expect("claims")
}

#[test]
fn claims_are_converted_to_header_values() {
    let claims = claims();
    for (name, expected) in [
        ("sub", Some("alice")),
        ("name", Some("Alïce")),
        ("level", Some("3")),
        ("share", Some("0.5")),
        ("admin", Some("false")),
        ("groups", Some("a,b c,7")),
        ("odd", Some(r#"["a,b","c"]"#)),
        ("empty", Some("")),
        ("realm.roles", Some("x,y")),
        ("realm.id.n", Some("z")),
        ("realm.id", Some(r#"{"n":"z"}"#)),
        ("https://example.test/role", Some("owner")),
        ("none", None),
        ("line", None),
        ("nul", None),
        ("escape", None),
        ("next", None),
        ("space", None),
        ("behind", None),
        ("missing", None),
        ("sub.x", None),
        ("realm.none.n", None),
        ("", None),
        (".", None),
    ] {
        assert_eq!(claims.header_value(name).as_deref(), expected, "{name}");
    }
}
