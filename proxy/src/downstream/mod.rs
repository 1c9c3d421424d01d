//! Client connections from accept to close, and the requests on them.

pub(crate) mod connection;
mod h1;
pub(crate) mod h2;
mod open;
pub(crate) mod proxy_protocol;
pub(crate) mod tls;

use std::rc::Rc;

use crate::exchange::Proxy;
use crate::http2::{self, Http2Engine};

use self::h2::tasks::StreamTasks;

/// The per-shard state of client connections.
pub(crate) struct Downstream {
    pub(crate) proxy: Rc<Proxy>,
    /// Idle tasks of HTTP/2 streams.
    pub(crate) stream_tasks: StreamTasks,
    /// What HTTP/2 connections share.
    pub(crate) http2_memory: Rc<http2::engine::Memory>,
    pub(crate) http2_engine: Http2Engine,
}

impl Downstream {
    pub(crate) fn new(proxy: Rc<Proxy>, http2_engine: Http2Engine) -> Self {
        Self {
            proxy,
            stream_tasks: StreamTasks::default(),
            http2_memory: Rc::default(),
            http2_engine,
        }
    }
}
