//! `gwctl idp`, against a provider that answers as a test says, and (ignored, since it takes minutes
//! and Java) against the real Keycloak, together with a gateway that validates its tokens.

#[expect(dead_code, reason = "other tests forward ports")]
#[path = "../cluster/api_server.rs"]
mod api_server;
mod apply;
mod failures;
mod keycloak;
#[path = "../cluster/port_forward.rs"]
mod port_forward;
mod processes;
mod support;
