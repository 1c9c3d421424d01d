//! Session persistence of a rule.

use crate::files::check::Check;
use crate::files::syntax;
use crate::route::api::{
    CookieLifetime, SessionCookie, SessionPersistence, SessionPersistenceType,
};

pub(crate) fn session(check: &mut Check, session: &SessionPersistence) {
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
        let text = "is not part of Gateway API since v1.6: API servers remove it";
        check.field("idleTimeout", |check| check.warn(text));
    }
    if session.kind == SessionPersistenceType::Unknown {
        check.field("type", |check| check.refuse_all_but(&["Cookie", "Header"]));
    }
    fields_of_type(check, session);
    older_fields(check, session);
    if let Some(cookie) = &session.cookie {
        check.field("cookie", |check| self::cookie(check, cookie));
    }
    if let Some(header) = &session.header {
        check.field("header", |check| {
            check.fits_field("name", Some(&header.name), syntax::header_name);
        });
    }
    let config = session.cookie_config.map(|cookie| cookie.lifetime_type);
    let lifetime = config.or(session.cookie.as_ref().map(|cookie| cookie.lifetime_type));
    if lifetime == Some(CookieLifetime::Permanent) && session.absolute_timeout.is_none() {
        let text = "is required for a Permanent cookie";
        check.missing("absoluteTimeout", text);
    }
}

fn fields_of_type(check: &mut Check, session: &SessionPersistence) {
    let is_header = session.kind == SessionPersistenceType::Header;
    let is_cookie = session.kind == SessionPersistenceType::Cookie;
    for (field, given) in [
        ("cookieConfig", session.cookie_config.is_some()),
        ("cookie", session.cookie.is_some()),
    ] {
        if given && is_header {
            let text = "applies to type Cookie: change the type, or remove it";
            check.field(field, |check| check.refuse(text));
        }
    }
    if session.header.is_some() && is_cookie {
        let text = "applies to type Header: change the type, or remove it";
        check.field("header", |check| check.refuse(text));
    }
}

/// The fields used up to v1.6 are alternatives to `cookie` and `header`.
fn older_fields(check: &mut Check, session: &SessionPersistence) {
    if session.cookie.is_none() && session.header.is_none() {
        return;
    }
    for (field, given) in [
        ("sessionName", session.session_name.is_some()),
        ("cookieConfig", session.cookie_config.is_some()),
    ] {
        if given {
            let text = "was removed from Gateway API in v1.6: use `cookie` or `header`";
            check.field(field, |check| check.refuse(text));
        }
    }
}

fn cookie(check: &mut Check, cookie: &SessionCookie) {
    check.fits_field("name", cookie.name.as_deref(), |text| {
        syntax::length(text, 0, MAX_SESSION_NAME)
    });
    check.fits_field("path", cookie.path.as_deref(), |text| {
        syntax::length(text, 0, MAX_PATH)
    });
}

const MAX_SESSION_NAME: usize = 128;
const MAX_PATH: usize = 1024;
