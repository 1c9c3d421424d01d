//! Hosts that objects of a cluster contain. Users who may create these objects must not reach
//! the proxy's own ports through them, its admin server above all, nor the metadata server of its node.
//! On a machine, objects and ports belong to the same person.

use std::net::IpAddr;

use xds::model::{Hostname, is_local_address};

use super::api;
use super::referrer::Referrer;
use crate::objects::api::Resource as _;
use crate::objects::grants::Referent;
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Refuses an address that the proxy reaches on its own machine or link, and metadata servers.
pub(crate) fn check_address(reader: &Reader<'_>, address: IpAddr) -> Result<(), String> {
    if reader.is_machine() || !is_local_address(address) {
        return Ok(());
    }
    Err(format!(
        "`{address}` is a loopback, unspecified or link-local address, or one of a cloud's metadata \
         server, which leads to the proxy itself or to its node: use an address that other machines have"
    ))
}

/// Refuses a name of the proxy itself. What other names resolve to, the proxy checks.
pub(crate) fn check_name(reader: &Reader<'_>, name: &Hostname) -> Result<(), String> {
    let last = name.as_str().rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|it| it.is_ascii_digit()) {
        return Err(format!(
            "`{name}` is neither an IP address nor a DNS name, whose last part is never a number: correct it"
        ));
    }
    if reader.is_machine() || !is_in(name, "localhost") {
        return Ok(());
    }
    Err(format!(
        "`{name}` leads to the proxy itself: use the name of another host"
    ))
}

/// Refuses a socket of the proxy's pod, such as its admin server's or one of a sidecar.
pub(crate) fn check_socket(reader: &Reader<'_>) -> Result<(), String> {
    if reader.is_machine() {
        return Ok(());
    }
    let message = "a unix socket is in the proxy's own pod, so it is for files only: in a cluster use \
                   `addresses`, `dns` or a Service";
    Err(message.to_owned())
}

/// Refuses the host of a URL as [`check_address`] or [`check_name`] does.
pub(crate) fn check_url_host(reader: &Reader<'_>, host: &str) -> Result<(), String> {
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    if let Ok(address) = bare.unwrap_or(host).parse() {
        return check_address(reader, address);
    }
    match Hostname::parse_exact(&host.to_ascii_lowercase()) {
        Ok(name) => check_name(reader, &name),
        // An invalid name resolves to nothing.
        Err(_) => Ok(()),
    }
}

/// Refuses every name of the cluster, which may be that of a Service or pod of any namespace.
pub(crate) fn check_outside(reader: &Reader<'_>, name: &Hostname) -> Result<(), String> {
    if name_in_cluster(reader, name).is_none() {
        return Ok(());
    }
    let message = "a name of the cluster may lead to any Service: refer to that itself";
    Err(message.to_owned())
}

/// Refuses a Service of another namespace to the referrer, unless a ReferenceGrant permits it, as it must
/// for a route that refers to the Service. The cluster's other names, such as those of pods, are refused
/// altogether.
pub(crate) fn check_service(
    reader: &Reader<'_>,
    from: Referrer<'_>,
    name: &Hostname,
) -> Result<(), Problem> {
    let Some(inside) = name_in_cluster(reader, name) else {
        return Ok(());
    };
    let mut labels = inside.rsplit('.');
    let (Some("svc"), Some(other), Some(service)) = (labels.next(), labels.next(), labels.next())
    else {
        let message = format!(
            "`{name}` is a name of the cluster, but not of a Service: use \
             SERVICE.NAMESPACE.svc.{}",
            reader.cluster_domain().unwrap_or_default()
        );
        return Err(Problem::new(Reason::Invalid, "", message));
    };
    let to = Referent {
        group: api::Service::KIND.group(),
        kind: api::Service::KIND.name(),
        namespace: other,
        name: service,
    };
    if reader.permits(from.kind, from.namespace, to) {
        return Ok(());
    }
    let message = format!(
        "Service {other}/{service} is in another namespace: add a ReferenceGrant there from {} in `{}`",
        from.kind, from.namespace
    );
    Err(Problem::new(Reason::RefNotPermitted, "", message))
}

/// A name of the cluster, or of its set of clusters, without the domain. Names that end in `svc` are
/// completed by the search domains of pods. On a machine there are none.
fn name_in_cluster<'n>(reader: &Reader<'_>, name: &'n Hostname) -> Option<&'n str> {
    let domain = reader.cluster_domain()?;
    if is_in(name, "svc") {
        return Some(name.as_str());
    }
    [domain, CLUSTER_SET_DOMAIN].into_iter().find_map(|domain| {
        let start = name.as_str().strip_suffix(domain);
        start
            .filter(|_| is_in(name, domain))
            .map(|start| start.trim_end_matches('.'))
    })
}

/// The domain of Services that clusters export to each other (KEP-1645).
const CLUSTER_SET_DOMAIN: &str = "clusterset.local";

/// Whether a name is a domain, or in it.
fn is_in(name: &Hostname, domain: &str) -> bool {
    let start = name.as_str().strip_suffix(domain);
    start.is_some_and(|start| start.is_empty() || start.ends_with('.'))
}
