//! `/`: the operator's page, static files embedded in the binary. It uses the other endpoints like any
//! other client.

use std::sync::OnceLock;

use bytes::Bytes;
use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use http::{HeaderValue, StatusCode};

use super::handler::{Endpoint, READ};
use crate::response::{Body, Encoding, ErrorFormat, Response};

/// Defines the endpoint of one file.
macro_rules! file {
    ($path:expr, $content_type:expr, $file:expr) => {
        Endpoint {
            path: $path,
            methods: READ,
            parameters: &[],
            usage: concat!("GET ", $path),
            errors: ErrorFormat::Text,
            handle: |request| {
                static FILE: File = File {
                    content_type: $content_type,
                    bytes: include_bytes!(concat!("../../page/", $file)),
                    gzipped: OnceLock::new(),
                };
                Box::pin(async move { Ok(FILE.response(request.encoding)) })
            },
        }
    };
}

macro_rules! style {
    ($file:literal) => {
        file!(concat!("/page/", $file), "text/css; charset=utf-8", $file)
    };
}

macro_rules! script {
    ($file:literal) => {
        file!(
            concat!("/page/", $file),
            "text/javascript; charset=utf-8",
            $file
        )
    };
}

pub(super) const ENDPOINTS: &[Endpoint] = &[
    file!("/", "text/html; charset=utf-8", "index.html"),
    file!("/page/icon.svg", "image/svg+xml", "icon.svg"),
    style!("base.css"),
    style!("parts.css"),
    style!("views.css"),
    script!("api.js"),
    script!("backends.js"),
    script!("certificates.js"),
    script!("describe.js"),
    script!("dom.js"),
    script!("flame.js"),
    script!("health.js"),
    script!("list.js"),
    script!("listeners.js"),
    script!("logging.js"),
    script!("main.js"),
    script!("memory.js"),
    script!("overview.js"),
    script!("place.js"),
    script!("policies.js"),
    script!("poll.js"),
    script!("pprof.js"),
    script!("profiles.js"),
    script!("routes.js"),
    script!("settings.js"),
    script!("store.js"),
    script!("story.js"),
    script!("tasks.js"),
    script!("text.js"),
    script!("trace.js"),
];

/// Forbids other origins, framing, and turning text into HTML or scripts, since configuration and
/// traces contain untrusted text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// A file of the page.
struct File {
    content_type: &'static str,
    bytes: &'static [u8],
    /// Compressed on first use, on the admin thread: it is a few KiB.
    gzipped: OnceLock<Bytes>,
}

impl File {
    fn response(&self, encoding: Encoding) -> Response {
        let bytes = match encoding {
            Encoding::Identity => Bytes::from_static(self.bytes),
            Encoding::Gzip => self.gzipped().clone(),
        };
        Response::new(StatusCode::OK, self.content_type, Body::Whole(Some(bytes)))
            .encoded(encoding)
            .with(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))
            .with(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
    }

    fn gzipped(&self) -> &Bytes {
        let gzip = || Encoding::Gzip.encode(self.bytes.to_vec()).into();
        self.gzipped.get_or_init(gzip)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::ENDPOINTS;

    /// The page's files; its tests are in a folder beside them.
    fn files() -> BTreeSet<String> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        let entries = fs::read_dir(folder).expect("the page's folder");
        let files = entries.map(|entry| entry.expect("an entry"));
        let files = files.filter(|entry| entry.path().is_file());
        files
            .map(|entry| entry.file_name().into_string().expect("a plain name"))
            .collect()
    }

    #[test]
    fn each_file_of_the_page_is_served() {
        let served = ENDPOINTS.iter().map(|endpoint| match endpoint.path {
            "/" => "index.html".to_owned(),
            path => path
                .strip_prefix("/page/")
                .expect("the page's folder")
                .to_owned(),
        });
        assert_eq!(served.collect::<BTreeSet<_>>(), files());
    }
}
