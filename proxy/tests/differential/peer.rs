//! Another server, started as a reverse proxy in front of a recording origin: the requests it
//! forwards show how it parsed them.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{Origin, Ports, TIMEOUT, origin};

/// A kind of server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Its configuration or program; `@PORT@`, `@ORIGIN@` and `@FOLDER@` are filled in.
    text: &'static str,
    /// Its command line; `@FILE@` is where the text is.
    command: &'static [&'static str],
}

/// Common servers with independent HTTP/1 parsers.
pub(crate) const KINDS: [Kind; 5] = [
    Kind {
        name: "nginx",
        text: include_str!("peers/nginx.conf"),
        command: &["nginx", "-c", "@FILE@"],
    },
    Kind {
        name: "haproxy",
        text: include_str!("peers/haproxy.cfg"),
        command: &["haproxy", "-db", "-f", "@FILE@"],
    },
    Kind {
        name: "apache2",
        text: include_str!("peers/apache.conf"),
        command: &["apache2", "-X", "-f", "@FILE@"],
    },
    Kind {
        name: "node",
        text: include_str!("peers/node.js"),
        command: &["node", "@FILE@"],
    },
    Kind {
        name: "python3",
        text: include_str!("peers/python.py"),
        command: &["python3", "@FILE@"],
    },
];

/// A running server and the origin behind it; stopped when dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) origin: Origin,
    _ports: Ports,
    _folder: TempDir,
}

impl Peer {
    /// Starts it and waits until it accepts.
    pub(crate) fn start(kind: Kind) -> Self {
        let origin = origin();
        let ports = Ports::free(1);
        let port = ports[0];
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("peer");
        let text = kind
            .text
            .replace("@PORT@", &port.to_string())
            .replace("@ORIGIN@", &origin.address().to_string())
            .replace("@FOLDER@", &folder.path().to_string_lossy());
        std::fs::write(&file, text).expect("a file in our own folder");
        let arguments = kind.command[1..]
            .iter()
            .map(|word| word.replace("@FILE@", &file.to_string_lossy()));
        let child = Command::new(kind.command[0])
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("install {} first: {error}", kind.name));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut peer = Self {
            child,
            address,
            origin,
            _ports: ports,
            _folder: folder,
        };
        peer.wait_until_listening(kind.name);
        peer
    }

    fn wait_until_listening(&mut self, name: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while TcpStream::connect(self.address).is_err() {
            let exit_status = self.child.try_wait().expect("our own child");
            assert!(
                exit_status.is_none(),
                "{name} ended at its start with {exit_status:?}"
            );
            assert!(
                Instant::now() < deadline,
                "{name} does not listen on {}",
                self.address
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
