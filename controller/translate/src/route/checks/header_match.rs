//! Matches of headers.

use crate::files::check::Check;
use crate::files::syntax;
use crate::route::api::{HttpHeaderMatch, ValueMatchType};

/// The header conditions of one match.
pub(crate) fn headers(check: &mut Check, headers: &[HttpHeaderMatch]) {
    check.at_most("headers", headers.len(), MAX_HEADERS);
    check.distinct("headers", headers, "name", |header| Some(&header.name));
    check.each("headers", headers, |check, header| {
        let HttpHeaderMatch { kind, name, value } = header;
        match_type(check, *kind);
        check.fits_field("name", Some(name), syntax::header_name);
        check.fits_field("value", Some(value), syntax::header_value);
    });
}

/// How a value is matched.
pub(crate) fn match_type(check: &mut Check, kind: ValueMatchType) {
    if kind == ValueMatchType::Unknown {
        check.field("type", |check| {
            check.refuse_all_but(&["Exact", "RegularExpression"]);
        });
    }
}

const MAX_HEADERS: usize = 16;
