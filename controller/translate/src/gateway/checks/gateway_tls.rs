//! TLS of a whole Gateway.

use crate::files::check::Check;
use crate::gateway::api::{FrontendTls, FrontendTlsConfig, GatewayTls};
use crate::objects::checks::reference;
use crate::objects::kinds::ObjectKind;

/// The TLS settings of a Gateway for all listeners and backends.
pub(crate) fn tls(check: &mut Check, tls: &GatewayTls) {
    let backend = tls.backend.as_ref();
    if let Some(certificate) = backend.and_then(|it| it.client_certificate_ref.as_ref()) {
        check.field("backend", |check| {
            check.field("clientCertificateRef", |check| {
                reference::secret(check, certificate);
            });
        });
    }
    if let Some(given) = &tls.frontend {
        check.field("frontend", |check| frontend(check, given));
    }
}

fn frontend(check: &mut Check, given: &FrontendTls) {
    check.field("default", |check| config(check, &given.default));
    check.at_most("perPort", given.per_port.len(), MAX_PORTS);
    check.distinct("perPort", &given.per_port, "port", |it| Some(it.port));
    check.each("perPort", &given.per_port, |check, it| {
        check.field("tls", |check| config(check, &it.tls));
    });
}

fn config(check: &mut Check, given: &FrontendTlsConfig) {
    let Some(validation) = &given.validation else {
        return;
    };
    check.field("validation", |check| {
        let references = &validation.ca_certificate_refs;
        if references.is_empty() {
            check.missing(
                "caCertificateRefs",
                "is required: name a ConfigMap with the CA certificates for clients",
            );
        }
        check.at_most("caCertificateRefs", references.len(), MAX_REFERENCES);
        check.each("caCertificateRefs", references, |check, given| {
            reference::object(check, given);
            let kind = ObjectKind::find(&given.group, &given.kind);
            if kind == Some(ObjectKind::ClusterTrustBundle) && given.namespace.is_some() {
                let text =
                    "does not apply to a ClusterTrustBundle, which is cluster-scoped: remove it";
                check.field("namespace", |check| check.refuse(text));
            }
        });
    });
}

const MAX_PORTS: usize = 64;
const MAX_REFERENCES: usize = 16;
