//! Accepting clients, and stopping to.

#![expect(unsafe_code, reason = "poll(2) on a listening socket")]

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use monoio::net::TcpListener;

use super::Shard;
use super::fence::fenced;
use crate::downstream::connection;
use crate::driver::Waits;
use crate::limits::{ACCEPT_LOOPS, ACCEPT_PAUSE};
use crate::net::{self, Stream};

/// The listening sockets of a shard.
#[derive(Default)]
pub(crate) struct Acceptors {
    list: RefCell<Vec<Rc<Acceptor>>>,
}

struct Acceptor {
    bind: u32,
    fd: RawFd,
    listener: TcpListener,
    stopped: Cell<bool>,
}

impl Acceptors {
    /// Accepts connections of `bind` from `socket` until told to stop.
    ///
    /// # Errors
    /// The runtime cannot take the socket over.
    pub(crate) fn listen(shard: &Rc<Shard>, bind: u32, socket: OwnedFd) -> io::Result<()> {
        let fd = socket.as_raw_fd();
        let listener = std::net::TcpListener::from(socket);
        listener.set_nonblocking(shard.waits == Waits::ForReadiness)?;
        let listener = TcpListener::from_std(listener)?;
        let acceptor = Rc::new(Acceptor {
            bind,
            fd,
            listener,
            stopped: Cell::new(false),
        });
        shard.acceptors.list.borrow_mut().push(Rc::clone(&acceptor));
        for _ in 0..ACCEPT_LOOPS {
            let (shard, acceptor) = (Rc::clone(shard), Rc::clone(&acceptor));
            monoio::spawn(async move { acceptor.run(shard).await });
        }
        Ok(())
    }

    /// Stops accepting where `which` says so of a bind, after what waits in the queue was taken:
    /// whoever is in it has a connection already, as far as he knows.
    pub(crate) async fn stop(shard: &Rc<Shard>, which: impl Fn(u32) -> bool) {
        let stopping: Vec<_> = {
            let mut list = shard.acceptors.list.borrow_mut();
            list.extract_if(.., |acceptor| which(acceptor.bind))
                .collect()
        };
        for acceptor in stopping {
            // New ones may keep coming, so the queue is emptied for a bounded time.
            for _ in 0..QUEUE_LOOKS {
                if !is_readable(acceptor.fd) || !shard.has_room() {
                    break;
                }
                monoio::time::sleep(QUEUE_PAUSE).await;
            }
            acceptor.stopped.set(true);
            // An accept must not be dropped (it would leak the connection); this ends it.
            net::shutdown(acceptor.fd, libc::SHUT_RD);
        }
    }
}

impl Acceptor {
    async fn run(&self, shard: Rc<Shard>) {
        while !self.stopped.get() {
            if !shard.has_room() {
                // Clients wait in the kernel's queue, which costs them time and us nothing.
                monoio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
            match self.listener.accept().await {
                Ok((socket, address)) => {
                    let address = canonical(address);
                    let serve = connection::serve(
                        Rc::clone(&shard),
                        Stream::tcp(socket),
                        address,
                        self.bind,
                    );
                    monoio::spawn(fenced(Rc::clone(&shard), serve));
                }
                Err(_) if self.stopped.get() => return,
                // One client's failure (ECONNABORTED), or no descriptors: neither ends the loop.
                Err(error) => {
                    shard.counters.accept_errors.add(1);
                    if error.raw_os_error() != Some(libc::ECONNABORTED) {
                        monoio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
    }
}

/// IPv4 peers of a socket for both families come as IPv6: back to what they are.
fn canonical(mut address: std::net::SocketAddr) -> std::net::SocketAddr {
    address.set_ip(address.ip().to_canonical());
    address
}

/// How often the queue of a socket that stops is looked at, and the pause between: 100 ms in all.
const QUEUE_LOOKS: u32 = 100;
const QUEUE_PAUSE: Duration = Duration::from_millis(1);

fn is_readable(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the pointer names one live `pollfd`, and the call does not wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 && poll.revents & libc::POLLIN != 0 }
}
