//! The session of an administrator: its token is fetched on demand, and again when the provider
//! rejects it as stale.

use std::cell::RefCell;

use anyhow::Result;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::args::ProviderArgs;
use super::failure::{Purpose, refused, unreadable};
use super::password::Secret;
use super::provider::{Bearer, Body, Call, HttpResponse, Provider, REALM};

/// An administrator at a provider.
pub(super) struct Admin {
    provider: Provider,
    client: String,
    user: String,
    password: Secret,
    token: RefCell<Option<Secret>>,
}

/// The response of the token endpoint.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
}

impl Admin {
    /// Of a command line; nothing is sent yet.
    pub(super) fn new(provider: Provider, args: &ProviderArgs, password: Secret) -> Self {
        Self {
            provider,
            client: args.admin_client.clone(),
            user: args.admin_user.clone(),
            password,
            token: RefCell::default(),
        }
    }

    pub(super) fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Fetches JSON; `what` is its purpose, for error messages.
    ///
    /// # Errors
    ///
    /// The provider rejects the request, or returns something else.
    pub(super) async fn read<T: DeserializeOwned>(&self, what: &str, path: &str) -> Result<T> {
        let response = self.call(Method::GET, path, Body::Nothing).await?;
        self.parse(what, &self.expect(what, response)?)
    }

    /// Creates an object.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub(super) async fn create(
        &self,
        what: &str,
        path: &str,
        body: &Value,
    ) -> Result<HttpResponse> {
        let response = self.call(Method::POST, path, Body::Json(body)).await?;
        self.expect(what, response)
    }

    /// Creates an object and reads what the provider returns of it.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub(super) async fn create_and_read<T: DeserializeOwned>(
        &self,
        what: &str,
        path: &str,
        body: &Value,
    ) -> Result<T> {
        let response = self.create(what, path, body).await?;
        self.parse(what, &response)
    }

    /// Updates an object.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub(super) async fn update(&self, what: &str, path: &str, body: &Value) -> Result<()> {
        let response = self.call(Method::PUT, path, Body::Json(body)).await?;
        self.expect(what, response).map(drop)
    }

    /// Deletes an object; false where there is none.
    ///
    /// # Errors
    /// The provider refuses.
    pub(super) async fn delete(&self, what: &str, path: &str) -> Result<bool> {
        let response = self.call(Method::DELETE, path, Body::Nothing).await?;
        if response.status == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        self.expect(what, response).map(|_| true)
    }

    /// Sends a request. After 401, repeats it once with a new token.
    async fn call(&self, method: Method, path: &str, body: Body<'_>) -> Result<HttpResponse> {
        let known = self.token.borrow().clone();
        let is_known = known.is_some();
        let token = match known {
            Some(token) => token,
            None => self.sign_in().await?,
        };
        let send = async |token: &Secret| {
            let scheme = "Bearer";
            let call = Call {
                method: method.clone(),
                path,
                bearer: Some(Bearer { scheme, token }),
                body,
            };
            self.provider.send(&call).await
        };
        let response = send(&token).await?;
        // Even a new token can be rejected: a provider that was restarted may accept it a moment
        // later.
        if response.status != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let why = if is_known { "is stale" } else { "was refused" };
        eprintln!("the administrator's token {why}: signing in again");
        send(&self.sign_in().await?).await
    }

    async fn sign_in(&self) -> Result<Secret> {
        let fields = [
            ("client_id", self.client.as_str()),
            ("username", &self.user),
            ("password", self.password.reveal()),
            ("grant_type", "password"),
        ];
        let token = grant(&self.provider, Purpose::SignIn, &fields).await?;
        self.token.replace(Some(token.clone()));
        Ok(token)
    }

    fn expect(&self, what: &str, response: HttpResponse) -> Result<HttpResponse> {
        if response.status.is_success() {
            return Ok(response);
        }
        let url = &self.provider.url;
        Err(refused(Purpose::Administration, what, url, &response))
    }

    fn parse<T: DeserializeOwned>(&self, what: &str, response: &HttpResponse) -> Result<T> {
        let parsed = serde_json::from_slice(&response.body);
        parsed.map_err(|_| unreadable(what, &self.provider.url, response))
    }
}

/// Requests an access token from the token endpoint.
///
/// # Errors
/// The provider refuses, or returns something else.
pub(super) async fn grant(
    provider: &Provider,
    purpose: Purpose,
    fields: &[(&str, &str)],
) -> Result<Secret> {
    let what = match purpose {
        Purpose::SignIn => "sign in as administrator",
        _ => "get a token",
    };
    let call = Call {
        method: Method::POST,
        path: &format!("{REALM}/protocol/openid-connect/token"),
        bearer: None,
        body: Body::Form(fields),
    };
    let response = provider.send(&call).await?;
    if !response.status.is_success() {
        return Err(refused(purpose, what, &provider.url, &response));
    }
    let granted = serde_json::from_slice::<TokenResponse>(&response.body);
    let granted = granted.map_err(|_| unreadable(what, &provider.url, &response))?;
    Ok(Secret::new(granted.access_token))
}
