//! Filters of a rule, or of one of its backends.

use std::num::NonZeroU32;

use http::StatusCode;
use proptest::prelude::*;
use proptest::{collection::vec, option};
use xds::model::{
    Allow, AuthPathPrefix, Cors, CorsOrigin, ExternalAuth, ExternalAuthProtocol, FilterSet,
    Filters, Fraction, HeaderEdit, Mirror, PathEdit, Redirect, Rewrite, Scheme,
};

use super::value::{duration, exact_hostname, header_name, header_value, method, port, target};

/// Filters; those that replace a prefix only where `prefixes` were matched.
pub(super) fn filters(prefixes: bool) -> BoxedStrategy<Filters> {
    (
        option::of(header_edit().boxed()),
        option::of(header_edit().boxed()),
        redirect_or_rewrite(prefixes),
        vec(mirror(), 0..2),
        option::of(cors().boxed()),
        vec(external_auth(), 0..2),
    )
        .prop_map(
            |(request, response, (redirect, rewrite), mirrors, cors, external_auth)| FilterSet {
                request_headers: request,
                response_headers: response,
                redirect,
                rewrite,
                mirrors,
                cors,
                external_auth,
            },
        )
        .prop_map(Filters::from)
        .boxed()
}

fn redirect_or_rewrite(
    prefixes: bool,
) -> impl Strategy<Value = (Option<Redirect>, Option<Rewrite>)> {
    prop_oneof![
        Just((None, None)),
        redirect(prefixes).prop_map(|redirect| (Some(redirect), None)),
        rewrite(prefixes).prop_map(|rewrite| (None, Some(rewrite))),
    ]
}

prop_compose! {
    fn header_edit()(
        set in vec((header_name(), header_value()), 0..3),
        add in vec((header_name(), header_value()), 0..3),
        remove in vec(header_name(), 0..3),
    ) -> HeaderEdit {
        HeaderEdit { set, add, remove }
    }
}

fn path_edit(prefixes: bool) -> BoxedStrategy<PathEdit> {
    let path = "(/[a-z0-9._~-]{0,5}){1,3}";
    let full = path.prop_map(|path| PathEdit::full(&path).expect("a path"));
    let prefix = prop_oneof![Just(String::new()), path]
        .prop_map(|path| PathEdit::prefix_match(&path).expect("a path"));
    if prefixes {
        prop_oneof![full, prefix].boxed()
    } else {
        full.boxed()
    }
}

prop_compose! {
    fn redirect(prefixes: bool)(
        scheme in option::of(prop_oneof![Just(Scheme::Http), Just(Scheme::Https)]),
        hostname in option::of(exact_hostname()),
        path in option::of(path_edit(prefixes)),
        port in option::of(port()),
        status in prop::sample::select(&[
            StatusCode::MOVED_PERMANENTLY,
            StatusCode::FOUND,
            StatusCode::SEE_OTHER,
            StatusCode::TEMPORARY_REDIRECT,
            StatusCode::PERMANENT_REDIRECT,
        ][..]),
    ) -> Redirect {
        Redirect { scheme, hostname, path, port: port.map(Into::into), status }
    }
}

prop_compose! {
    fn rewrite(prefixes: bool)(
        hostname in option::of(exact_hostname()),
        path in option::of(path_edit(prefixes)),
    ) -> Rewrite {
        Rewrite { hostname, path }
    }
}

pub(super) fn external_auth() -> BoxedStrategy<ExternalAuth> {
    let names = || vec(header_name(), 0..3);
    let http = ("(/[a-z]{1,4}){0,2}", names(), names()).prop_map(
        |(prefix, request_headers, response_headers)| ExternalAuthProtocol::Http {
            path_prefix: AuthPathPrefix::parse(&prefix).expect("a path"),
            request_headers,
            response_headers,
        },
    );
    let grpc = names().prop_map(|request_headers| ExternalAuthProtocol::Grpc { request_headers });
    (
        target(),
        prop_oneof![http, grpc],
        any::<Option<NonZeroU32>>(),
    )
        .prop_map(|(target, protocol, body_bytes)| ExternalAuth {
            target,
            protocol,
            body_bytes,
        })
        .boxed()
}

prop_compose! {
    fn mirror()(target in target(), fraction in option::of(fraction())) -> Mirror {
        Mirror { target, fraction }
    }
}

fn fraction() -> impl Strategy<Value = Fraction> {
    any::<NonZeroU32>()
        .prop_flat_map(|denominator| (0..=denominator.get(), Just(denominator)))
        .prop_map(|(numerator, denominator)| {
            Fraction::new(numerator, denominator).expect("at most one")
        })
}

fn origin() -> impl Strategy<Value = CorsOrigin> {
    let text = prop_oneof![
        Just("*".to_owned()),
        "https?://(\\*\\.)?[a-z]{1,8}\\.[a-z]{2,3}(:[1-9][0-9]{0,3})?",
        "https?://\\*(:[1-9][0-9]{0,3})?",
    ];
    text.prop_map(|text| CorsOrigin::parse(&text).expect("an origin"))
}

fn allow<T: std::fmt::Debug + Clone + 'static>(
    name: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Allow<T>> {
    prop_oneof![Just(Allow::Any), vec(name, 0..4).prop_map(Allow::Listed)]
}

prop_compose! {
    fn cors()(
        allow_origins in vec(origin(), 0..3),
        allow_credentials in any::<bool>(),
        allow_methods in allow(method()),
        allow_headers in allow(header_name()),
        expose_headers in allow(header_name()),
        max_age in duration(),
    ) -> Cors {
        Cors {
            allow_origins,
            allow_credentials,
            allow_methods,
            allow_headers,
            expose_headers,
            max_age,
        }
    }
}
