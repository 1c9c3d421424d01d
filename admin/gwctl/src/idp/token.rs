//! `gwctl idp token`: an access token of a user, as the client of the set-up gets it.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::admin::{Admin, grant};
use super::args::TokenArgs;
use super::client::Client;
use super::failure::Purpose;
use super::password;
use crate::output;

/// Prints a token, or its content.
///
/// # Errors
///
/// Nothing is set up, or the provider rejects the request.
pub(super) async fn run(args: &TokenArgs, admin: &Admin, out: &mut dyn Write) -> Result<ExitCode> {
    let client = Client::find(admin).await?;
    let client = client.context("not set up: run `gwctl idp setup` first")?;
    let secret = client.secret(admin).await?;
    let file = args.password_file.as_deref();
    let password = password::read(&password::USER, &args.user, file)?;
    let fields = [
        ("client_id", client.name.as_str()),
        ("client_secret", secret.reveal()),
        ("username", &args.user),
        ("password", password.reveal()),
        ("grant_type", "password"),
    ];
    let token = grant(admin.provider(), Purpose::UserToken, &fields).await?;
    if args.decode {
        output::json(&decode(token.reveal())?, out)?;
    } else {
        output::line(token.reveal(), out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Header and claims of a signed token.
fn decode(token: &str) -> Result<Value> {
    let mut parts = token.split('.').map(|part| {
        let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
        serde_json::from_slice::<Value>(&bytes).ok()
    });
    let mut part = || parts.next().flatten();
    let decoded = part().zip(part());
    let (header, claims) = decoded.context(
        "the provider's token is not a JSON Web Token: the realm may issue opaque tokens",
    )?;
    Ok(json!({"header": header, "claims": claims}))
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn a_token_is_taken_apart() {
        let decoded = decode("eyJhbGciOiJSUzI1NiJ9.eyJncm91cCI6InVzZXJzIn0.c2ln").expect("a token");
        assert_eq!(decoded["header"]["alg"], "RS256");
        assert_eq!(decoded["claims"]["group"], "users");
        for opaque in ["", "opaque", "a.b.c"] {
            assert!(decode(opaque).is_err(), "{opaque}");
        }
    }
}
