//! Trace events of authentication: what the credentials of a request say. None contains a credential.

use admin_types::trace::{Message, Severity};

use super::Tracer;
use super::policy::{API_KEYS, BASIC_AUTH, JWT};
use crate::policy::api_keys::KeyRefusal;
use crate::policy::basic_auth::{PasswordRefusal, PasswordUse};
use crate::policy::jwt::{AuthenticatedBy, Refusal};

impl Tracer {
    /// The result of a JWT policy (`kind/namespace/name`). Never contains the token.
    #[cold]
    pub(crate) fn token(&self, policy: &str, result: Result<AuthenticatedBy, Refusal>) {
        let (severity, allowed, detail) = match result {
            Ok(AuthenticatedBy::None) => (
                Severity::Success,
                true,
                "without a token, which is optional",
            ),
            Ok(AuthenticatedBy::Cached) => (
                Severity::Success,
                true,
                "by a token that was verified before",
            ),
            Ok(AuthenticatedBy::Verified) => {
                (Severity::Success, true, "by a token that was verified")
            }
            Err(refusal) => (Severity::Error, false, refusal.reason()),
        };
        self.take_unreported(JWT);
        let message = Message::AuthorizationResult {
            by: format!("{JWT} {policy}"),
            allowed,
            detail: detail.to_owned(),
        };
        self.emit(severity, message);
    }

    /// What API keys (of the policy `kind/namespace/name`) say about a request: its client, or `None` without a key.
    /// Never contains the key.
    #[cold]
    pub(crate) fn api_key(&self, policy: &str, result: Result<Option<&str>, KeyRefusal>) {
        let (severity, detail) = match result {
            Ok(Some(client)) => (Severity::Success, format!("by the key of `{client}`")),
            Ok(None) => (Severity::Info, "without a key".to_owned()),
            Err(refusal) => (Severity::Error, refusal.reason().to_owned()),
        };
        self.take_unreported(API_KEYS);
        let message = Message::AuthorizationResult {
            by: format!("{API_KEYS} {policy}"),
            allowed: result.is_ok(),
            detail,
        };
        self.emit(severity, message);
    }

    /// What passwords (of the policy `kind/namespace/name`) say about a request. Never contains the password.
    #[cold]
    pub(crate) fn password(&self, policy: &str, result: Result<PasswordUse<'_>, PasswordRefusal>) {
        let (severity, detail) = match result {
            Ok(PasswordUse::Known(user)) => (
                Severity::Success,
                format!("by the password of `{user}`, which was checked before"),
            ),
            Ok(PasswordUse::Checked(user)) => (
                Severity::Success,
                format!("by the password of `{user}`, which was checked"),
            ),
            Ok(PasswordUse::None) => (Severity::Info, "without a password".to_owned()),
            Err(refusal) => (Severity::Error, refusal.reason().to_owned()),
        };
        self.take_unreported(BASIC_AUTH);
        let message = Message::AuthorizationResult {
            by: format!("{BASIC_AUTH} {policy}"),
            allowed: result.is_ok(),
            detail,
        };
        self.emit(severity, message);
    }

    /// The request lacks credentials that a policy (`kind/namespace/name`) needs.
    #[cold]
    pub(crate) fn no_credentials(&self, policy: &str, requires_all: bool) {
        let detail = if requires_all {
            "no_credentials: a credential of each kind is needed"
        } else {
            "no_credentials"
        };
        let message = Message::AuthorizationResult {
            by: policy.to_owned(),
            allowed: false,
            detail: detail.to_owned(),
        };
        self.emit(Severity::Error, message);
    }
}
