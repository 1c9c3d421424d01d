//! What other threads ask of a shard: a queue, and a socket that wakes the shard to look.
//!
//! A socket, because a read on it is an ordinary operation of either driver; monoio's own
//! cross-thread wakers would cost every shard an eventfd read per wake and a lock.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crossbeam::queue::SegQueue;

use crate::machine::sockets::Listening;

/// What a shard can be asked.
#[derive(Debug)]
pub enum Ask {
    /// Accept connections of a bind from this shard's one of these sockets.
    Listen {
        /// The bind's id.
        bind: u32,
        /// A socket for each shard.
        sockets: Arc<Listening>,
    },
    /// Serve a connection that another shard has accepted.
    Adopt {
        /// The bind's id.
        bind: u32,
        /// The connection.
        socket: OwnedFd,
        /// The client.
        address: SocketAddr,
    },
    /// Take what is in the accept queue of a bind, then accept no more. After a while, close its
    /// idle connections; until then whoever asks over one is told.
    Unlisten {
        /// The bind's id.
        bind: u32,
    },
    /// Answer with `Connection: close` from now on and close what is idle.
    Drain,
    /// Stop accepting, on every bind.
    StopAccepting,
    /// Something that the admin server wants to know or have.
    Admin(admin::ShardQuery),
    /// Reset what is left and end.
    Stop,
}

/// The sending end: one for each thread that asks.
#[derive(Clone)]
pub struct Inbox {
    queue: Arc<SegQueue<Ask>>,
    bell: Arc<UnixStream>,
}

/// The shard's end.
pub struct InboxReader {
    pub(crate) queue: Arc<SegQueue<Ask>>,
    pub(crate) bell: UnixStream,
}

/// Makes an inbox.
///
/// # Errors
/// No descriptors are left.
pub fn inbox() -> io::Result<(Inbox, InboxReader)> {
    let (bell, ringing) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    let queue = Arc::new(SegQueue::new());
    let reader = InboxReader {
        queue: Arc::clone(&queue),
        bell: ringing,
    };
    Ok((
        Inbox {
            queue,
            bell: Arc::new(bell),
        },
        reader,
    ))
}

impl Inbox {
    /// Leaves a question and wakes the shard.
    pub fn ask(&self, ask: Ask) {
        self.queue.push(ask);
        // A full socket means that the shard has been woken and has not looked yet.
        let _ = (&*self.bell).write(&[1]);
    }
}
