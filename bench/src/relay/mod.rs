//! Bare relays of TCP: bytes in one socket and out of another. They are the floor: what a proxy's
//! four socket calls per request cost when nothing is parsed. `bench relay` runs one.

mod epoll;
mod uring;

use std::net::SocketAddr;

use anyhow::Result;

/// How a relay talks to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Driver {
    /// Readiness, then read and write.
    Epoll,
    /// Completions, by the runtime that the gateway uses.
    IoUring,
}

impl Driver {
    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::IoUring => "io-uring",
        }
    }
}

/// Relays every connection to `listen` on one of its own to `to`, until killed.
pub(crate) fn run(driver: Driver, listen: SocketAddr, to: SocketAddr) -> Result<()> {
    match driver {
        Driver::Epoll => epoll::run(listen, to),
        Driver::IoUring => uring::run(listen, to),
    }
}

/// Buffer of one direction. 16 KiB doubled the cost of a 16 KiB POST.
const BUFFER: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::thread;

    use super::*;

    /// Bytes of both directions arrive whole and in order, and each end of file crosses alone.
    fn carries_both_ways(driver: Driver) {
        let echo = TcpListener::bind("127.0.0.1:0").expect("bind");
        let to = echo.local_addr().expect("address");
        let echoing = thread::spawn(move || {
            let (mut stream, _) = echo.accept().expect("accept");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("read");
            stream.write_all(&bytes).expect("write");
        });
        let listen = crate::net::free_address().expect("port");
        thread::spawn(move || run(driver, listen, to).expect("relay"));
        let mut client = loop {
            match TcpStream::connect(listen) {
                Ok(client) => break client,
                Err(_) => thread::yield_now(),
            }
        };
        let sent = crate::origin::http1::body(3_000_000);
        client.write_all(&sent).expect("send");
        client.shutdown(Shutdown::Write).expect("half-close");
        let mut back = Vec::new();
        client.read_to_end(&mut back).expect("receive");
        assert!(
            back == sent,
            "{} of {} bytes were echoed",
            back.len(),
            sent.len()
        );
        echoing.join().expect("echo");
    }

    #[test]
    fn epoll_relays_in_both_directions() {
        carries_both_ways(Driver::Epoll);
    }

    #[test]
    fn io_uring_relays_in_both_directions() {
        if uring::refused() {
            return;
        }
        carries_both_ways(Driver::IoUring);
    }
}
