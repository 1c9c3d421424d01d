//! XBackend, of the experimental channel of Gateway API.

use crate::backend::api::{XBackend, XBackendTls, XBackendTlsMode, XBackendType};
use crate::files::check::Check;
use crate::files::syntax;
use crate::objects::admission::{Admissible, guarded};
use crate::route::checks::session;

impl Admissible for XBackend {
    fn may_restrict_access(field: &[&str]) -> bool {
        guarded(&["spec.tls"], field)
    }

    fn check(&self, check: &mut Check) {
        let spec = &self.spec;
        check.field("spec", |check| {
            let mut known = false;
            check.field("type", |check| known = check.is_one_of(&TYPES));
            check.field("port", |check| {
                if spec.port.number.is_none() {
                    check.missing("number", "is missing: add the port");
                }
            });
            let is = |kind| spec.kind == kind;
            for (field, is_required, is_set) in [
                (
                    "externalHostname",
                    is(XBackendType::ExternalHostname),
                    spec.external_hostname.is_some(),
                ),
                (
                    "endpointSelector",
                    is(XBackendType::EndpointSelector),
                    spec.endpoint_selector.is_some(),
                ),
            ] {
                match (is_required, is_set) {
                    (true, false) => check.missing(field, "is missing: the type requires it"),
                    (false, true) if known => check.field(field, |check| {
                        check.refuse("applies to another type: change type, or remove it");
                    }),
                    _ => {}
                }
            }
            self.details(check);
        });
    }
}

impl XBackend {
    fn details(&self, check: &mut Check) {
        let spec = &self.spec;
        if let Some(host) = &spec.external_hostname {
            check.field("externalHostname", |check| {
                check.fits_field("hostname", Some(&host.hostname), syntax::precise_hostname);
            });
        }
        if let Some(selector) = &spec.endpoint_selector {
            check.field("endpointSelector", |check| {
                if selector.match_labels.is_empty() {
                    check.missing("matchLabels", "is empty: name a label that the pods have");
                }
            });
        }
        if let Some(persistence) = &spec.session_persistence {
            check.field("sessionPersistence", |check| {
                if spec.kind != XBackendType::EndpointSelector {
                    check.refuse("applies to type EndpointSelector: remove it");
                }
                session::session(check, persistence);
            });
        }
        if spec.protocol.is_some() {
            check.field("protocol", |check| {
                check.is_one_of(&PROTOCOLS);
            });
        }
        if let Some(given) = &spec.tls {
            check.field("tls", |check| tls(check, given));
        }
    }
}

fn tls(check: &mut Check, tls: &XBackendTls) {
    check.field("mode", |check| {
        check.is_one_of(&MODES);
    });
    let is_secure = tls.mode != XBackendTlsMode::None;
    match (is_secure, &tls.validation) {
        (true, None) => check.missing("validation", "is missing: the mode requires it"),
        (false, Some(_)) => check.field("validation", |check| {
            check.refuse("applies to another mode: change mode, or remove it");
        }),
        _ => {}
    }
    let shows = tls.mode == XBackendTlsMode::ClientAndServer;
    match (shows, &tls.client_certificate_ref) {
        (true, None) => check.missing("clientCertificateRef", "is missing: the mode requires it"),
        (false, Some(_)) => check.field("clientCertificateRef", |check| {
            check.refuse("applies to mode ClientAndServer: remove it");
        }),
        _ => {}
    }
}

const TYPES: [&str; 2] = ["EndpointSelector", "ExternalHostname"];
const PROTOCOLS: [&str; 8] = [
    "TCP", "HTTP", "HTTP2", "HTTP11", "H2C", "MCP", "GRPC", "WSS",
];
const MODES: [&str; 3] = ["None", "ServerOnly", "ClientAndServer"];
