//! Errors of the identity provider, explained to the user with what to do next.

use anyhow::{Error, anyhow};
use http::StatusCode;
use serde_json::Value;

use super::provider::HttpResponse;
use super::provider_url::ProviderUrl;
use crate::output::shown;

/// The purpose of a call, which decides what a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// An administrator signs in.
    SignIn,
    /// Requesting a user's token.
    UserToken,
    /// A client is registered with an initial access token.
    Registration,
    Administration,
    /// Reading public data.
    Discovery,
}

/// The error for an unexpected status.
pub(super) fn refused(
    purpose: Purpose,
    what: &str,
    url: &ProviderUrl,
    response: &HttpResponse,
) -> Error {
    let message = provider_message(response);
    let advice = advice(purpose, response.status, &message);
    anyhow!(
        "cannot {what}: {url} responded with {}{message}{advice}",
        response.status
    )
}

/// The error for a body of the wrong form.
pub(super) fn unreadable(what: &str, url: &ProviderUrl, response: &HttpResponse) -> Error {
    let found = if response.body.is_empty() {
        "an empty body".to_owned()
    } else {
        let kind = match &*response.content_type {
            "" => "a body without a type",
            kind => kind,
        };
        format!(
            "{} bytes of {}{}",
            response.body.len(),
            shown(kind),
            excerpt(response)
        )
    };
    anyhow!(
        "cannot {what}: the response of {url} cannot be parsed: {} with {found}. A network device, a \
         proxy or a rule of the provider may have answered instead of it: send the request alone \
         (`curl -i {url}/realms/master/.well-known/openid-configuration`), and change the network or \
         its security settings until that returns JSON",
        response.status
    )
}

/// The beginning of a body that is not JSON. JSON may contain tokens, and is not shown.
fn excerpt(response: &HttpResponse) -> String {
    let text = String::from_utf8_lossy(&response.body);
    let text = text.trim();
    if text.starts_with(['{', '[', '"']) || text.contains("eyJ") {
        return String::new();
    }
    let end = text.floor_char_boundary(EXCERPT_BYTES);
    format!(", which begins with `{}`", shown(&text[..end]))
}

/// The provider's error message, in any of its forms.
fn provider_message(response: &HttpResponse) -> String {
    let Ok(body) = serde_json::from_slice::<Value>(&response.body) else {
        return match &response.location {
            Some(location) => format!(" (to {})", xds::secret::url(&shown(location))),
            None if response.body.is_empty() => String::new(),
            None => excerpt(response),
        };
    };
    let fields = ["error", "error_description", "errorMessage", "field"];
    let message = fields.map(|field| body.get(field).and_then(Value::as_str));
    let message: Vec<&str> = message.into_iter().flatten().collect();
    if message.is_empty() {
        return String::new();
    }
    format!(": {}", shown(&message.join(": ")))
}

fn advice(purpose: Purpose, status: StatusCode, message: &str) -> &'static str {
    if message.contains("HTTPS required") {
        return ". The realm's setting `Require SSL` refuses plain HTTP from this address: use an \
                https URL, reach the provider through a port-forward to localhost, or set it to \
                `none` for tests";
    }
    match (purpose, status.as_u16()) {
        (_, 300..=399) => {
            ". Redirects are not followed, since the next address would get the password: give the \
             address that it names as --url"
        }
        (_, 404) => {
            ". There is no such path: --url has to be the base that `/realms/master` is below, which \
             ends in `/auth` with some installations"
        }
        (_, 429) => ". The provider limits requests: wait, and run the command again",
        (_, 500..=599) => ". The provider failed: see its log for the cause; run the command again",
        (Purpose::SignIn | Purpose::UserToken, 400 | 401) => of_grants(purpose, message),
        (Purpose::Registration, status) => of_registration(status, message),
        (Purpose::Administration, 401) => {
            ". A new token was refused too: the clocks may differ, or the administrator was signed out \
             or disabled meanwhile; check the account, and run the command again"
        }
        (Purpose::Administration, 403) => {
            ". The account may not do this: give one that has the role `admin` of the realm `master`"
        }
        (Purpose::Administration, 409) => {
            ". An object of this name exists already and is not marked as ours: rename or delete it"
        }
        _ => "",
    }
}

/// Of the token endpoint, where another token never helps.
fn of_grants(purpose: Purpose, message: &str) -> &'static str {
    if message.contains("not fully set up") {
        return ". The account has to do something first, such as change its password or complete its \
                profile: sign in with a browser, or have an administrator do it";
    }
    match (purpose, message.contains("invalid_grant")) {
        (Purpose::SignIn, true) => {
            ". The name or the password of the administrator is wrong: check --admin-user, and the \
             password in its file or in IDP_ADMIN_PASSWORD. An account that is not of the realm \
             `master` cannot be used"
        }
        (Purpose::SignIn, false) => {
            ". Another token does not help: the client that the administrator signs in with has to be \
             public and to allow direct access grants; check --admin-client"
        }
        (_, true) => {
            ". The name or the password of the user is wrong: check --user, and the password in its \
             file or in IDP_USER_PASSWORD"
        }
        (_, false) => {
            ". Another token does not help: the client's secret or its settings were changed; run \
             `gwctl idp cleanup`, then `gwctl idp setup`"
        }
    }
}

fn of_registration(status: u16, message: &str) -> &'static str {
    match status {
        401 => {
            ". Another administrator's token does not help: the initial access token was used, has \
             expired or was deleted meanwhile; run the command again for a new one"
        }
        400 if message.contains("Identifier in use") => {
            ". A client of this id exists already: run the command again, which looks for it"
        }
        403 => {
            ". A policy of client registration refuses it: look at the realm's client registration \
             policies"
        }
        _ => "",
    }
}

/// Bytes of a body that are shown.
const EXCERPT_BYTES: usize = 120;

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::{HttpResponse, Purpose, refused, unreadable};

    fn response(status: u16, body: &'static str) -> HttpResponse {
        HttpResponse {
            status: StatusCode::from_u16(status).expect("a status"),
            content_type: "text/html".to_owned(),
            location: (status == 302).then(|| "https://u:p@elsewhere/?code=1".to_owned()),
            body: body.into(),
        }
    }

    type Case = (Purpose, u16, &'static str, [&'static str; 2]);

    const INVALID_GRANT: &str =
        r#"{"error":"invalid_grant","error_description":"Invalid user credentials"}"#;

    const CASES: &[Case] = &[
        (
            Purpose::SignIn,
            400,
            INVALID_GRANT,
            ["Invalid user credentials", "--admin-user"],
        ),
        (
            Purpose::SignIn,
            401,
            r#"{"error":"invalid_client"}"#,
            ["invalid_client", "--admin-client"],
        ),
        (
            Purpose::SignIn,
            400,
            r#"{"error":"invalid_grant","error_description":"Account is not fully set up"}"#,
            ["not fully set up", "complete its profile"],
        ),
        (
            Purpose::UserToken,
            401,
            INVALID_GRANT,
            ["invalid_grant", "--user"],
        ),
        (
            Purpose::UserToken,
            401,
            r#"{"error":"unauthorized_client"}"#,
            ["unauthorized_client", "gwctl idp setup"],
        ),
        (
            Purpose::Registration,
            401,
            r#"{"error":"invalid_token","error_description":"No remaining count"}"#,
            ["No remaining count", "run the command again"],
        ),
        (
            Purpose::Registration,
            400,
            r#"{"error":"invalid_client_metadata","error_description":"Client Identifier in use"}"#,
            ["Identifier in use", "exists already"],
        ),
        (
            Purpose::Administration,
            401,
            r#"{"error":"HTTP 401 Unauthorized"}"#,
            ["401", "A new token was refused too"],
        ),
        (Purpose::Administration, 403, "", ["403", "role `admin`"]),
        (
            Purpose::Administration,
            409,
            r#"{"errorMessage":"User exists with same username"}"#,
            ["same username", "rename or delete"],
        ),
        (
            Purpose::Discovery,
            403,
            r#"{"error":"invalid_request","error_description":"HTTPS required"}"#,
            ["HTTPS required", "Require SSL"],
        ),
        (
            Purpose::Discovery,
            404,
            r#"{"error":"Realm does not exist"}"#,
            ["does not exist", "/auth"],
        ),
        (Purpose::Administration, 500, "", ["500", "see its log"]),
        (Purpose::SignIn, 302, "", ["elsewhere", "not followed"]),
        (
            Purpose::SignIn,
            403,
            "<html>\nblocked</html>",
            ["<html>?blocked", "403"],
        ),
    ];

    #[test]
    fn each_error_contains_the_response_and_advice() {
        for (purpose, status, body, parts) in CASES {
            let url = "http://localhost:8080".parse().expect("a URL");
            let response = response(*status, body);
            let text = refused(*purpose, "sign in", &url, &response).to_string();
            for part in parts {
                assert!(text.contains(part), "{part} is missing: {text}");
            }
            assert!(!text.contains("u:p@"), "{text}");
        }
    }

    #[test]
    fn a_response_that_is_not_json_is_explained_without_showing_tokens() {
        let url = "http://localhost:8080".parse().expect("a URL");
        let page = unreadable(
            "sign in",
            &url,
            &response(200, "<html>Sign in to the network</html>"),
        );
        let page = page.to_string();
        for part in ["<html>Sign in", "network device", "curl -i"] {
            assert!(page.contains(part), "{page}");
        }
        for secret in [r#"{"access":"secret"}"#, "token: eyJsecret"] {
            let text = unreadable("sign in", &url, &response(200, secret)).to_string();
            assert!(
                !text.contains("secret\"") && !text.contains("eyJ"),
                "{text}"
            );
        }
        let empty = unreadable("sign in", &url, &response(200, "")).to_string();
        assert!(empty.contains("an empty body"), "{empty}");
    }
}
