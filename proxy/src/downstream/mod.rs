//! Clients' connections: from accept to close, and the requests that come over them.

pub(crate) mod connection;
mod h1;
pub(crate) mod h2;
mod open;
pub(crate) mod proxy_protocol;
pub(crate) mod tls;

use std::rc::Rc;

use crate::exchange::Proxy;

use self::h2::tasks::StreamTasks;

/// The state of a shard about client connections.
pub(crate) struct Downstream {
    pub(crate) proxy: Rc<Proxy>,
    /// Tasks of HTTP/2 streams that have none at the moment.
    pub(crate) stream_tasks: StreamTasks,
}

impl Downstream {
    /// No connections.
    pub(crate) fn new(proxy: Rc<Proxy>) -> Self {
        Self {
            proxy,
            stream_tasks: StreamTasks::default(),
        }
    }
}
