//! Client connections from accept to close, and the requests on them.

pub(crate) mod connection;
mod h1;
pub(crate) mod h2;
mod open;
pub(crate) mod proxy_protocol;
pub(crate) mod tls;

use std::rc::Rc;

use crate::exchange::Proxy;

use self::h2::tasks::StreamTasks;

/// The per-shard state of client connections.
pub(crate) struct Downstream {
    pub(crate) proxy: Rc<Proxy>,
    /// Idle tasks of HTTP/2 streams.
    pub(crate) stream_tasks: StreamTasks,
}

impl Downstream {
    pub(crate) fn new(proxy: Rc<Proxy>) -> Self {
        Self {
            proxy,
            stream_tasks: StreamTasks::default(),
        }
    }
}
