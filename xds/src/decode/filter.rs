//! Filters of a rule or a backend.

use http::{HeaderName, HeaderValue};

use super::field_path::FieldPath;
use super::matching::method;
use super::value::{choice, duration, exact_hostname, header_name, non_zero, port, status, target};
use crate::model::{
    Allow, AuthPathPrefix, Cors, CorsOrigin, ExternalAuth, ExternalAuthProtocol, FilterSet,
    Filters, Fraction, HeaderEdit, Mirror, PathEdit, Redirect, Rewrite, Scheme,
};
use crate::proto::{self, allow, external_auth, path_edit};

pub(super) fn filters(at: &FieldPath<'_>, message: proto::Filters) -> Option<Filters> {
    let request_headers = at.optional("request_headers", message.request_headers, header_edit);
    let response_headers = at.optional("response_headers", message.response_headers, header_edit);
    if message.redirect.is_some() && message.rewrite.is_some() {
        at.problem::<()>("has both `redirect` and `rewrite`: use one of them");
    }
    let redirect = at.optional("redirect", message.redirect, redirect);
    let rewrite = at.optional("rewrite", message.rewrite, rewrite);
    let mirrors = at.list("mirrors", message.mirrors, mirror);
    let cors = at.optional("cors", message.cors, cors);
    let external_auth = at.list("external_auth", message.external_auth, external_auth);
    let filters = FilterSet {
        request_headers: request_headers?,
        response_headers: response_headers?,
        redirect: redirect?,
        rewrite: rewrite?,
        mirrors: mirrors?,
        cors: cors?,
        external_auth: external_auth?,
    };
    Some(filters.into())
}

fn header_edit(at: &FieldPath<'_>, message: proto::HeaderEdit) -> Option<HeaderEdit> {
    let set = at.list("set", message.set, header_field);
    let add = at.list("add", message.add, header_field);
    let remove = at.list("remove", message.remove, |at, name| header_name(at, &name));
    Some(HeaderEdit {
        set: set?,
        add: add?,
        remove: remove?,
    })
}

pub(super) fn header_field(
    at: &FieldPath<'_>,
    message: proto::HeaderField,
) -> Option<(HeaderName, HeaderValue)> {
    let name = header_name(&at.field("name"), &message.name);
    let value = HeaderValue::from_bytes(&message.value)
        .map_err(|_| "is not a valid header value: it contains control characters");
    let value = at.field("value").accept(value);
    Some((name?, value?))
}

fn path_edit(at: &FieldPath<'_>, message: proto::PathEdit) -> Option<PathEdit> {
    match message.kind {
        Some(path_edit::Kind::Full(path)) => at.field("full").accept(PathEdit::full(&path)),
        Some(path_edit::Kind::PrefixMatch(path)) => at
            .field("prefix_match")
            .accept(PathEdit::prefix_match(&path)),
        None => at.record_missing_choice(),
    }
}

fn redirect(at: &FieldPath<'_>, message: proto::Redirect) -> Option<Redirect> {
    let scheme = at.optional("scheme", message.scheme, |at, number| {
        choice(at, number, |scheme| match scheme {
            proto::Scheme::Unspecified => None,
            proto::Scheme::Http => Some(Scheme::Http),
            proto::Scheme::Https => Some(Scheme::Https),
        })
    });
    let hostname = at.optional("hostname", message.hostname, |at, text| {
        exact_hostname(at, &text)
    });
    let path = at.optional("path", message.path, path_edit);
    let port = at.optional("port", message.port, port);
    let status = status(&at.field("status"), message.status);
    if let Some(status) = status
        && !REDIRECTS.contains(&status.as_u16())
    {
        at.field("status").problem::<()>(format!(
            "{} is not a redirect: use 301, 302, 303, 307 or 308",
            status.as_u16()
        ));
    }
    Some(Redirect {
        scheme: scheme?,
        hostname: hostname?,
        path: path?,
        port: port?.map(Into::into),
        status: status?,
    })
}

fn rewrite(at: &FieldPath<'_>, message: proto::Rewrite) -> Option<Rewrite> {
    let hostname = at.optional("hostname", message.hostname, |at, text| {
        exact_hostname(at, &text)
    });
    let path = at.optional("path", message.path, path_edit);
    Some(Rewrite {
        hostname: hostname?,
        path: path?,
    })
}

fn mirror(at: &FieldPath<'_>, message: proto::Mirror) -> Option<Mirror> {
    let target = at.required("target", message.target, target);
    let fraction = at.optional("fraction", message.fraction, |at, fraction| {
        let denominator = non_zero(&at.field("denominator"), fraction.denominator)?;
        at.accept(Fraction::new(fraction.numerator, denominator))
    });
    Some(Mirror {
        target: target?,
        fraction: fraction?,
    })
}

fn cors(at: &FieldPath<'_>, message: proto::Cors) -> Option<Cors> {
    let allow_origins = at.list("allow_origins", message.allow_origins, |at, text| {
        at.accept(CorsOrigin::parse(&text))
    });
    let allow_methods = at.required("allow_methods", message.allow_methods, |at, names| {
        allow(at, names, method)
    });
    let allow_headers = at.required("allow_headers", message.allow_headers, |at, names| {
        allow(at, names, header_name)
    });
    let expose_headers = at.required("expose_headers", message.expose_headers, |at, names| {
        allow(at, names, header_name)
    });
    let max_age = at.required("max_age", message.max_age, duration);
    Some(Cors {
        allow_origins: allow_origins?,
        allow_credentials: message.allow_credentials,
        allow_methods: allow_methods?,
        allow_headers: allow_headers?,
        expose_headers: expose_headers?,
        max_age: max_age?,
    })
}

pub(super) fn external_auth(
    at: &FieldPath<'_>,
    message: proto::ExternalAuth,
) -> Option<ExternalAuth> {
    let target = at.required("target", message.target, target);
    let body_bytes = at.optional("body_bytes", message.body_bytes, non_zero);
    let protocol = match message.protocol {
        Some(external_auth::Protocol::Http(http)) => http_auth(&at.field("http"), http),
        Some(external_auth::Protocol::Grpc(grpc)) => {
            let at = at.field("grpc");
            let request_headers = names(&at, "request_headers", grpc.request_headers);
            request_headers.map(|request_headers| ExternalAuthProtocol::Grpc { request_headers })
        }
        None => at.field("protocol").record_missing_choice(),
    };
    Some(ExternalAuth {
        target: target?,
        protocol: protocol?,
        body_bytes: body_bytes?,
    })
}

fn http_auth(at: &FieldPath<'_>, message: proto::HttpAuth) -> Option<ExternalAuthProtocol> {
    let prefix = AuthPathPrefix::parse(&message.path_prefix);
    let path_prefix = at.field("path_prefix").accept(prefix);
    let request_headers = names(at, "request_headers", message.request_headers);
    let response_headers = names(at, "response_headers", message.response_headers);
    Some(ExternalAuthProtocol::Http {
        path_prefix: path_prefix?,
        request_headers: request_headers?,
        response_headers: response_headers?,
    })
}

fn names(at: &FieldPath<'_>, field: &'static str, texts: Vec<String>) -> Option<Vec<HeaderName>> {
    at.list(field, texts, |at, name| header_name(at, &name))
}

fn allow<T>(
    at: &FieldPath<'_>,
    message: proto::Allow,
    read: fn(&FieldPath<'_>, &str) -> Option<T>,
) -> Option<Allow<T>> {
    match message.kind {
        Some(allow::Kind::Any(proto::Unit {})) => Some(Allow::Any),
        Some(allow::Kind::Listed(list)) => at
            .list("listed", list.names, |at, name| read(at, &name))
            .map(Allow::Listed),
        None => at.record_missing_choice(),
    }
}

/// The redirects of Gateway API; 304 and others have different meanings.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
