//! Edits of header fields.

use http::{HeaderName, HeaderValue};
use xds::model::HeaderEdit;

use super::api::{Header, HeaderFilter};
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers an edit. Names of framing and connection fields are rejected: the proxy writes them
/// itself, and editing them would enable request smuggling.
pub(crate) fn lower(spec: &HeaderFilter) -> Result<HeaderEdit, Problem> {
    let remove = spec.remove.iter().enumerate();
    let remove = remove
        .map(|(index, text)| name(text).map_err(|it| it.under(format_args!("remove[{index}]"))));
    Ok(HeaderEdit {
        set: fields(&spec.set, "set")?,
        add: fields(&spec.add, "add")?,
        remove: remove.collect::<Result<_, _>>()?,
    })
}

/// Of several entries for one name, Gateway API uses only the first.
fn fields(specs: &[Header], list: &str) -> Result<Vec<(HeaderName, HeaderValue)>, Problem> {
    let mut fields: Vec<(HeaderName, HeaderValue)> = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        let at = |problem: Problem| problem.under(format_args!("{list}[{index}]"));
        let name = name(&spec.name).map_err(|problem| at(problem.under("name")))?;
        let value = HeaderValue::from_str(&spec.value).map_err(|_| {
            let message = "the value has characters that are not allowed in a header: remove them";
            at(Problem::new(Reason::UnsupportedValue, "value", message))
        })?;
        if fields.iter().all(|(other, _)| *other != name) {
            fields.push((name, value));
        }
    }
    Ok(fields)
}

/// Parses the name of a header that users may edit.
pub(crate) fn name(text: &str) -> Result<HeaderName, Problem> {
    let fail = |message| Err(Problem::new(Reason::UnsupportedValue, "", message));
    let Ok(name) = HeaderName::from_bytes(text.as_bytes()) else {
        return fail(format!(
            "`{text}` is not a header name: use letters, digits and `-`"
        ));
    };
    match name.as_str() {
        "host" => fail("`host` cannot be edited: use URLRewrite with `hostname`".to_owned()),
        // Backends may read underscores as dashes.
        own if PROXY_OWN.contains(&own.replace('_', "-").as_str()) => fail(format!(
            "`{own}` frames the message or belongs to the connection, so the proxy writes it: \
             leave it out"
        )),
        _ => Ok(name),
    }
}

/// Hop-by-hop fields (RFC 9110 section 7.6.1, RFC 9112 section 6 and others).
const PROXY_OWN: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
