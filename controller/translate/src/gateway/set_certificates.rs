//! The listeners of ListenerSets whose certificates a Gateway has no room for.

use xds::model::{Certificate, ListenerProtocol, ObjectName, TlsServer};

use super::listener::{Listener, ListenerConflicts};
use crate::budgets::fair_share::{Claimant, left_out};
use crate::budgets::{Budget, Limits, Use};
use crate::objects::owner::Owner;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// What the certificates of a Gateway's ListenerSets take.
pub(crate) struct CertificateRoom {
    pub(crate) used: Use,
    /// That the limit is exceeded, for the owner of the Gateway.
    pub(crate) problem: Option<Problem>,
}

/// Refuses listeners whose certificates do not fit: of each namespace those that do not serve yet, then the
/// newest. A Secret grows without a change of its listener, so one that serves has to fit too.
pub(crate) fn refuse(
    gateway: &ObjectName,
    limits: &Limits,
    listeners: &[&Listener],
    conflicts: &mut [ListenerConflicts],
    serving: impl FnOnce() -> Vec<bool>,
) -> CertificateRoom {
    let limit = limits.of(LIMIT);
    let wanted = listeners.iter().zip(&*conflicts).enumerate();
    let wanted = wanted.filter_map(|(index, (listener, conflicts))| {
        let Owner::ListenerSet(set) = &listener.owner else {
            return None;
        };
        let bytes = bytes(listener);
        let is_wanted = bytes > 0 && listener.is_claimed(conflicts);
        is_wanted.then_some((index, set, bytes))
    });
    let wanted: Vec<(usize, &ObjectName, u64)> = wanted.collect();
    let mut used = Use {
        used: wanted.iter().map(|(_, _, bytes)| bytes).sum(),
        limit,
        refused: 0,
    };
    if used.used <= limit {
        let problem = None;
        return CertificateRoom { used, problem };
    }
    let serving = serving();
    let ranked = wanted.into_iter().map(|(index, set, bytes)| {
        let is_new = serving.get(index) != Some(&true);
        ((is_new, index), set, bytes)
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_unstable_by_key(|(rank, _, _)| *rank);
    let claimants = ranked.iter().map(|(rank, set, bytes)| Claimant {
        rank,
        namespace: &set.namespace,
        wants: [*bytes],
    });
    let claimants: Vec<_> = claimants.collect();
    for (_, index) in left_out(&claimants, [LIMIT], limits).into_keys() {
        if let (Some(listener), Some(conflicts)) =
            (listeners.get(*index), conflicts.get_mut(*index))
        {
            conflicts.over_limit = Some(refusal(gateway, limit, listener));
            used.refused += 1;
        }
    }
    let message = format!(
        "the certificates of the Gateway's ListenerSets take more than its limit of {}: listeners of the \
         namespaces with most are refused. Remove some, or use smaller certificates",
        LIMIT.definition().unit.text(limit)
    );
    let problem = Some(Problem::new(Reason::TooManyListeners, "", message));
    CertificateRoom { used, problem }
}

fn refusal(gateway: &ObjectName, limit: u64, listener: &Listener) -> Problem {
    let message = format!(
        "Gateway {gateway} has no room for the certificates of this listener: those of its ListenerSets take {} \
         at most, and older ones of its namespace, and other namespaces with less, come first. Use fewer or \
         smaller certificates, or another Gateway",
        LIMIT.definition().unit.text(limit)
    );
    let field = listener.field("tls.certificateRefs");
    Problem::new(Reason::TooManyListeners, field, message)
}

/// What the certificates of a listener take, with their keys.
fn bytes(listener: &Listener) -> u64 {
    let tls = listener.carried.as_ref().and_then(ListenerProtocol::tls);
    let pairs = tls.into_iter().flat_map(TlsServer::pairs);
    let bytes = pairs.map(|Certificate { chain, key }| {
        let chain: usize = chain.iter().map(|it| it.as_bytes().len()).sum();
        chain + key.secret_der().len()
    });
    bytes.map(|bytes| bytes as u64).sum()
}

const LIMIT: Budget = Budget::SetCertificateBytes;
