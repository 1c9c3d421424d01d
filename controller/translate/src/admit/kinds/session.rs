//! Session persistence of a rule.

use crate::admit::check::Check;
use crate::admit::syntax;
use crate::api::{CookieLifetime, SessionPersistence, SessionPersistenceType};

pub(super) fn session(check: &mut Check, session: &SessionPersistence) {
    check.fits_field("sessionName", session.session_name.as_deref(), |text| {
        syntax::length(text, 0, MAX_SESSION_NAME)
    });
    check.fits_field(
        "absoluteTimeout",
        session.absolute_timeout.as_deref(),
        syntax::duration,
    );
    check.fits_field(
        "idleTimeout",
        session.idle_timeout.as_deref(),
        syntax::duration,
    );
    if session.idle_timeout.is_some() {
        let text = "is no part of Gateway API since v1.6: an API server takes it out";
        check.field("idleTimeout", |check| check.warn(text));
    }
    if session.kind == SessionPersistenceType::Unknown {
        check.field("type", |check| check.refuse_all_but(&["Cookie", "Header"]));
    }
    let Some(cookie) = &session.cookie_config else {
        return;
    };
    if session.kind == SessionPersistenceType::Header {
        let text = "goes with type Cookie: change type, or remove it";
        check.field("cookieConfig", |check| check.refuse(text));
    }
    let permanent = cookie.lifetime_type == CookieLifetime::Permanent;
    if permanent && session.absolute_timeout.is_none() {
        let text = "is missing: a Permanent cookie needs the time that it lives";
        check.missing("absoluteTimeout", text);
    }
}

const MAX_SESSION_NAME: usize = 128;
