//! Client validation of a Gateway: `spec.tls.frontend`.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use xds::model::{ClientAuth, ObjectName};

use super::api::{
    FrontendTlsConfig, FrontendValidation, FrontendValidationMode, Gateway, GatewaySpec,
};
use crate::expiry::Expiries;
use crate::objects::authority::InvalidAuthority;
use crate::objects::grants::Referent;
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// The client validation of each port.
#[derive(Debug, PartialEq)]
pub(crate) struct ClientValidation {
    default: Validated,
    per_port: BTreeMap<NonZeroU16, Validated>,
}

/// The client validation of a port, with problems.
#[derive(Debug, PartialEq)]
pub(crate) struct Validated {
    /// `None` if no CA certificate is valid: connections must be rejected then.
    pub(crate) client_auth: Option<ClientAuth>,
    /// References that do not resolve.
    pub(crate) refs: Vec<Problem>,
    /// CA certificates that have expired, which are used nonetheless.
    pub(crate) expiries: Expiries,
}

impl ClientValidation {
    pub(crate) fn of(reader: &Reader<'_>, gateway: &ObjectName, spec: &GatewaySpec) -> Self {
        let frontend = spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref());
        let validated = |config: &FrontendTlsConfig, field: String| {
            let validation = config.validation.as_ref();
            validation.map_or_else(Validated::nothing, |validation| {
                let field = format!("spec.tls.frontend.{field}.validation");
                validate(reader, gateway, validation, &field)
            })
        };
        let per_port = frontend.into_iter().flat_map(|it| &it.per_port).enumerate();
        Self {
            default: frontend.map_or_else(Validated::nothing, |it| {
                validated(&it.default, "default".to_owned())
            }),
            per_port: per_port
                .map(|(index, it)| (it.port, validated(&it.tls, format!("perPort[{index}].tls"))))
                .collect(),
        }
    }

    /// The validation of a port.
    pub(crate) fn at(&self, port: NonZeroU16) -> &Validated {
        self.per_port.get(&port).unwrap_or(&self.default)
    }
}

impl Validated {
    fn nothing() -> Self {
        Self {
            client_auth: Some(ClientAuth::None),
            refs: Vec::new(),
            expiries: Expiries::default(),
        }
    }
}

/// Uses the certificates of the valid references.
fn validate(
    reader: &Reader<'_>,
    gateway: &ObjectName,
    validation: &FrontendValidation,
    field: &str,
) -> Validated {
    let namespace = &*gateway.namespace;
    let (mut roots, mut refs) = (Vec::new(), Vec::new());
    let mut expiries = Expiries::default();
    for (index, reference) in validation.ca_certificate_refs.iter().enumerate() {
        let to = Referent {
            group: &reference.group,
            kind: &reference.kind,
            namespace: reference.namespace.as_deref().unwrap_or(namespace),
            name: &reference.name,
        };
        let field = format!("{field}.caCertificateRefs[{index}]");
        match reader.authority::<Gateway>(namespace, to) {
            Ok(certificates) => {
                reader.record_expiries(to, &certificates, &field, &mut expiries);
                roots.extend(certificates);
            }
            Err(why) => {
                let (reason, message) = match why {
                    InvalidAuthority::Kind(message) => (Reason::InvalidCACertificateKind, message),
                    InvalidAuthority::NotPermitted(message) => (Reason::RefNotPermitted, message),
                    InvalidAuthority::Unusable(message) => {
                        (Reason::InvalidCACertificateRef, message)
                    }
                };
                refs.push(Problem::new(reason, field, message));
            }
        }
    }
    let client_auth = (!roots.is_empty()).then_some(match validation.mode {
        FrontendValidationMode::AllowValidOnly => ClientAuth::Required { roots },
        FrontendValidationMode::AllowInsecureFallback => ClientAuth::Optional { roots },
    });
    Validated {
        client_auth,
        refs,
        expiries,
    }
}

/// Whether clients without a valid certificate are allowed anywhere.
pub(crate) fn allows_unverified_clients(spec: &GatewaySpec) -> bool {
    let frontend = spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref());
    frontend.is_some_and(|frontend| {
        let per_port = frontend.per_port.iter().map(|port| &port.tls);
        let mut configs = per_port.chain([&frontend.default]);
        configs.any(|config| {
            let validation = config.validation.as_ref();
            validation.is_some_and(|it| it.mode == FrontendValidationMode::AllowInsecureFallback)
        })
    })
}
