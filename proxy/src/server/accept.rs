//! Accepts clients, and stops accepting.

#![expect(
    unsafe_code,
    reason = "poll(2) on a listening socket, and a copy of an accepted one"
)]

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;

use monoio::net::{TcpListener, TcpStream};

use crate::downstream::{Downstream, connection};
use crate::exchange::Proxy;
use crate::failure::Failure;
use crate::limits::{
    ACCEPT_LOOPS, ACCEPT_PAUSE, ACCEPTS_PER_POLL, QUEUE_CHECKS, QUEUE_EMPTY_CHECKS, QUEUE_PAUSE,
};
use crate::machine::driver::WaitMode;
use crate::machine::sockets::{self, Listening};
use crate::names::Interned;
use crate::net::{self, Stream};
use crate::shard::Shard;
use crate::shard::fence::fenced;
use crate::shard::inbox::ShardMessage;
use crate::shard::tasks::{Purpose, listed};
use crate::trace::Tracer;

/// The listening sockets of a shard.
#[derive(Default)]
pub(super) struct Acceptors {
    list: RefCell<Vec<Rc<Acceptor>>>,
    /// Whether accepting is paused for lack of descriptors or memory; shared by all accept loops.
    paused: Rc<Cell<bool>>,
}

struct Acceptor {
    bind: u32,
    fd: RawFd,
    listener: TcpListener,
    stopped: Cell<bool>,
    /// Shared by all acceptors of the shard.
    paused: Rc<Cell<bool>>,
    /// Keeps the port while connections are accepted from it.
    _sockets: Arc<Listening>,
}

impl Acceptors {
    /// Accepts connections of `bind` from the shard's own socket until stopped.
    ///
    /// # Errors
    ///
    /// The kernel or the runtime cannot adopt the socket.
    pub(super) fn listen(
        &self,
        downstream: &Rc<Downstream>,
        bind: u32,
        sockets: Arc<Listening>,
    ) -> io::Result<()> {
        let shard = &downstream.proxy.shard;
        let socket = sockets.duplicate(shard.id)?;
        let fd = socket.as_raw_fd();
        let listener = std::net::TcpListener::from(socket);
        listener.set_nonblocking(shard.waits == WaitMode::ForReadiness)?;
        let listener = TcpListener::from_std(listener)?;
        let acceptor = Rc::new(Acceptor {
            bind,
            fd,
            listener,
            stopped: Cell::new(false),
            paused: Rc::clone(&self.paused),
            _sockets: sockets,
        });
        self.list.borrow_mut().push(Rc::clone(&acceptor));
        let purpose = Purpose::Accept(bind);
        for _ in 0..ACCEPT_LOOPS {
            let (downstream, acceptor) = (Rc::clone(downstream), Rc::clone(&acceptor));
            monoio::spawn(listed(shard, purpose, async move {
                acceptor.run(downstream).await;
            }));
        }
        Ok(())
    }

    /// Stops accepting on the binds selected by `which`, after accepting what is in the queue:
    /// those clients are already connected from their point of view.
    pub(super) async fn stop(&self, shard: &Shard, which: impl Fn(u32) -> bool) {
        let stopping: Vec<_> = {
            let mut list = self.list.borrow_mut();
            list.extract_if(.., |acceptor| which(acceptor.bind))
                .collect()
        };
        for acceptor in &stopping {
            sockets::refuse_clients(acceptor.fd);
        }
        // TCP handshakes in progress still reach the queue, and would otherwise be reset.
        let mut quiet = 0;
        for _ in 0..QUEUE_CHECKS {
            let waits = stopping.iter().any(|acceptor| is_readable(acceptor.fd));
            quiet = if waits { 0 } else { quiet + 1 };
            if quiet > QUEUE_EMPTY_CHECKS || stopping.is_empty() || !shard.has_room() {
                break;
            }
            monoio::time::sleep(QUEUE_PAUSE).await;
        }
        for acceptor in stopping {
            acceptor.stopped.set(true);
            // An accept must not be dropped (it would leak the connection); this ends it.
            net::shutdown(acceptor.fd, libc::SHUT_RD);
        }
    }
}

impl Acceptor {
    async fn run(&self, downstream: Rc<Downstream>) {
        let shard = &downstream.proxy.shard;
        let mut accepted = 0_u32;
        while !self.stopped.get() {
            if !shard.has_room() {
                if !self.paused.replace(true) {
                    shard.counters.accept_paused.increment();
                }
                // Clients wait in the kernel's queue meanwhile.
                monoio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
            self.paused.set(false);
            match self.listener.accept().await {
                Ok((socket, address)) => {
                    self.dispatch(&downstream, socket, canonical(address));
                    accepted = accepted.wrapping_add(1);
                    if accepted.is_multiple_of(ACCEPTS_PER_POLL) {
                        shard.turns.yield_turn().await;
                    }
                }
                Err(_) if self.stopped.get() => return,
                // A single client's failure (ECONNABORTED), or no descriptors: neither ends the
                // loop.
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

impl Acceptor {
    /// Serves a connection, or hands it to a shard with fewer.
    fn dispatch(&self, downstream: &Rc<Downstream>, socket: TcpStream, address: SocketAddr) {
        let shard = &downstream.proxy.shard;
        if !accepts(&downstream.proxy, self.bind, address) {
            return;
        }
        let other = shard.with_rng(|rng| shard.peers.find_less_loaded(shard.id, rng));
        if let Some(other) = other.filter(|_| !shard.draining.get())
            && let Ok(copy) = copy(&socket)
        {
            let message = ShardMessage::Adopt {
                bind: self.bind,
                socket: copy,
                address,
            };
            if shard.peers.hand_over(other, message).is_ok() {
                return;
            }
        }
        serve(downstream, self.bind, socket, address);
    }
}

/// Whether the networks that the Gateway enforces accept a client. If not, its connection is closed at once.
fn accepts(proxy: &Proxy, bind: u32, client: SocketAddr) -> bool {
    let shard = &proxy.shard;
    let snapshot = shard.config.load();
    let Some(settings) = snapshot.bind(bind) else {
        return true;
    };
    let Some(networks) = &settings.networks else {
        return true;
    };
    // Those that are accepted count with their requests.
    let result = networks.lists.check(client.ip());
    if let Err(outside) = result {
        shard.counters.networks.count(result);
        let of_bind = shard.counters.binds.of(Interned::bind(bind));
        of_bind.network_refusals.count(outside);
        if proxy.watches.are_armed() {
            let failure = Failure::from(outside).to_string();
            let why = (Some(networks), failure.as_str());
            let traces = (&proxy.watches, &**shard);
            Tracer::refused_connection(traces, (settings, snapshot.version), client.ip(), why);
        }
        if shard.logs_refusal() {
            let (port, why) = (settings.address.port(), outside.reason());
            let policy = &*networks.policy;
            tracing::info!(client = %client.ip(), port, policy, why, "refused a connection by its address; others of this second are only counted");
        }
    }
    result.is_ok()
}

/// A duplicate descriptor that belongs to no runtime.
fn copy(socket: &TcpStream) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is open for as long as the socket is borrowed.
    unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) }.try_clone_to_owned()
}

/// Serves a connection accepted by another shard.
///
/// # Errors
///
/// The runtime cannot adopt the socket.
pub(super) fn adopt(
    downstream: &Rc<Downstream>,
    bind: u32,
    socket: OwnedFd,
    address: SocketAddr,
) -> io::Result<()> {
    let shard = &downstream.proxy.shard;
    shard.peers.arrived(shard.id);
    let socket = std::net::TcpStream::from(socket);
    socket.set_nonblocking(shard.waits == WaitMode::ForReadiness)?;
    serve(downstream, bind, TcpStream::from_std(socket)?, address);
    Ok(())
}

fn serve(downstream: &Rc<Downstream>, bind: u32, socket: TcpStream, address: SocketAddr) {
    let shard = &downstream.proxy.shard;
    tracing::trace!(shard = shard.id, client = %address, "serves a connection");
    let stream = Stream::tcp(socket);
    let serve = connection::serve(Rc::clone(downstream), stream, address, bind);
    monoio::spawn(fenced(shard, Purpose::Connection(address), serve));
}

/// Maps IPv4-mapped addresses of dual-stack sockets back to IPv4.
fn canonical(mut address: SocketAddr) -> SocketAddr {
    address.set_ip(address.ip().to_canonical());
    address
}

fn is_readable(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the pointer names one live `pollfd`, and the call does not wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 && poll.revents & libc::POLLIN != 0 }
}
