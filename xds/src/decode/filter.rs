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

pub(super) fn filters(place: &FieldPath<'_>, message: proto::Filters) -> Option<Filters> {
    let request_headers = place.optional("request_headers", message.request_headers, header_edit);
    let response_headers =
        place.optional("response_headers", message.response_headers, header_edit);
    if message.redirect.is_some() && message.rewrite.is_some() {
        place.problem::<()>("has both `redirect` and `rewrite`: use one of them");
    }
    let redirect = place.optional("redirect", message.redirect, redirect);
    let rewrite = place.optional("rewrite", message.rewrite, rewrite);
    let mirrors = place.list("mirrors", message.mirrors, mirror);
    let cors = place.optional("cors", message.cors, cors);
    let external_auth = place.list("external_auth", message.external_auth, external_auth);
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

fn header_edit(place: &FieldPath<'_>, message: proto::HeaderEdit) -> Option<HeaderEdit> {
    let set = place.list("set", message.set, header_field);
    let add = place.list("add", message.add, header_field);
    let remove = place.list("remove", message.remove, |place, name| {
        header_name(place, &name)
    });
    Some(HeaderEdit {
        set: set?,
        add: add?,
        remove: remove?,
    })
}

fn header_field(
    place: &FieldPath<'_>,
    message: proto::HeaderField,
) -> Option<(HeaderName, HeaderValue)> {
    let name = header_name(&place.field("name"), &message.name);
    let value = HeaderValue::from_bytes(&message.value)
        .map_err(|_| "is not a valid header value: it contains control characters");
    let value = place.field("value").accept(value);
    Some((name?, value?))
}

fn path_edit(place: &FieldPath<'_>, message: proto::PathEdit) -> Option<PathEdit> {
    match message.kind {
        Some(path_edit::Kind::Full(path)) => place.field("full").accept(PathEdit::full(&path)),
        Some(path_edit::Kind::PrefixMatch(path)) => place
            .field("prefix_match")
            .accept(PathEdit::prefix_match(&path)),
        None => place.no_choice(),
    }
}

fn redirect(place: &FieldPath<'_>, message: proto::Redirect) -> Option<Redirect> {
    let scheme = place.optional("scheme", message.scheme, |place, number| {
        choice(place, number, |scheme| match scheme {
            proto::Scheme::Unspecified => None,
            proto::Scheme::Http => Some(Scheme::Http),
            proto::Scheme::Https => Some(Scheme::Https),
        })
    });
    let hostname = place.optional("hostname", message.hostname, |place, text| {
        exact_hostname(place, &text)
    });
    let path = place.optional("path", message.path, path_edit);
    let port = place.optional("port", message.port, port);
    let status = status(&place.field("status"), message.status);
    if let Some(status) = status
        && !REDIRECTS.contains(&status.as_u16())
    {
        place.field("status").problem::<()>(format!(
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

fn rewrite(place: &FieldPath<'_>, message: proto::Rewrite) -> Option<Rewrite> {
    let hostname = place.optional("hostname", message.hostname, |place, text| {
        exact_hostname(place, &text)
    });
    let path = place.optional("path", message.path, path_edit);
    Some(Rewrite {
        hostname: hostname?,
        path: path?,
    })
}

fn mirror(place: &FieldPath<'_>, message: proto::Mirror) -> Option<Mirror> {
    let target = place.required("target", message.target, target);
    let fraction = place.optional("fraction", message.fraction, |place, fraction| {
        let denominator = non_zero(&place.field("denominator"), fraction.denominator)?;
        place.accept(Fraction::new(fraction.numerator, denominator))
    });
    Some(Mirror {
        target: target?,
        fraction: fraction?,
    })
}

fn cors(place: &FieldPath<'_>, message: proto::Cors) -> Option<Cors> {
    let allow_origins = place.list("allow_origins", message.allow_origins, |place, text| {
        place.accept(CorsOrigin::parse(&text))
    });
    let allow_methods = place.required("allow_methods", message.allow_methods, |place, names| {
        allow(place, names, method)
    });
    let allow_headers = place.required("allow_headers", message.allow_headers, |place, names| {
        allow(place, names, header_name)
    });
    let expose_headers =
        place.required("expose_headers", message.expose_headers, |place, names| {
            allow(place, names, header_name)
        });
    let max_age = place.required("max_age", message.max_age, duration);
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
    place: &FieldPath<'_>,
    message: proto::ExternalAuth,
) -> Option<ExternalAuth> {
    let target = place.required("target", message.target, target);
    let body_bytes = place.optional("body_bytes", message.body_bytes, non_zero);
    let protocol = match message.protocol {
        Some(external_auth::Protocol::Http(http)) => http_auth(&place.field("http"), http),
        Some(external_auth::Protocol::Grpc(grpc)) => {
            let place = place.field("grpc");
            let request_headers = names(&place, "request_headers", grpc.request_headers);
            request_headers.map(|request_headers| ExternalAuthProtocol::Grpc { request_headers })
        }
        None => place.field("protocol").no_choice(),
    };
    Some(ExternalAuth {
        target: target?,
        protocol: protocol?,
        body_bytes: body_bytes?,
    })
}

fn http_auth(place: &FieldPath<'_>, message: proto::HttpAuth) -> Option<ExternalAuthProtocol> {
    let prefix = AuthPathPrefix::parse(&message.path_prefix);
    let path_prefix = place.field("path_prefix").accept(prefix);
    let request_headers = names(place, "request_headers", message.request_headers);
    let response_headers = names(place, "response_headers", message.response_headers);
    Some(ExternalAuthProtocol::Http {
        path_prefix: path_prefix?,
        request_headers: request_headers?,
        response_headers: response_headers?,
    })
}

fn names(
    place: &FieldPath<'_>,
    field: &'static str,
    texts: Vec<String>,
) -> Option<Vec<HeaderName>> {
    place.list(field, texts, |place, name| header_name(place, &name))
}

fn allow<T>(
    place: &FieldPath<'_>,
    message: proto::Allow,
    read: fn(&FieldPath<'_>, &str) -> Option<T>,
) -> Option<Allow<T>> {
    match message.kind {
        Some(allow::Kind::Any(proto::Unit {})) => Some(Allow::Any),
        Some(allow::Kind::Listed(list)) => place
            .list("listed", list.names, |place, name| read(place, &name))
            .map(Allow::Listed),
        None => place.no_choice(),
    }
}

/// The redirects of Gateway API; 304 and others have different meanings.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
