//! Listening sockets of the servers.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;

use crate::address::Address;
use crate::limits::BACKLOG;

/// The sockets of one server.
#[derive(Debug, Default)]
pub struct BoundSockets {
    pub(super) tcp: Vec<TcpListener>,
    pub(super) unix: Option<UnixSocket>,
}

/// A unix socket, whose file is removed on drop.
#[derive(Debug)]
pub(super) struct UnixSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
}

/// An address cannot be bound.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: {error}")]
pub struct BindError {
    address: Address,
    /// The error of the system call.
    pub error: io::Error,
}

/// Binds an address and listens on it.
///
/// # Errors
/// The address is in use, or is not one of this machine.
pub fn bind(address: &Address) -> Result<BoundSockets, BindError> {
    let fail = |error| BindError {
        address: address.clone(),
        error,
    };
    if let Address::Unix(path) = address {
        let unix = UnixSocket::bind(path).map_err(fail)?;
        return Ok(BoundSockets {
            tcp: Vec::new(),
            unix: Some(unix),
        });
    }
    let mut bound = BoundSockets::default();
    for alternatives in address.sockets() {
        match first(&alternatives) {
            Ok(listener) => bound.tcp.push(listener),
            // One of the families of `localhost` is disabled.
            Err(error) if is_missing(&error) && !bound.tcp.is_empty() => {}
            Err(error) => return Err(fail(error)),
        }
    }
    Ok(bound)
}

impl BoundSockets {
    /// The bound addresses, with the actual port where port 0 was given.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        let tcp = self
            .tcp
            .iter()
            .filter_map(|listener| listener.local_addr().ok());
        let unix = self
            .unix
            .iter()
            .map(|unix| Address::Unix(unix.path.clone()));
        tcp.map(Address::Tcp).chain(unix).collect()
    }
}

fn first(alternatives: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut failed = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in alternatives {
        match listen(*address) {
            Ok(listener) => return Ok(listener),
            Err(error) if is_missing(&error) => failed = error,
            Err(error) => return Err(error),
        }
    }
    Err(failed)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Whether the machine lacks the address or its family.
fn is_missing(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

impl UnixSocket {
    fn bind(path: &Path) -> io::Result<Self> {
        // A killed process leaves its socket file behind, which refuses connections.
        let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        if is_socket && UnixStream::connect(path).is_err() {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        // Only our user: the admin server can shut down the process.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::bind;
    use crate::address::Address;

    #[test]
    fn a_port_in_use_is_an_error() {
        let free: Address = "127.0.0.1:0".parse().expect("an address");
        let bound = bind(&free).expect("a free port");
        let [taken] = &bound.addresses()[..] else {
            panic!("{bound:?}");
        };
        let error = bind(taken).expect_err("it is taken").to_string();
        assert!(error.contains(&taken.to_string()), "{error}");
    }

    #[test]
    fn the_unspecified_address_binds_one_dual_stack_socket() {
        let bound = bind(&"[::]:0".parse().expect("an address")).expect("a free port");
        let [Address::Tcp(address)] = &bound.addresses()[..] else {
            panic!("{bound:?}");
        };
        std::net::TcpStream::connect(("127.0.0.1", address.port())).expect("IPv4 too");
    }

    #[test]
    fn the_unix_socket_of_a_killed_process_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.sock");
        let address = Address::Unix(path.clone());
        // Its file stays, as after a kill.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
        let bound = bind(&address).expect("nothing listens");
        UnixStream::connect(&path).expect("it listens");
        bind(&address).expect_err("a socket listens");
        drop(bound);
        assert!(!path.exists());
    }
}
