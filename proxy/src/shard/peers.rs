//! The other shards of the process: their number of clients, and handing connections over.
//!
//! The kernel distributes connections by a hash, which leaves few long-lived ones uneven: of 64 on
//! two shards, one has 36 or more in every third case. So an accepting shard checks one other and
//! hands the connection over if that one has fewer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use rand::{Rng, RngExt};

use super::inbox::{Inbox, ShardMessage};
use crate::limits::{HANDOVER_GAP, HANDOVER_SHARE};
use crate::observe::counters::ShardCounters;

/// All shards of a process.
pub struct Peers(Box<[Peer]>);

struct Peer {
    /// None while its shard is not running.
    inbox: ArcSwapOption<Inbox>,
    counters: Arc<ShardCounters>,
    /// Connections handed to it and not counted by it yet.
    incoming: AtomicU64,
}

impl Peers {
    /// The shards with these counters, none of them running.
    #[must_use]
    pub fn new(counters: &[Arc<ShardCounters>]) -> Self {
        let peer = |counters: &Arc<ShardCounters>| Peer {
            inbox: ArcSwapOption::empty(),
            counters: Arc::clone(counters),
            incoming: AtomicU64::new(0),
        };
        Self(counters.iter().map(peer).collect())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Registers a started or ended shard.
    pub fn set(&self, shard: u16, inbox: Option<Inbox>) {
        if let Some(peer) = self.0.get(usize::from(shard)) {
            peer.incoming.store(0, Ordering::Relaxed);
            peer.inbox.store(inbox.map(Arc::new));
        }
    }

    /// Checks one other shard; returns it if a new connection of `shard` should move there.
    pub(crate) fn find_less_loaded(&self, shard: u16, rng: &mut impl Rng) -> Option<u16> {
        let others = u16::try_from(self.0.len()).ok()?.checked_sub(1)?;
        if others == 0 {
            return None;
        }
        let drawn = rng.random_range(0..others);
        let other = drawn + u16::from(drawn >= shard);
        let (own, theirs) = (self.load(shard)?, self.load(other)?);
        let gap = HANDOVER_GAP.max(own / HANDOVER_SHARE);
        (theirs.saturating_add(gap) <= own).then_some(other)
    }

    /// Hands a connection to another shard; returns it if that one is not running.
    pub(crate) fn hand_over(&self, shard: u16, message: ShardMessage) -> Result<(), ShardMessage> {
        let peer = self.0.get(usize::from(shard));
        let inbox = peer.and_then(|peer| peer.inbox.load_full());
        match (peer, inbox) {
            (Some(peer), Some(inbox)) => {
                peer.incoming.fetch_add(1, Ordering::Relaxed);
                inbox.send(message);
                Ok(())
            }
            _ => Err(message),
        }
    }

    /// Sends a message to the running shards selected by `which`.
    pub(crate) fn send_to(&self, which: impl Fn(u16) -> bool, message: impl Fn() -> ShardMessage) {
        for (id, peer) in (0..).zip(&self.0) {
            if which(id)
                && let Some(inbox) = &*peer.inbox.load()
            {
                inbox.send(message());
            }
        }
    }

    /// A handed-over connection is counted by this shard from now on.
    pub(crate) fn arrived(&self, shard: u16) {
        if let Some(peer) = self.0.get(usize::from(shard)) {
            let less = |incoming: u64| incoming.checked_sub(1);
            let order = Ordering::Relaxed;
            // A shard that was restarted in the meantime does not receive it.
            let _ = peer.incoming.fetch_update(order, order, less);
        }
    }

    /// Clients of a shard, including those being handed over.
    fn load(&self, shard: u16) -> Option<u64> {
        let peer = self.0.get(usize::from(shard))?;
        let incoming = peer.incoming.load(Ordering::Relaxed);
        Some(peer.counters.clients.value().saturating_add(incoming))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::Peers;
    use crate::observe::counters::ShardCounters;
    use crate::shard::inbox::{ShardMessage, inbox};

    fn peers(clients: &[u64]) -> Peers {
        let counters: Vec<Arc<ShardCounters>> = clients.iter().map(|_| Arc::default()).collect();
        for (counters, clients) in counters.iter().zip(clients) {
            counters.clients.set(*clients);
        }
        Peers::new(&counters)
    }

    fn find_less_loaded(clients: &[u64]) -> Option<u16> {
        peers(clients).find_less_loaded(0, &mut SmallRng::seed_from_u64(1))
    }

    #[test]
    fn connections_are_handed_to_shards_with_clearly_fewer() {
        assert_eq!(find_less_loaded(&[0, 0]), None);
        assert_eq!(find_less_loaded(&[1, 0]), None);
        assert_eq!(find_less_loaded(&[2, 0]), Some(1));
        assert_eq!(find_less_loaded(&[2, 5]), None);
        // With many connections, a small difference does not matter.
        assert_eq!(find_less_loaded(&[1600, 1590]), None);
        assert_eq!(find_less_loaded(&[1600, 1500]), Some(1));
    }

    #[test]
    fn a_single_shard_keeps_all_connections() {
        assert_eq!(find_less_loaded(&[1000]), None);
        assert_eq!(find_less_loaded(&[]), None);
    }

    #[test]
    fn every_other_shard_is_considered() {
        let (peers, mut rng) = (peers(&[9, 0, 0, 9, 0]), SmallRng::seed_from_u64(1));
        let mut chosen: Vec<_> = (0..200)
            .filter_map(|_| peers.find_less_loaded(3, &mut rng))
            .collect();
        chosen.sort_unstable();
        chosen.dedup();
        assert_eq!(chosen, [1, 2, 4]);
    }

    #[test]
    fn connections_in_transit_are_counted() {
        let peers = peers(&[2, 0]);
        assert!(
            peers.hand_over(1, ShardMessage::Drain).is_err(),
            "it is not running"
        );
        let (sender, _reader) = inbox().expect("descriptors");
        peers.set(1, Some(sender));
        let mut rng = SmallRng::seed_from_u64(1);
        for _ in 0..2 {
            assert!(peers.hand_over(1, ShardMessage::Drain).is_ok());
        }
        assert_eq!(peers.find_less_loaded(0, &mut rng), None);
        peers.arrived(1);
        peers.arrived(1);
        peers.arrived(1);
        assert_eq!(peers.find_less_loaded(0, &mut rng), Some(1));
    }
}
