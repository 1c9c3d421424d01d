//! Origins that speak no HTTP: a function over each connection, or over each datagram.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::TIMEOUT;

/// An origin of connections or datagrams; stops when dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    taken: AtomicUsize,
}

impl Peer {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections or datagrams so far.
    pub(crate) fn taken(&self) -> usize {
        self.shared.taken.load(Ordering::SeqCst)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes either kind.
        drop(TcpStream::connect(self.address));
        if let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) {
            let _ = socket.send_to(b"stop", self.address);
        }
    }
}

/// A TCP origin that serves each connection with this function.
pub(crate) fn tcp_peer(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Peer {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let shared = Arc::new(Shared::default());
    let (copy, serve) = (Arc::clone(&shared), Arc::new(serve));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if copy.stopped.load(Ordering::SeqCst) {
                return;
            }
            copy.taken.fetch_add(1, Ordering::SeqCst);
            stream.set_nodelay(true).expect("a socket of ours");
            let timeout = Some(TIMEOUT * 2);
            stream.set_read_timeout(timeout).expect("above zero");
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    Peer { address, shared }
}

/// A TCP origin that echoes.
pub(crate) fn echo_peer() -> Peer {
    tcp_peer(|mut stream| {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    })
}

/// A TCP origin that sends this on each connection, and waits for its end.
pub(crate) fn greeting_peer(words: &'static str) -> Peer {
    tcp_peer(move |mut stream| {
        let _ = stream.write_all(words.as_bytes());
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

/// A UDP origin that responds to each datagram with those returned by `answer`.
pub(crate) fn udp_peer(mut answer: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Peer {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = socket.local_addr().expect("bound");
    let shared = Arc::new(Shared::default());
    let copy = Arc::clone(&shared);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 70_000];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            if copy.stopped.load(Ordering::SeqCst) {
                return;
            }
            copy.taken.fetch_add(1, Ordering::SeqCst);
            for datagram in answer(&buffer[..count]) {
                let _ = socket.send_to(&datagram, from);
            }
        }
    });
    Peer { address, shared }
}
