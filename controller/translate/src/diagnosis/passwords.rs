//! Passwords that others can learn: by hashes that are guessed fast, or from connections in plain text.

use xds::model::ObjectName;

use super::view::View;
use super::{Diagnosis, finding};
use crate::gateway::api::{Gateway, Listener};
use crate::gateway::offer::ListenerOffer;
use crate::level::Level;
use crate::objects::kinds::ObjectKind;
use crate::objects::object_ref::ObjectRef;
use crate::objects::owner::Owner;
use crate::policy::api::{BasicAuthSpec, PolicyTargetReference, TrafficPolicy};
use crate::policy::basic_auth::PasswordFile;
use crate::policy::secrets;
use crate::status::Reason;

pub(super) fn examine(view: &View<'_>, found: &mut Vec<Diagnosis>) {
    for policy in view.store.traffic_policies.values() {
        let Some(passwords) = &policy.spec.basic_auth else {
            continue;
        };
        let object = ObjectRef::of::<TrafficPolicy>(&policy.metadata.name);
        let mut warn = |field: String, reason, text| {
            found.push(finding(&object, Level::Warning, (field, reason), text));
        };
        for (field, text) in weak_hashes(view, &policy.metadata.name.namespace, passwords) {
            warn(field, Reason::WeakHashes, text);
        }
        if let Some(listener) = plain_listener(view, policy) {
            let text = format!(
                "browsers and programs send passwords in plain text to listener `{listener}`, and no listener of the \
                 target has the protocol HTTPS: add one, and a redirect to it. If something in front ends TLS, say so \
                 by trustedSources or trustedHops of the Gateway"
            );
            warn(
                "spec.basicAuth".to_owned(),
                Reason::PlainTextPasswords,
                text,
            );
        }
    }
}

/// The references to Secrets with such hashes, and what to do.
fn weak_hashes(
    view: &View<'_>,
    namespace: &str,
    passwords: &BasicAuthSpec,
) -> Vec<(String, String)> {
    let mut weak = Vec::new();
    for (index, reference) in passwords.secret_refs.iter().enumerate() {
        let name = secrets::name(namespace, reference);
        let from = (ObjectKind::TrafficPolicy, namespace);
        // Without a grant, nothing of it is told.
        if !view.permits_reference(from, (ObjectKind::Secret, &name)) {
            continue;
        }
        let file = view.store.secrets.get(&name);
        let Some(Ok(file)) = file.map(|it| PasswordFile::of(it)) else {
            continue;
        };
        let lines = file.weak_lines();
        let which = match &lines[..] {
            [] => continue,
            [only] => format!("line {only}"),
            [first, second] => format!("lines {first} and {second}"),
            [first, others @ ..] => format!("line {first} and {} others", others.len()),
        };
        let text = format!(
            "{which} of Secret {name}: the hash is of SHA-1 or apr1, by which whoever gets the file guesses passwords \
             fast. Replace it by one of bcrypt, as `htpasswd -nB NAME` prints it"
        );
        weak.push((format!("spec.basicAuth.secretRefs[{index}]"), text));
    }
    weak
}

/// A listener of a policy's targets, if all of them are in plain text, and nothing in front is known.
fn plain_listener(view: &View<'_>, policy: &TrafficPolicy) -> Option<String> {
    let namespace = &policy.metadata.name.namespace;
    let targets = policy.spec.target_refs.iter();
    let listeners = targets.flat_map(|target| listeners(view, namespace, target));
    let listeners: Vec<(Owner, ListenerOffer)> = listeners.collect();
    let is_private = listeners.iter().any(|(owner, listener)| {
        let gateway = view.gateway_of(owner);
        listener.protocol == "HTTPS" || gateway.is_some_and(|it| has_proxy_in_front(view, &it))
    });
    let mut plain = listeners.into_iter().filter(|_| !is_private);
    plain.find_map(|(_, it)| (it.protocol == "HTTP").then_some(it.name))
}

/// The listeners by which requests come to a target.
fn listeners(
    view: &View<'_>,
    namespace: &str,
    target: &PolicyTargetReference,
) -> Vec<(Owner, ListenerOffer)> {
    let Some(object) = target.object(namespace) else {
        return Vec::new();
    };
    if let Some(owner) = Owner::new(object.kind, object.name.clone()) {
        let section = target.section_name.as_deref();
        let of_section = |it: &&Listener| section.is_none_or(|name| it.name == name);
        let listeners = view.listeners(&owner).iter().filter(of_section);
        let offers = listeners.map(|it| (owner.clone(), ListenerOffer::of(&owner, it)));
        return offers.collect();
    }
    let route = view.routes().iter().find(|route| route.object == object);
    let parents = route
        .into_iter()
        .flat_map(|it| it.owners().map(move |parent| (it, parent)));
    let accepting = parents.flat_map(|(route, (parent, owner))| {
        let accepting = view
            .accepting(route, (parent, &owner), |_| true)
            .into_iter();
        let of_owner: Vec<_> = accepting.map(|it| (owner.clone(), it)).collect();
        of_owner
    });
    accepting.collect()
}

/// Whether a Gateway trusts what is in front of it, which may end TLS.
fn has_proxy_in_front(view: &View<'_>, gateway: &ObjectName) -> bool {
    let gateway = ObjectRef::of::<Gateway>(gateway);
    let mut policies = view.store.traffic_policies.values();
    policies.any(|policy| {
        let spec = &policy.spec;
        let trusts = spec.trusted_hops.is_some()
            || spec.trusted_sources.is_some()
            || spec.proxy_protocol.is_some();
        let namespace = &policy.metadata.name.namespace;
        let mut targets = spec.target_refs.iter();
        trusts && targets.any(|it| it.object(namespace).as_ref() == Some(&gateway))
    })
}
