//! A recording origin: plain threads, a strict parser, and a script of replies.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use rustls::{ServerConfig, ServerConnection};
use socket2::{Domain, SockRef, Socket, Type};

use super::pki::Credential;
use super::reply::{Step, unscripted};
use super::tls::{Handshake, server_config};
use super::{Broken, ClientCertificates, Framing, Message, Reply, TIMEOUT, Wire};

/// An origin that responds to everything with 200 `ok` by default.
pub(crate) fn origin() -> Origin {
    Origin::start(None)
}

/// An origin that speaks TLS with this certificate, and requests client certificates or not.
pub(crate) fn tls_origin(shows: &Credential, asks: ClientCertificates<'_>) -> Origin {
    Origin::start(Some(server_config(shows, asks)))
}

/// An origin at an address where connections were refused until now.
pub(crate) fn origin_on(refusing: Socket) -> Origin {
    refusing.listen(128).expect("a bound socket");
    Origin::serve(refusing.into(), None)
}

/// An address where connections are refused for as long as the socket lives.
pub(crate) fn refused() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    // Bound but never listening: the kernel answers every SYN with a reset.
    socket
        .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
        .expect("a free port");
    let address = socket
        .local_addr()
        .expect("bound")
        .as_socket()
        .expect("an IP address");
    (socket, address)
}

/// A running origin; stops when dropped.
#[derive(Debug)]
pub(crate) struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// The thread that owns the listening socket, until it is stopped.
    accepting: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    log: Mutex<Log>,
    changed: Condvar,
    script: Mutex<Script>,
    open: Mutex<BTreeMap<usize, TcpStream>>,
    stopped: AtomicBool,
    tls: Option<Arc<ServerConfig>>,
}

#[derive(Debug, Default)]
struct Log {
    requests: Vec<Message>,
    /// How many requests were removed before the first of `requests`.
    taken: usize,
    connections: usize,
    handshakes: Vec<Handshake>,
    refusals: Vec<String>,
}

impl Log {
    /// The request of this number, unless a test has taken it out.
    fn of(&mut self, number: usize) -> Option<&mut Message> {
        self.requests.get_mut(number.checked_sub(self.taken)?)
    }
}

#[derive(Debug, Default)]
struct Script {
    on_accept: Option<Reply>,
    next: VecDeque<Reply>,
    by_path: Vec<(String, Reply)>,
    always: Option<Reply>,
}

impl Origin {
    fn start(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        Self::serve(listener, tls)
    }

    fn serve(listener: TcpListener, tls: Option<Arc<ServerConfig>>) -> Self {
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared {
            tls,
            ..Shared::default()
        });
        let copy = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || accept_all(&listener, &copy));
        Self {
            address,
            shared,
            accepting: Mutex::new(Some(accepting)),
        }
    }

    /// Sends this reply to all requests without a specific one.
    pub(crate) fn replies(self, reply: Reply) -> Self {
        self.now_replies(reply);
        self
    }

    /// Sends this reply to requests for this path (without query).
    pub(crate) fn replies_to(self, path: &str, reply: Reply) -> Self {
        self.script().by_path.push((path.to_owned(), reply));
        self
    }

    /// Sends this reply once, before any other; several are used in order.
    pub(crate) fn replies_once(self, reply: Reply) -> Self {
        self.next_replies([reply]);
        self
    }

    /// Runs this script on every new connection before it reads anything.
    pub(crate) fn on_accept(self, reply: Reply) -> Self {
        self.script().on_accept = Some(reply);
        self
    }

    /// From now on replies so.
    pub(crate) fn now_replies(&self, reply: Reply) {
        self.script().always = Some(reply);
    }

    /// The next requests get exactly these replies; earlier unused ones are dropped.
    pub(crate) fn next_replies(&self, replies: impl IntoIterator<Item = Reply>) {
        let mut script = self.script();
        script.next.extend(replies);
    }

    /// Drops replies that were meant for requests which never came.
    pub(crate) fn forgets_replies(&self) {
        self.script().next.clear();
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests so far, in order of their heads; fails if anything malformed came.
    #[track_caller]
    pub(crate) fn requests(&self) -> Vec<Message> {
        let log = self.log();
        let (requests, refusals) = (log.requests.clone(), log.refusals.clone());
        drop(log);
        assert!(
            refusals.is_empty(),
            "the origin was sent malformed bytes: {refusals:?}"
        );
        requests
    }

    /// Removes the requests so far from the log, and reports about malformed ones.
    pub(crate) fn take(&self) -> (Vec<Message>, Vec<String>) {
        let mut log = self.log();
        log.taken += log.requests.len();
        (
            std::mem::take(&mut log.requests),
            std::mem::take(&mut log.refusals),
        )
    }

    /// The only request so far.
    #[track_caller]
    pub(crate) fn only_request(&self) -> Message {
        let mut requests = self.requests();
        assert_eq!(
            requests.len(),
            1,
            "exactly one request should have been received"
        );
        requests.remove(0)
    }

    /// Waits until this many request heads were received.
    #[track_caller]
    pub(crate) fn waits_for_requests(&self, count: usize) -> Vec<Message> {
        self.wait_until(|log| log.requests.len() >= count);
        self.requests()
    }

    /// Waits until this many requests were received with complete bodies.
    #[track_caller]
    pub(crate) fn waits_for_complete(&self, count: usize) -> Vec<Message> {
        self.wait_until(|log| log.requests.iter().filter(|r| r.complete).count() >= count);
        self.requests()
    }

    /// How many connections were accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.log().connections
    }

    /// Completed TLS handshakes.
    pub(crate) fn handshakes(&self) -> Vec<Handshake> {
        self.log().handshakes.clone()
    }

    /// How many connections are open now.
    pub(crate) fn open_connections(&self) -> usize {
        self.shared.open.lock().expect("no holder panics").len()
    }

    /// Waits until every connection has ended.
    #[track_caller]
    pub(crate) fn waits_for_hangup(&self) {
        let guard = self.log();
        let (_guard, timeout) = self
            .shared
            .changed
            .wait_timeout_while(guard, TIMEOUT, |_| self.open_connections() > 0)
            .expect("no holder panics");
        assert!(
            !timeout.timed_out(),
            "the gateway kept its connection to the origin"
        );
    }

    /// Stops: every connection is closed immediately, new ones are refused.
    pub(crate) fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let accepting = self.accepting.lock().expect("no holder panics").take();
        // Wakes the accepting thread, which then drops the listening socket: before that, a
        // connection would be accepted, only to be reset.
        if let Some(accepting) = accepting
            && TcpStream::connect(self.address).is_ok()
        {
            let _ = accepting.join();
        }
        for stream in self.shared.open.lock().expect("no holder panics").values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    #[track_caller]
    fn wait_until(&self, holds: impl Fn(&Log) -> bool) {
        let guard = self.log();
        let (guard, _) = self
            .shared
            .changed
            .wait_timeout_while(guard, TIMEOUT, |log| !holds(log))
            .expect("no holder panics");
        let held = holds(&guard);
        drop(guard);
        assert!(held, "the origin received only {:?}", self.requests());
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.shared.log.lock().expect("no holder panics")
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.shared.script.lock().expect("no holder panics")
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept_all(listener: &TcpListener, shared: &Arc<Shared>) {
    for (number, stream) in listener.incoming().enumerate() {
        let Ok(stream) = stream else { continue };
        if shared.stopped.load(Ordering::SeqCst) {
            // A gateway that is being started elsewhere may have a copy of the socket until its
            // exec, so closing ours would not refuse connections.
            let _ = SockRef::from(listener).shutdown(Shutdown::Both);
            return;
        }
        let Ok(copy) = stream.try_clone() else {
            continue;
        };
        shared
            .open
            .lock()
            .expect("no holder panics")
            .insert(number, copy);
        shared.log.lock().expect("no holder panics").connections += 1;
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            let mut wire = Wire::new(stream);
            if let Some(config) = &shared.tls {
                let tls = ServerConnection::new(Arc::clone(config)).expect("a valid configuration");
                wire = wire.over_tls(tls);
            }
            let mut connection = Connection {
                number,
                shared: &shared,
                wire,
            };
            connection.serve();
            let wire = connection.wire;
            // The copy goes first, so that dropping the wire really closes (or resets) it.
            shared
                .open
                .lock()
                .expect("no holder panics")
                .remove(&number);
            drop(wire);
            drop(shared.log.lock());
            shared.changed.notify_all();
        });
    }
}

struct Connection<'a> {
    number: usize,
    shared: &'a Shared,
    wire: Wire,
}

/// A request whose head has been read.
struct Request {
    /// Its number among all that the origin got.
    number: usize,
    head: Message,
}

/// Whether a connection continues after a step.
#[derive(PartialEq, Eq)]
enum AfterStep {
    GoOn,
    End,
}

impl Connection<'_> {
    fn serve(&mut self) {
        // An idle upstream connection may live as long as the test.
        self.wire.wait_at_most(TIMEOUT * 6);
        if self.wire.handshake().is_err() {
            return;
        }
        if self.shared.tls.is_some() {
            let handshake = Handshake::of(self.wire.tls());
            self.log().handshakes.push(handshake);
        }
        let greeting = self
            .shared
            .script
            .lock()
            .expect("no holder panics")
            .on_accept
            .clone();
        if greeting.is_some_and(|reply| self.run(&reply, None) == AfterStep::End) {
            return;
        }
        loop {
            let head = match self.wire.head() {
                Ok(Some(head)) => head,
                Err(Broken::Malformed(what)) => return self.refuse(what),
                Ok(None) | Err(_) => return,
            };
            let Ok(framing) = head.request_framing() else {
                return self.refuse(head.to_string());
            };
            let last = head.says_close();
            let reply = self.choose(&head);
            let request = self.record(head, framing);
            if self.run(&reply, Some(&request)) == AfterStep::End || last {
                return;
            }
        }
    }

    fn choose(&self, head: &Message) -> Reply {
        let mut script = self.shared.script.lock().expect("no holder panics");
        if let Some(reply) = script.next.pop_front() {
            return reply;
        }
        let path = head.target().split('?').next();
        let own = script
            .by_path
            .iter()
            .find(|(p, _)| Some(p.as_str()) == path);
        own.map(|(_, reply)| reply)
            .or(script.always.as_ref())
            .cloned()
            .unwrap_or_else(|| unscripted(head.method()))
    }

    fn record(&self, mut head: Message, framing: Framing) -> Request {
        head.framing = framing;
        head.complete = framing == Framing::Nothing || framing == Framing::Length(0);
        head.connection = self.number;
        let mut log = self.shared.log.lock().expect("no holder panics");
        log.requests.push(head.clone());
        self.shared.changed.notify_all();
        Request {
            number: log.taken + log.requests.len() - 1,
            head,
        }
    }

    fn run(&mut self, reply: &Reply, request: Option<&Request>) -> AfterStep {
        for step in &reply.steps {
            let done = match step {
                Step::ReadBody => self.read_body(request),
                Step::ReadSome(count) => self.wire.exactly(*count, &mut Vec::new()),
                Step::Send(bytes) => self.wire.write(bytes),
                Step::Pour(count, tally) => self.pour(*count, tally),
                Step::Arrive(tally) => self.wire.rest_unread().map(|()| tally.add(1)),
                Step::Wait(gate) => gate.pass().then_some(()).ok_or(Broken::Late),
                Step::Echo => self.echo(),
                Step::Stall => self.swallow(),
                Step::Close => {
                    self.wire.finish();
                    Err(Broken::Closed)
                }
                Step::Cut => Err(Broken::Closed),
                Step::Reset => {
                    self.wire.arm_reset();
                    Err(Broken::Closed)
                }
            };
            match done {
                Ok(()) => {}
                Err(Broken::Malformed(what)) => {
                    self.refuse(what);
                    return AfterStep::End;
                }
                Err(_) => return AfterStep::End,
            }
        }
        AfterStep::GoOn
    }

    /// Reads the body of a request, and puts both in the log unless a test has taken the request.
    fn read_body(&mut self, request: Option<&Request>) -> Result<(), Broken> {
        let Some(request) = request else {
            return Ok(());
        };
        let mut message = request.head.clone();
        // A client that expects `100 Continue` gets it (RFC 9110 section 10.1.1).
        if message.has("Expect") {
            self.wire.write(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let framing = message.framing;
        let read = self.wire.body(&mut message, framing);
        if let Some(slot) = self.log().of(request.number) {
            *slot = message;
        }
        self.shared.changed.notify_all();
        read
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.shared.log.lock().expect("no holder panics")
    }

    fn pour(&mut self, count: usize, tally: &super::ByteCounter) -> Result<(), Broken> {
        let zeros = [0; 16 * 1024];
        let mut left = count;
        while left > 0 {
            let written = self.wire.write_some(&zeros[..left.min(zeros.len())])?;
            tally.add(written);
            left -= written;
        }
        Ok(())
    }

    fn echo(&mut self) -> Result<(), Broken> {
        loop {
            match self.wire.some() {
                Ok(bytes) => self.wire.write(&bytes)?,
                Err(Broken::Closed) => return Ok(()),
                Err(broken) => return Err(broken),
            }
        }
    }

    fn swallow(&mut self) -> Result<(), Broken> {
        loop {
            self.wire.some()?;
        }
    }

    fn refuse(&self, what: String) {
        self.log().refusals.push(what);
        self.shared.changed.notify_all();
    }
}
