//! UDP listeners on a shard: passes datagrams to the sessions of their clients, and responses back.
//!
//! The kernel delivers all datagrams of a client to one shard (`SO_REUSEPORT` hashes both
//! addresses). Datagrams are forwarded one by one without waiting, so a single buffer serves all.

mod session;

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use super::sessions::{Bounds, Sessions};
use crate::channel::tunnel::either;
use crate::exchange::Proxy;
use crate::failure::FailureKind;
use crate::limits::{
    ACCEPT_PAUSE, DATAGRAM_BYTES, DATAGRAMS_PER_POLL, UDP_SESSIONS, UDP_STOP_GRACE, UDP_SWEEP,
    UDP_YIELD_AFTER,
};
use crate::machine::sockets::Listening;
use crate::net::{Datagrams, Received};
use crate::shard::Shard;
use crate::shard::drain::Draining;
use crate::shard::fence::fenced;
use crate::shard::tasks::Purpose;
use crate::upstream::Upstreams;

use self::session::UdpSession;

/// The UDP listeners of a shard.
#[derive(Default)]
pub(crate) struct UdpListeners {
    list: RefCell<Vec<Rc<UdpListener>>>,
    /// Listeners that stopped receiving, and may still have sessions.
    stopping: RefCell<Vec<Weak<UdpListener>>>,
    /// The buffer for one datagram, shared by all listeners.
    memory: Rc<RefCell<Box<[u8]>>>,
}

struct UdpListener {
    bind: u32,
    socket: Datagrams,
    sessions: RefCell<Sessions<SessionKey, Rc<UdpSession>>>,
    stopped: Draining,
    memory: Rc<RefCell<Box<[u8]>>>,
    /// Keeps the port while responses are sent from it.
    _sockets: Arc<Listening>,
}

/// The key of a session: the client, and our address that it uses. The port is the listener's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SessionKey {
    client: SocketAddr,
    local: Option<IpAddr>,
}

impl UdpListeners {
    /// Receives datagrams of `bind` from the shard's own socket until stopped.
    ///
    /// # Errors
    ///
    /// The runtime cannot adopt the socket.
    pub(crate) fn listen(
        &self,
        proxy: &Rc<Proxy>,
        bind: u32,
        sockets: Arc<Listening>,
    ) -> io::Result<()> {
        let shard = &proxy.shard;
        let memory = &mut *self.memory.borrow_mut();
        if memory.is_empty() {
            *memory = vec![0; DATAGRAM_BYTES].into_boxed_slice();
        }
        let listener = Rc::new(UdpListener {
            bind,
            socket: Datagrams::bound(sockets.duplicate(shard.id)?)?,
            sessions: RefCell::new(Sessions::new(bounds(shard, None))),
            stopped: Draining::default(),
            memory: Rc::clone(&self.memory),
            _sockets: sockets,
        });
        self.list.borrow_mut().push(Rc::clone(&listener));
        let taking = Rc::clone(&listener).receive_datagrams(Rc::clone(proxy));
        monoio::spawn(fenced(shard, Purpose::Accept(bind), taking));
        let sweeping = listener.end_idle_sessions(Rc::clone(shard));
        monoio::spawn(fenced(shard, Purpose::Accept(bind), sweeping));
        Ok(())
    }

    /// Stops receiving on the binds selected by `which`. Responses still pass for a moment.
    pub(crate) fn stop(&self, which: impl Fn(u32) -> bool) {
        let mut list = self.list.borrow_mut();
        let mut stopping = self.stopping.borrow_mut();
        stopping.retain(|listener| listener.strong_count() > 0);
        for listener in list.extract_if(.., |listener| which(listener.bind)) {
            listener.stopped.begin();
            stopping.push(Rc::downgrade(&listener));
        }
    }

    /// Ends every session. Returns how many there were.
    pub(crate) fn end_sessions(&self) -> usize {
        self.stop(|_| true);
        let stopping = self.stopping.borrow();
        let listeners = stopping.iter().filter_map(Weak::upgrade);
        listeners.map(|listener| listener.end_sessions()).sum()
    }
}

impl UdpListener {
    async fn receive_datagrams(self: Rc<Self>, proxy: Rc<Proxy>) {
        while !self.stopped.get() {
            let waited = either(self.socket.readable(), self.stopped.wait()).await;
            if waited.is_err() {
                monoio::time::sleep(ACCEPT_PAUSE).await;
            }
            let mut taken = 0;
            while taken < DATAGRAMS_PER_POLL && !self.stopped.get() {
                if !self.receive_datagram(&proxy) {
                    break;
                }
                taken += 1;
            }
            if taken == DATAGRAMS_PER_POLL {
                // Readiness is immediate while more is queued: yield.
                proxy.shard.turns.yield_turn().await;
            }
        }
    }

    /// Receives a datagram, if there is one, and forwards it.
    fn receive_datagram(self: &Rc<Self>, proxy: &Rc<Proxy>) -> bool {
        let mut memory = self.memory.borrow_mut();
        let received = match self.socket.receive(&mut memory) {
            Ok(received) => received,
            // Other errors may persist, so yield.
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        let dropped = match memory.get(..received.len) {
            Some(bytes) if !received.is_cut => self.send_on(proxy, bytes, received).err(),
            _ => Some(FailureKind::DatagramCut),
        };
        if let Some(kind) = dropped {
            proxy.shard.counters.dropped_datagrams.count(kind);
        }
        true
    }

    fn send_on(
        self: &Rc<Self>,
        proxy: &Rc<Proxy>,
        bytes: &[u8],
        received: Received,
    ) -> Result<(), FailureKind> {
        let key = SessionKey {
            client: received.from,
            local: received.to,
        };
        let known = self
            .sessions
            .borrow_mut()
            .touch(&key, proxy.shard.now())
            .cloned();
        let session = match known {
            Some(session) => session,
            None => self.begin_session(proxy, key)?,
        };
        match session.send(&proxy.upstreams, bytes) {
            // The error of an earlier datagram: this one may succeed at another endpoint.
            Err(FailureKind::ConnectFailed) => self
                .begin_session(proxy, key)?
                .send(&proxy.upstreams, bytes),
            sent => sent,
        }
    }

    fn begin_session(
        self: &Rc<Self>,
        proxy: &Rc<Proxy>,
        key: SessionKey,
    ) -> Result<Rc<UdpSession>, FailureKind> {
        // Before a session would give way.
        session::admit(proxy, self.bind, key)?;
        let gives_way = self.sessions.borrow_mut().make_room(proxy.shard.now());
        let gives_way = gives_way.map_err(|_| FailureKind::SessionsFull)?;
        if let Some(session) = gives_way {
            session.end(FailureKind::SessionsFull);
        }
        let session = Rc::new(UdpSession::begin(proxy, self.bind, key)?);
        let bounds = bounds(&proxy.shard, session.idle_timeout());
        let mut sessions = self.sessions.borrow_mut();
        sessions.set_bounds(bounds);
        sessions.insert(key, Rc::clone(&session), proxy.shard.now());
        let responses =
            Rc::clone(self).forward_responses(Rc::clone(proxy), Rc::clone(&session), key);
        monoio::spawn(fenced(
            &proxy.shard,
            Purpose::Connection(key.client),
            responses,
        ));
        Ok(session)
    }

    /// Forwards the endpoint's datagrams to the client until the session ends.
    async fn forward_responses(
        self: Rc<Self>,
        proxy: Rc<Proxy>,
        session: Rc<UdpSession>,
        key: SessionKey,
    ) {
        let shard = &proxy.shard;
        while session.is_open() {
            session.readable().await;
            let mut taken = 0;
            while taken < DATAGRAMS_PER_POLL
                && self.forward_response(&proxy.upstreams, &session, key)
            {
                taken += 1;
            }
            if taken == DATAGRAMS_PER_POLL {
                shard.turns.yield_turn().await;
            }
        }
        let mut sessions = self.sessions.borrow_mut();
        // Another session of the same client may have replaced it.
        if let Some(present) = sessions.remove(&key)
            && !Rc::ptr_eq(&present, &session)
        {
            sessions.insert(key, present, shard.now());
        }
        drop(sessions);
        session.finish(shard, key.client.ip().to_canonical());
    }

    /// Forwards a response, if there is one.
    fn forward_response(
        &self,
        upstreams: &Upstreams,
        session: &UdpSession,
        key: SessionKey,
    ) -> bool {
        let mut memory = self.memory.borrow_mut();
        let Some(length) = session.receive(upstreams, &mut memory) else {
            return false;
        };
        let shard = &upstreams.shard;
        self.sessions
            .borrow_mut()
            .record_response(&key, shard.now());
        let response = memory.get(..length).unwrap_or_default();
        let sent = self.socket.send_from(response, key.local, key.client);
        match sent {
            Ok(()) => session.record_response(length),
            Err(_) => shard
                .counters
                .dropped_datagrams
                .count(FailureKind::ClientStalled),
        }
        true
    }

    /// Periodically ends idle sessions; at the end, all of them.
    async fn end_idle_sessions(self: Rc<Self>, shard: Rc<Shard>) {
        while !self.stopped.get() {
            monoio::time::sleep(UDP_SWEEP).await;
            while let Some(session) = self.next_quiet(&shard) {
                session.end_in_order();
            }
        }
        monoio::time::sleep(UDP_STOP_GRACE).await;
        self.end_sessions();
    }

    fn end_sessions(&self) -> usize {
        let left: Vec<_> = self.sessions.borrow_mut().drain().collect();
        for session in &left {
            session.end_in_order();
        }
        left.len()
    }

    fn next_quiet(&self, shard: &Shard) -> Option<Rc<UdpSession>> {
        self.sessions.borrow_mut().expire(shard.now())
    }
}

fn bounds(shard: &Shard, idle: Option<Duration>) -> Bounds {
    Bounds {
        max: UDP_SESSIONS.min(shard.room() / 2),
        idle: idle.unwrap_or(Duration::MAX),
        yields_after: UDP_YIELD_AFTER,
    }
}
