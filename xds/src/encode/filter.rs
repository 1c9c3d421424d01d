//! Filters of a rule or a backend.

use http::{HeaderName, HeaderValue};

use super::value::{list, texts};
use crate::model::{
    Allow, Cors, ExternalAuth, ExternalAuthProtocol, Filters, Fraction, HeaderEdit, Mirror,
    PathEdit, Redirect, Rewrite, Scheme,
};
use crate::proto::{self, allow, external_auth, path_edit};

impl From<&Filters> for proto::Filters {
    fn from(filters: &Filters) -> Self {
        Self {
            request_headers: filters.request_headers.as_ref().map(Into::into),
            response_headers: filters.response_headers.as_ref().map(Into::into),
            redirect: filters.redirect.as_ref().map(Into::into),
            rewrite: filters.rewrite.as_ref().map(Into::into),
            mirrors: list(&filters.mirrors),
            cors: filters.cors.as_ref().map(Into::into),
            external_auth: list(&filters.external_auth),
        }
    }
}

impl From<&HeaderEdit> for proto::HeaderEdit {
    fn from(edit: &HeaderEdit) -> Self {
        Self {
            set: list(&edit.set),
            add: list(&edit.add),
            remove: texts(&edit.remove),
        }
    }
}

impl From<&(HeaderName, HeaderValue)> for proto::HeaderField {
    fn from((name, value): &(HeaderName, HeaderValue)) -> Self {
        Self {
            name: name.to_string(),
            value: value.as_bytes().to_vec(),
        }
    }
}

impl From<&PathEdit> for proto::PathEdit {
    fn from(edit: &PathEdit) -> Self {
        let kind = match edit {
            PathEdit::Full(path) => path_edit::Kind::Full(path.clone()),
            PathEdit::PrefixMatch(path) => path_edit::Kind::PrefixMatch(path.clone()),
        };
        Self { kind: Some(kind) }
    }
}

impl From<&Redirect> for proto::Redirect {
    fn from(redirect: &Redirect) -> Self {
        let scheme = redirect.scheme.map(|scheme| match scheme {
            Scheme::Http => proto::Scheme::Http,
            Scheme::Https => proto::Scheme::Https,
        });
        Self {
            scheme: scheme.map(Into::into),
            hostname: redirect.hostname.as_ref().map(ToString::to_string),
            path: redirect.path.as_ref().map(Into::into),
            port: redirect.port.map(Into::into),
            status: redirect.status.as_u16().into(),
        }
    }
}

impl From<&Rewrite> for proto::Rewrite {
    fn from(rewrite: &Rewrite) -> Self {
        Self {
            hostname: rewrite.hostname.as_ref().map(ToString::to_string),
            path: rewrite.path.as_ref().map(Into::into),
        }
    }
}

impl From<&Mirror> for proto::Mirror {
    fn from(mirror: &Mirror) -> Self {
        Self {
            target: Some((&mirror.target).into()),
            fraction: mirror.fraction.map(Into::into),
        }
    }
}

impl From<Fraction> for proto::Fraction {
    fn from(fraction: Fraction) -> Self {
        Self {
            numerator: fraction.numerator,
            denominator: fraction.denominator.get(),
        }
    }
}

impl From<&Cors> for proto::Cors {
    fn from(cors: &Cors) -> Self {
        Self {
            allow_origins: texts(&cors.allow_origins),
            allow_credentials: cors.allow_credentials,
            allow_methods: Some((&cors.allow_methods).into()),
            allow_headers: Some((&cors.allow_headers).into()),
            expose_headers: Some((&cors.expose_headers).into()),
            max_age: Some(cors.max_age.into()),
        }
    }
}

impl From<&ExternalAuth> for proto::ExternalAuth {
    fn from(auth: &ExternalAuth) -> Self {
        let protocol = match &auth.protocol {
            ExternalAuthProtocol::Http {
                path_prefix,
                request_headers,
                response_headers,
            } => external_auth::Protocol::Http(proto::HttpAuth {
                path_prefix: path_prefix.to_string(),
                request_headers: texts(request_headers),
                response_headers: texts(response_headers),
            }),
            ExternalAuthProtocol::Grpc { request_headers } => {
                external_auth::Protocol::Grpc(proto::GrpcAuth {
                    request_headers: texts(request_headers),
                })
            }
        };
        Self {
            target: Some((&auth.target).into()),
            body_bytes: auth.body_bytes.map(Into::into),
            protocol: Some(protocol),
        }
    }
}

impl<T: ToString> From<&Allow<T>> for proto::Allow {
    fn from(allowed: &Allow<T>) -> Self {
        let kind = match allowed {
            Allow::Any => allow::Kind::Any(proto::Unit {}),
            Allow::Listed(names) => allow::Kind::Listed(proto::Names {
                names: texts(names),
            }),
        };
        Self { kind: Some(kind) }
    }
}
