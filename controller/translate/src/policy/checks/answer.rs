//! Answers of the gateway: what their schema cannot say.

use xds::model::{Precedence, StatusRange};

use crate::files::check::Check;
use crate::policy::answer::{exception, field, media_type, seconds};
use crate::policy::api::{ErrorPageSpec, HealthCheckSpec, RespondSpec};
use crate::policy::bodies::written;
use crate::policy::expression::Expression;
use crate::route::api::Header;

/// Checks an answer of a policy of this precedence.
pub(super) fn respond(check: &mut Check, spec: &RespondSpec, precedence: Precedence) {
    check.fits_field("contentType", spec.content_type.as_deref(), |text| {
        media_type(text).map(drop)
    });
    check.fits_field("body", spec.body.as_deref(), |text| written(text).map(drop));
    let headers = spec.headers.as_deref().unwrap_or_default();
    check.each("headers", headers, header);
    check.fits_field("retryAfter", spec.retry_after.as_deref(), |text| {
        seconds(text).map(drop)
    });
    if let Some(except) = &spec.except {
        check.field("except", |check| {
            if let Err(why) = exception(except, precedence) {
                check.refuse(why);
            }
            let parsed = Expression::parse(except);
            for warning in parsed.iter().flat_map(Expression::warnings) {
                check.warn(warning);
            }
        });
    }
    let names = |name: &str| headers.iter().any(|it| it.name.eq_ignore_ascii_case(name));
    for (status, name) in NEEDED {
        if spec.status == status && !names(name) {
            check.field("status", |check| {
                check.warn(format!(
                    "an answer of status {status} has the field {name}: add it to headers"
                ));
            });
        }
    }
}

/// Checks an error page; API servers check what it refers to.
pub(super) fn error_page(check: &mut Check, page: &ErrorPageSpec) {
    check.each("statuses", &page.statuses, |check, text| {
        check.fits(text, |text| {
            let range = StatusRange::parse(text);
            range.map(drop).map_err(|why| why.to_string())
        });
    });
    check.each("bodies", &page.bodies, |check, body| {
        check.fits_field("contentType", Some(&body.content_type), |text| {
            media_type(text).map(drop)
        });
        check.fits_field("body", body.body.as_deref(), |text| written(text).map(drop));
    });
}

/// Checks the statuses that a health check expects.
pub(super) fn expected(check: &mut Check, spec: &HealthCheckSpec) {
    let statuses = spec.expect.as_deref().unwrap_or_default();
    check.each("expect", statuses, |check, text| {
        check.fits(text, |text| {
            let range = StatusRange::parse_of_answers(text);
            range.map(drop).map_err(|why| why.to_string())
        });
    });
}

fn header(check: &mut Check, header: &Header) {
    if let Err((part, why)) = field(header) {
        check.field(part, |check| check.refuse(why));
    }
}

/// The fields that answers of a status must have (RFC 9110 sections 15.5.2 and 15.5.6).
const NEEDED: [(u32, &str); 2] = [(401, "WWW-Authenticate"), (405, "Allow")];
