//! Errors of the cluster's API, explained to the user with what to do next.

use anyhow::{Error, anyhow};
use kube::client::AuthError;

/// The error of an attempt to do `what` on the API server at `address`.
pub(super) fn explain(error: kube::Error, what: &str, address: &str) -> Error {
    match error {
        kube::Error::Api(status) if status.code == 401 => anyhow!(
            "the API server at {address} does not accept your credentials: log in again, or choose \
             another context with --context"
        ),
        kube::Error::Api(status) if status.code == 403 => anyhow!(
            "you may not {what}: {}; ask an administrator of the cluster for this permission",
            status.message
        ),
        kube::Error::Api(status) if status.message.contains(NO_KIND) => anyhow!(
            "cannot {what}: the cluster does not know this kind; install its definition first"
        ),
        kube::Error::Api(status) if status.code == 409 => anyhow!(
            "cannot {what}: {}; another owner manages this field: change the object yourself, or delete it and \
             run the command again",
            status.message
        ),
        kube::Error::Api(status) => anyhow!("cannot {what}: {}", status.message),
        kube::Error::Auth(error) => explain_login(&error),
        kube::Error::SerdeError(_) => anyhow!(
            "unexpected response from {address}; is it the address of a cluster's API server?"
        ),
        error => anyhow!(
            "cannot reach the API server at {address}: {}; is the cluster running, and the context \
             right? --context chooses another",
            root(&error)
        ),
    }
}

/// The message of an API server that does not know the kind; for a missing object it is `NAME not
/// found`.
const NO_KIND: &str = "could not find the requested resource";

fn explain_login(error: &AuthError) -> Error {
    match error {
        AuthError::AuthExecStart(why) => anyhow!(
            "cannot run the credential plugin that the kubeconfig names: {why}; install it, or choose \
             another context with --context"
        ),
        AuthError::AuthExecRun { cmd, out } => anyhow!(
            "the credential plugin `{cmd}` of the kubeconfig failed ({}): {}",
            out.status,
            String::from_utf8_lossy(&out.stderr).trim()
        ),
        error => anyhow!("cannot log in to the cluster: {error}"),
    }
}

/// The innermost cause: those around it repeat each other.
pub(super) fn root(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
