//! Matches of headers.

use crate::admit::check::Check;
use crate::admit::syntax;
use crate::api::{HttpHeaderMatch, ValueMatchType};

/// The header conditions of one match.
pub(super) fn headers(check: &mut Check, headers: &[HttpHeaderMatch]) {
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
pub(super) fn match_type(check: &mut Check, kind: ValueMatchType) {
    if kind == ValueMatchType::Unknown {
        check.field("type", |check| {
            check.refuse_all_but(&["Exact", "RegularExpression"]);
        });
    }
}

const MAX_HEADERS: usize = 16;
