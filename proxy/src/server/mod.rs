//! A running shard: its thread accepts clients, serves them, and does the housekeeping.
//!
//! This is the composition root of a shard. It creates the state of each module on top of the state
//! that the module depends on: `Shard`, `Proxy`, `Downstream`, and the listening sockets.

mod accept;
mod replies;
mod run;

use std::rc::Rc;

use crate::downstream::Downstream;
use crate::exchange::Proxy;
use crate::l4::udp::UdpListeners;
use crate::shard::Shard;

use self::accept::Acceptors;

pub(crate) use self::run::{ServerOptions, run};

/// All state of a running shard.
struct Server {
    downstream: Rc<Downstream>,
    acceptors: Acceptors,
    udp: UdpListeners,
}

impl Server {
    fn new(shard: Rc<Shard>) -> Self {
        let proxy = Rc::new(Proxy::new(shard));
        Self {
            downstream: Rc::new(Downstream::new(proxy)),
            acceptors: Acceptors::default(),
            udp: UdpListeners::default(),
        }
    }

    fn proxy(&self) -> &Rc<Proxy> {
        &self.downstream.proxy
    }

    fn shard(&self) -> &Rc<Shard> {
        &self.downstream.proxy.shard
    }

    /// Returns pooled buffers and the allocator's free pages to the system.
    fn trim_memory(&self) {
        let downstream = &self.downstream;
        let trimmed = self.proxy().scratch.trim()
            + downstream.stream_tasks.trim()
            + self.proxy().upstreams.http2_memory.trim();
        self.shard().trim_memory(trimmed);
    }
}
