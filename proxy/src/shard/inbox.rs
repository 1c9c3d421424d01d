//! Messages from other threads to a shard: a queue, and a socket that wakes the shard.
//!
//! A socket, because reading it is an ordinary operation of either driver; monoio's own
//! cross-thread wakers would cost every shard an eventfd read per wake-up and a lock.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crossbeam::queue::SegQueue;

use crate::machine::sockets::Listening;
use crate::names::Interned;

/// A message to a shard.
#[derive(Debug)]
pub enum ShardMessage {
    /// Accept connections of a bind from this shard's one of these sockets.
    Listen {
        /// Index of the bind.
        bind: u32,
        /// One socket for each shard.
        sockets: Arc<Listening>,
    },
    /// Serve a connection accepted by another shard.
    Adopt {
        /// Index of the bind.
        bind: u32,
        /// Socket that another shard accepted.
        socket: OwnedFd,
        /// Address of the client.
        address: SocketAddr,
    },
    /// Accept what is in the queue of a bind, then stop accepting. After a grace period, close its
    /// idle connections; until then requests on them get an error response.
    Unlisten {
        /// Index of the bind.
        bind: u32,
    },
    /// A drain will follow: load balancers that ask are told.
    AnnounceDrain,
    /// Respond with `Connection: close` from now on, and close idle connections.
    Drain,
    /// Stop accepting on every bind.
    StopAccepting,
    /// Close an idle connection to an endpoint: a request of another shard waits for one.
    FreeEndpoint(Interned),
    /// A connection to an endpoint was closed: a request that waits for one may open it.
    EndpointFreed(Interned),
    /// A query of the admin server.
    Admin(admin::ShardQuery),
    /// Reset the remaining connections and end.
    Stop,
}

/// The sending end; each sending thread has one.
#[derive(Clone)]
pub struct Inbox {
    queue: Arc<SegQueue<ShardMessage>>,
    wake_socket: Arc<UnixStream>,
}

/// The receiving end, for the shard.
pub struct InboxReader {
    pub(crate) queue: Arc<SegQueue<ShardMessage>>,
    pub(crate) wake_socket: UnixStream,
}

/// Creates an inbox.
///
/// # Errors
///
/// No descriptors are left.
pub fn inbox() -> io::Result<(Inbox, InboxReader)> {
    let (wake_socket, wake_receiver) = UnixStream::pair()?;
    wake_socket.set_nonblocking(true)?;
    let queue = Arc::new(SegQueue::new());
    let reader = InboxReader {
        queue: Arc::clone(&queue),
        wake_socket: wake_receiver,
    };
    Ok((
        Inbox {
            queue,
            wake_socket: Arc::new(wake_socket),
        },
        reader,
    ))
}

impl Inbox {
    /// Sends a message and wakes the shard.
    pub fn send(&self, message: ShardMessage) {
        self.queue.push(message);
        // If the socket is full, the shard has been woken already.
        let _ = (&*self.wake_socket).write(&[1]);
    }
}
