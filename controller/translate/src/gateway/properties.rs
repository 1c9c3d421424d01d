//! Resolves a Gateway of this controller, without its listeners.

use std::sync::Arc;

use xds::model::{Certificate, ObjectName};

use super::address::Addresses;
use super::allowed::AllowedNamespaces;
use super::api::{Gateway, GatewayAddress, ParametersReference};
use super::frontend::ClientValidation;
use super::tls;
use crate::budgets::Budget;
use crate::expiry::Expiries;
use crate::objects::kinds::{OWN_GROUP, ObjectKind, WrittenKind};
use crate::objects::owner::Owner;
use crate::objects::reader::Reader;
use crate::options::ListenerLimits;
use crate::route::api::DefaultScope;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// The properties of a Gateway apart from its listeners, with problems.
#[derive(Debug, PartialEq)]
pub(crate) struct GatewayProperties {
    /// Creation time, as in [`ObjectMeta::created`](crate::objects::api::ObjectMeta::created).
    pub(crate) created: i64,
    pub(crate) terms: Arc<ListenerSetTerms>,
    /// Its client certificate for backends, if any.
    pub(crate) client_certificate: Option<Result<Certificate, Problem>>,
    /// Whether that has expired.
    pub(crate) expiries: Expiries,
    pub(crate) addresses: Addresses,
    /// Why it is rejected as a whole.
    pub(crate) refusals: Vec<Problem>,
    /// Whether its listeners are carried. Independent of being programmed: a Gateway without an
    /// address, or with a mistake in its reference to parameters, keeps serving clients that still reach its
    /// proxies.
    pub(crate) is_carried: bool,
    /// What its parameters, or those of its class, say of its listeners: the last valid ones.
    pub(crate) given_limits: ListenerLimits,
    /// Most ports, with those of its ListenerSets.
    pub(crate) max_ports: u64,
    /// Most listeners of its ListenerSets.
    pub(crate) max_set_listeners: u64,
    /// Whether routes without a parent attach to it as a default Gateway.
    pub(crate) is_default: bool,
}

/// The conditions for its ListenerSets.
#[derive(Debug, PartialEq)]
pub(crate) struct ListenerSetTerms {
    /// Allowed namespaces of ListenerSets.
    pub(crate) allowed_sets: AllowedNamespaces,
    pub(crate) clients: ClientValidation,
}

impl GatewayProperties {
    pub(crate) fn resolve(reader: &Reader<'_>, name: &ObjectName, object: &Gateway) -> Self {
        let owner = Owner::Gateway(name.clone());
        let allowed = &object.spec.allowed_listeners.namespaces;
        let (from, selector) = (allowed.from, allowed.selector.as_ref());
        let terms = ListenerSetTerms {
            allowed_sets: AllowedNamespaces::of(&name.namespace, from, selector),
            clients: ClientValidation::of(reader, name, &object.spec),
        };
        let mut addresses = Addresses::of(reader, name, object);
        let mut refusals = std::mem::take(&mut addresses.refusals);
        let can_listen = !reader.is_machine() || addresses.unusable.is_empty();
        let is_carried = refusals.is_empty() && can_listen;
        // Parameters are about the workload, which stays as it was last deployed: a mistake in the
        // reference to them does not end what is served.
        if is_carried {
            refusals.extend(check_parameters(reader, name, object).err());
        }
        let mut expiries = Expiries::default();
        let given = listener_limits(reader, name, object);
        let budgets = &reader.options().budgets;
        let limit = |budget: Budget, given: Option<u64>| {
            let given = given.map(|given| given.min(budget.definition().cap));
            given.unwrap_or_else(|| budgets.of(budget))
        };
        Self {
            given_limits: given,
            max_ports: limit(Budget::GatewayPorts, given.ports),
            max_set_listeners: limit(Budget::SetListeners, given.listeners),
            created: object.metadata.created(),
            terms: Arc::new(terms),
            client_certificate: client_certificate(reader, &owner, object, &mut expiries),
            expiries,
            addresses,
            refusals,
            is_carried,
            is_default: object.spec.default_scope == DefaultScope::All,
        }
    }

    /// The addresses in its status. A mistake does not take them away: in a cluster they are those of its
    /// Service, which serves on, and a program that follows them would remove its DNS records. A machine
    /// does not listen for a Gateway that is refused for another reason than its parameters.
    pub(crate) fn reached_at(&self) -> &[GatewayAddress] {
        if self.is_carried || self.refusals.is_empty() {
            &self.addresses.reached_at
        } else {
            &self.addresses.kept
        }
    }

    /// Whether requests can reach it.
    pub(crate) fn is_served(&self) -> bool {
        self.refusals.is_empty() && self.addresses.unusable.is_empty()
    }
}

/// Resolves the client certificate for backends, `spec.tls.backend`.
fn client_certificate(
    reader: &Reader<'_>,
    owner: &Owner,
    object: &Gateway,
    expiries: &mut Expiries,
) -> Option<Result<Certificate, Problem>> {
    let backend = object.spec.tls.as_ref()?.backend.as_ref()?;
    let reference = backend.client_certificate_ref.as_ref()?;
    let found = tls::certificate(
        reader,
        owner,
        reference,
        Reason::InvalidClientCertificateRef,
    );
    let field = "spec.tls.backend.clientCertificateRef";
    if let Ok(certificate) = &found {
        let subject = (&*owner.name().namespace, reference, "backends");
        tls::record_expiry(reader, subject, certificate, field, expiries);
    }
    Some(found.map_err(|error| Problem::from(error).under(field)))
}

/// The limits of its listeners by its parameters and those of its class. While a reference to them is wrong, the
/// last valid ones stay, as for its workload.
fn listener_limits(reader: &Reader<'_>, name: &ObjectName, object: &Gateway) -> ListenerLimits {
    let parameters = parameters_ref(object);
    let is_known = parameters.is_none_or(ParametersReference::is_known);
    let parameters = parameters.map(|it| ObjectName::new(&name.namespace, &it.name));
    let class = &object.spec.gateway_class_name;
    let given = is_known.then(|| reader.listener_limits(parameters.as_ref(), class));
    given.flatten().unwrap_or_else(|| reader.last_limits(name))
}

fn parameters_ref(object: &Gateway) -> Option<&ParametersReference> {
    let infrastructure = object.spec.infrastructure.as_ref()?;
    infrastructure.parameters_ref.as_ref()
}

fn check_parameters(
    reader: &Reader<'_>,
    name: &ObjectName,
    object: &Gateway,
) -> Result<(), Problem> {
    let Some(reference) = parameters_ref(object) else {
        return Ok(());
    };
    if !reference.is_known() {
        return Err(invalid_parameters(format!(
            "{} cannot hold parameters: refer to a {PARAMETERS} of group {OWN_GROUP}",
            WrittenKind {
                group: &reference.group,
                kind: &reference.kind
            }
        )));
    }
    if reader.has_parameters(&ObjectName::new(&name.namespace, &reference.name)) {
        Ok(())
    } else {
        Err(invalid_parameters(format!(
            "{PARAMETERS} {}/{} does not exist: create it",
            name.namespace, reference.name
        )))
    }
}

fn invalid_parameters(message: String) -> Problem {
    let field = "spec.infrastructure.parametersRef";
    Problem::new(Reason::InvalidParameters, field, message)
}

const PARAMETERS: ObjectKind = ObjectKind::GatewayParameters;
