//! `gwctl idp`, against a provider that answers as a test says, and (ignored, since it takes minutes
//! and Java) against the real Keycloak, together with a gateway that validates its tokens.

mod failures;
mod keycloak;
mod support;
