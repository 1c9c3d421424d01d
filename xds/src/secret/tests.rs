use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{MASK, header_value, target, url};

#[test]
fn credentials_are_masked() {
    for name in [
        "Authorization",
        "cookie",
        "X-Api-Key",
        "x-auth-token",
        "X-Session-Id",
        "Ocp-Apim-Subscription-Key",
        "X-Hub-Signature-256",
        "Authentication",
    ] {
        assert_eq!(header_value(name, "v"), MASK, "{name}");
    }
    for name in ["accept", "host", "x-request-id", "content-length"] {
        assert_eq!(header_value(name, "v"), "v", "{name}");
    }
}

#[test]
fn urls_in_headers_are_shown_without_credentials() {
    for (name, value, shown) in [
        (
            "Location",
            "https://a.test/back?code=x&state=y#access_token=z&n=1",
            "https://a.test/back?code=***&state=y#access_token=***&n=1",
        ),
        ("referer", "http://me:hush@a.test/", "http://a.test/"),
        ("X-Original-Url", "/a?sig=x", "/a?sig=***"),
        ("location", "/a?b=c#d", "/a?b=c#d"),
    ] {
        assert_eq!(header_value(name, value), shown);
    }
}

#[test]
fn tokens_are_masked_in_headers_and_targets() {
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln";
    for value in [
        token.to_owned(),
        format!("JWT {token}"),
        format!("a;b=\"{token}\""),
    ] {
        assert_eq!(header_value("x-who", &value), MASK, "{value}");
    }
    assert_eq!(target(&format!("/a?who={token}&b=c")), "/a?who=***&b=c");
    // White space is as good as none.
    for head in [
        "{ \"alg\": \"none\"}",
        "{\n\t\"alg\":\"none\"}",
        " {\"alg\":\"none\"}",
    ] {
        let token = format!("{}.e30.c2ln", URL_SAFE_NO_PAD.encode(head));
        assert_eq!(header_value("x-who", &token), MASK, "{head}");
    }
    for value in [
        "eyJhbGciOiJSUzI1NiJ9",
        "a.b.c",
        "1.2.3",
        "eyJ.x",
        "edge.example.com",
        "ex.shop.example",
    ] {
        assert_eq!(header_value("x-who", value), value);
    }
}

#[test]
fn a_token_in_a_subprotocol_is_masked() {
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln";
    let encoded = URL_SAFE_NO_PAD.encode(token);
    for (value, shown) in [
        (
            format!("v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.{encoded}"),
            "v4.channel.k8s.io, ***",
        ),
        (
            format!("base64url.bearer.authorization.k8s.io.{token}, base64.binary.k8s.io"),
            "***",
        ),
        ("access_token,opaque".to_owned(), "***"),
        ("chat, Bearer, opaque".to_owned(), "chat, ***"),
        (format!("chat, {token}"), "chat, ***"),
        (format!("chat, {encoded}"), "chat, ***"),
        (
            "realtime, openai-insecure-api-key.sk-1".to_owned(),
            "realtime, ***",
        ),
        (format!("chat, {}", "a".repeat(41)), "chat, ***"),
        (
            "graphql-ws, graphql-transport-ws".to_owned(),
            "graphql-ws, graphql-transport-ws",
        ),
        ("v4.channel.k8s.io".to_owned(), "v4.channel.k8s.io"),
    ] {
        assert_eq!(
            header_value("Sec-WebSocket-Protocol", &value),
            shown,
            "{value}"
        );
    }
}

#[test]
fn a_token_is_masked_in_any_position_and_encoding() {
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln";
    for value in [
        format!("prefix.of.names.{token}"),
        format!("auth-{token}"),
        format!("id_{token}"),
        format!("who={token}"),
        token.replace('.', "%2E"),
        token.replace('.', "%252e"),
        // With padding, as some load balancers send them.
        "eyJhbGciOiJSUzI1In0=.eyJzdWIiOiJhIn0=.c2ln".to_owned(),
        URL_SAFE_NO_PAD.encode(token),
    ] {
        assert_eq!(header_value("x-who", &value), MASK, "{value}");
        assert_eq!(target(&format!("/a?who={value}&b=c")), "/a?who=***&b=c");
    }
    for value in ["keyInfo.a.b", "heyJude.a.b", "survey-api.shop.example"] {
        assert_eq!(header_value("x-who", value), value);
    }
    assert_eq!(
        target(&format!("/invite/{token}/x?a=b")),
        "/invite/***/x?a=b"
    );
    // Not one of its thousand beginnings is a header's.
    let long = format!("x{}.x.y", "eyJ".repeat(20_000));
    assert_eq!(header_value("x-who", &long), long);
}

#[test]
fn credentials_in_unusual_headers_are_masked() {
    for (name, value) in [
        ("link", "<https://me:hush@a.test/>; rel=next"),
        ("refresh", "0; url=/a?token=hush"),
        ("x-next", "https%3A%2F%2Fa.test%3Ftoken%3Dhush"),
        ("x-forwarded-authorization", "hush"),
        ("x-original-cookie", "hush"),
        ("x-auth-key", "hush"),
    ] {
        assert_eq!(header_value(name, value), MASK, "{name}");
    }
    for (name, value) in [
        ("accept", "text/html;q=0.9, */*"),
        ("from", "me@a.test"),
        ("content-security-policy", "default-src https://a.test/x"),
        ("user-agent", "Mozilla/5.0 (X11; Linux) // x"),
    ] {
        assert_eq!(header_value(name, value), value, "{name}");
    }
    for (text, shown) in [
        ("/a;jsessionid=hush/b?c=d", "/a;jsessionid=***/b?c=d"),
        ("/a?b=c;token=hush", "/a?b=c;token=***"),
        ("/a?to=%2Fb%3Ftoken%3Dhush&c=d", "/a?to=***&c=d"),
        ("/a?to=https://me:hush@b/&c=d", "/a?to=***&c=d"),
        ("/a?to=/b?code=hush", "/a?to=***"),
        ("/a?mail=me@a.test", "/a?mail=me@a.test"),
        ("//b/c", "//b/c"),
    ] {
        assert_eq!(target(text), shown);
    }
    assert_eq!(header_value("location", "//me:hush@a.test/"), "//a.test/");
}

#[test]
fn urls_are_shown_without_credentials() {
    for (text, shown) in [
        ("https://a.test/keys", "https://a.test/keys"),
        (
            "https://me:hush@a.test/keys?token=x",
            "https://a.test/keys?token=***",
        ),
        ("https://a.test?a=@b", "https://a.test?a=@b"),
    ] {
        assert_eq!(url(text), shown);
    }
}

#[test]
fn parameters_that_carry_credentials_are_masked() {
    for (text, shown) in [
        ("/a", "/a"),
        ("/a?b=c&d", "/a?b=c&d"),
        ("/a?access_token=x&b=c", "/a?access_token=***&b=c"),
        ("/a?b=c&API_KEY=x=y", "/a?b=c&API_KEY=***"),
        ("/a?%74oken=x", "/a?%74oken=***"),
        ("/a?token", "/a?token"),
        (
            "/a?b=c&X-Amz-Signature=x&X-Amz-Credential=y",
            "/a?b=c&X-Amz-Signature=***&X-Amz-Credential=***",
        ),
        ("/a#id_token=x", "/a#id_token=***"),
        ("/a?token=x?y&b=c", "/a?token=***&b=c"),
    ] {
        assert_eq!(target(text), shown);
    }
}
