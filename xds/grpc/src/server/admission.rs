//! Limits on connections: in total, and for unauthenticated ones by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::budget::Budget;
use super::limits::{LOGGED_FAILURES, Limits};
use super::locked;

pub(super) struct Admission {
    connections: Arc<Semaphore>,
    unauthenticated: Arc<UnauthenticatedConnections>,
    logged: Mutex<LogBudget>,
}

/// Unauthenticated connections, by address.
struct UnauthenticatedConnections {
    max: usize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

struct LogBudget {
    budget: Budget,
    left_out: u64,
}

/// A slot of the total connection limit, released on drop.
#[derive(Debug)]
pub(super) struct Admitted {
    _connection: OwnedSemaphorePermit,
}

/// A slot of an address's limit of unauthenticated connections, released on drop.
pub(super) struct UnauthenticatedSlot {
    unauthenticated: Arc<UnauthenticatedConnections>,
    address: IpAddr,
}

impl Admission {
    pub(super) fn new(limits: &Limits) -> Self {
        let max = limits.connections.min(Semaphore::MAX_PERMITS);
        Self {
            connections: Arc::new(Semaphore::new(max)),
            unauthenticated: Arc::new(UnauthenticatedConnections {
                max: limits.unauthenticated,
                by_address: Mutex::default(),
            }),
            logged: Mutex::new(LogBudget {
                budget: Budget::new(LOGGED_FAILURES, LOGGED_FAILURES, Instant::now()),
                left_out: 0,
            }),
        }
    }

    /// Admits a connection, or returns why not.
    pub(super) fn admit(
        &self,
        address: IpAddr,
    ) -> Result<(Admitted, UnauthenticatedSlot), &'static str> {
        let connection = Arc::clone(&self.connections).try_acquire_owned();
        let connection = connection.map_err(|_| "the limit of connections is reached")?;
        let slot = UnauthenticatedConnections::enter(&self.unauthenticated, address);
        let slot = slot.ok_or("its address has too many unauthenticated connections")?;
        Ok((
            Admitted {
                _connection: connection,
            },
            slot,
        ))
    }

    /// Whether a failed connection may be logged, and how many log lines were suppressed since the
    /// last one.
    pub(super) fn may_log(&self) -> Option<u64> {
        let mut logged = locked(&self.logged);
        if logged.budget.take(Instant::now()) {
            return Some(std::mem::take(&mut logged.left_out));
        }
        logged.left_out = logged.left_out.saturating_add(1);
        None
    }
}

impl UnauthenticatedConnections {
    fn enter(this: &Arc<Self>, address: IpAddr) -> Option<UnauthenticatedSlot> {
        let mut by_address = locked(&this.by_address);
        let count = by_address.entry(address).or_default();
        let next = count.checked_add(1).filter(|next| *next <= this.max)?;
        *count = next;
        Some(UnauthenticatedSlot {
            unauthenticated: Arc::clone(this),
            address,
        })
    }
}

impl Drop for UnauthenticatedSlot {
    fn drop(&mut self) {
        let mut by_address = locked(&self.unauthenticated.by_address);
        if let Some(count) = by_address.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(connections: usize, unauthenticated: usize) -> Admission {
        Admission::new(&Limits {
            connections,
            unauthenticated,
            ..Limits::default()
        })
    }

    #[test]
    fn unauthenticated_connections_per_address_are_limited() {
        let admission = admission(10, 1);
        let (one, two) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let (_connection, slot) = admission.admit(one).expect("the first");
        assert!(admission.admit(one).is_err());
        assert!(admission.admit(two).is_ok(), "another address");
        drop(slot);
        assert!(admission.admit(one).is_ok(), "the first is no stranger");
        assert!(
            locked(&admission.unauthenticated.by_address).is_empty(),
            "addresses without unauthenticated connections take no memory"
        );
    }

    #[test]
    fn the_number_of_connections_is_limited() {
        let admission = admission(1, 10);
        let address = IpAddr::from([10, 0, 0, 1]);
        let first = admission.admit(address).expect("the first");
        assert!(admission.admit(address).is_err());
        drop(first);
        assert!(admission.admit(address).is_ok());
    }
}
