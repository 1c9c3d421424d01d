//! The gateway under test: a process with a configuration and a log.

mod builder;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::log::{Log, Reader};
use super::port::Ports;
use super::{Client, TIMEOUT, Tls, client, tls_client};

pub(crate) use builder::{Failure, GatewayBuilder, gateway};

/// A signal to a gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Signal {
    Term,
    /// Drain without the wait for endpoint removal.
    Int,
    /// The signal that makes other servers reload.
    Hup,
    /// Stops the process, until [`Signal::Continue`].
    Stop,
    Continue,
}

/// A running gateway; stopped when dropped, and it must have been alive until then.
#[derive(Debug)]
pub(crate) struct Gateway {
    child: Child,
    https: usize,
    ports: Vec<u16>,
    /// Those of them that are its own.
    held: Vec<Ports>,
    file: PathBuf,
    log: Arc<Log>,
    access_log: Arc<Log>,
    may_have_ended: bool,
    may_panic: bool,
    _folder: TempDir,
}

impl Gateway {
    /// The address of the first listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address_of(0)
    }

    /// The address of the n-th listener.
    pub(crate) fn address_of(&self, listener: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[listener]))
    }

    /// The address of its `admin`, `metrics` or `readiness` server.
    #[track_caller]
    pub(crate) fn server(&self, name: &str) -> SocketAddr {
        let prefix = format!("server=\"{name}\" address=");
        let log = self.log.waits_for(&prefix);
        let rest = log.split(&prefix).nth(1).expect("it was waited for");
        let address = rest.split_ascii_whitespace().next().expect("an address");
        address.parse().expect("an address")
    }

    /// A connection to one of its servers.
    #[track_caller]
    pub(crate) fn client_of(&self, server: &str) -> Client {
        client(self.server(server))
    }

    /// Ports of the listeners, in order.
    pub(crate) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// A connection to the first listener.
    #[track_caller]
    pub(crate) fn client(&self) -> Client {
        client(self.address())
    }

    /// The address of the HTTPS listeners.
    pub(crate) fn https_address(&self) -> SocketAddr {
        self.address_of(self.https)
    }

    /// A connection to the HTTPS listeners.
    #[track_caller]
    pub(crate) fn tls_client(&self, tls: &Tls) -> Client {
        tls_client(self.https_address(), tls)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its memory, without pages of the program, which are mapped as they are used.
    pub(crate) fn anonymous_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("our own child");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.parse::<u64>().ok())
            .expect("the kernel's format")
            * 1024
    }

    /// How many files it has open.
    pub(crate) fn open_files(&self) -> usize {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.pid()));
        folder.expect("our own child").count()
    }

    /// Prevents it from opening files, or allows it again.
    pub(crate) fn may_open_files(&self, more: bool) {
        let process = format!("/proc/{}", self.pid());
        let most = if more {
            let limits = std::fs::read_to_string(process + "/limits").expect("our own child");
            let line = limits
                .lines()
                .find_map(|line| line.strip_prefix("Max open files"));
            // The soft one, the hard one, and their unit.
            let hard = line.and_then(|line| line.split_whitespace().nth(1));
            hard.expect("the kernel's format").to_owned()
        } else {
            let is_free = |number: &u16| {
                let descriptor = format!("{process}/fd/{number}");
                std::fs::symlink_metadata(descriptor).is_err()
            };
            // The limit is about numbers, and the lowest one that is free is taken.
            (0..u16::MAX)
                .find(is_free)
                .expect("one that is free")
                .to_string()
        };
        let set = Command::new("prlimit")
            .args([
                "--pid",
                &self.pid().to_string(),
                &format!("--nofile={most}:"),
            ])
            .status();
        assert!(
            set.is_ok_and(|status| status.success()),
            "prlimit sets {most}"
        );
    }

    /// Waits until it has at most this many open files.
    #[track_caller]
    pub(crate) fn waits_for_open_files_at_most(&self, most: usize) {
        let deadline = Instant::now() + TIMEOUT;
        while self.open_files() > most {
            assert!(
                Instant::now() < deadline,
                "{} files open, not {most}",
                self.open_files()
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// Changes what the reader of its log does after the next line.
    pub(crate) fn log_reader(&self, reader: Reader) {
        self.log.reader(reader);
    }

    /// Stops reading its log and fills the pipe, so that no more bytes can be logged.
    #[track_caller]
    pub(crate) fn clogs_log(&self) {
        // Its startup lines must have been read: otherwise one of them would be the last line read.
        self.waits_for_log("configuration applied");
        self.waits_for_log(" ready ");
        let mut pipe = std::fs::OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(format!("/proc/{}/fd/2", self.pid()))
            .expect("our own child's pipe");
        self.log_reader(Reader::Stalls);
        let last = "the reader stalls\n";
        pipe.write_all(last.as_bytes()).expect("it is read so far");
        // Once this line is logged, the pipe takes no more.
        self.waits_for_log(last);
        for piece in [&[b'.'; 4096][..], b"."] {
            let full = std::iter::repeat_with(|| pipe.write(piece)).find_map(Result::err);
            let full = full.expect("it has an end");
            assert_eq!(full.kind(), std::io::ErrorKind::WouldBlock);
        }
    }

    /// Waits until the log contains this text.
    #[track_caller]
    pub(crate) fn waits_for_log(&self, words: &str) {
        self.log.waits_for(words);
    }

    /// Waits until the log contains this text this many times.
    #[track_caller]
    pub(crate) fn waits_for_log_times(&self, words: &str, times: usize) {
        let deadline = Instant::now() + TIMEOUT;
        while self.log().matches(words).count() < times {
            assert!(
                Instant::now() < deadline,
                "not {times} times:\n{}",
                self.log()
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Waits until the access log contains this text. Returns the log up to then.
    #[track_caller]
    pub(crate) fn waits_for_access_log(&self, words: &str) -> String {
        self.access_log.waits_for(words)
    }

    /// Replaces its configuration by another one's, on the same ports.
    pub(crate) fn reconfigure(&self, builder: &GatewayBuilder) {
        self.rewrite(&builder.yaml(&self.ports));
    }

    /// Replaces the text of its configuration, as an editor or a mounted volume does: by a rename.
    pub(crate) fn rewrite(&self, yaml: &str) {
        let fresh = self.file.with_extension("new");
        std::fs::write(&fresh, yaml).expect("a file in our own folder");
        std::fs::rename(&fresh, &self.file).expect("a file in our own folder");
    }

    /// Waits until it logs that a configuration of this version is in force; the first one is 1.
    #[track_caller]
    pub(crate) fn waits_for_applied(&self, version: usize) {
        self.log.waits_for(&format!("version={version} "));
    }

    /// Adds a port that the next configuration listens on.
    pub(crate) fn adds_port(&mut self) -> SocketAddr {
        let port = Ports::free(1);
        self.ports.extend(&*port);
        self.held.push(port);
        self.address_of(self.ports.len() - 1)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&mut self, signal: Signal) {
        let name = match signal {
            Signal::Term => "-TERM",
            Signal::Int => "-INT",
            Signal::Hup => "-HUP",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
        };
        self.may_have_ended |= matches!(signal, Signal::Term | Signal::Int);
        let sent = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status();
        assert!(
            sent.is_ok_and(|status| status.success()),
            "cannot signal the gateway"
        );
        if matches!(signal, Signal::Stop) {
            self.waits_until_stopped();
        }
    }

    /// A signal is delivered some time after it was sent.
    fn waits_until_stopped(&self) {
        let path = format!("/proc/{}/stat", self.child.id());
        let deadline = Instant::now() + TIMEOUT;
        let is_stopped = || {
            let stat = std::fs::read_to_string(&path).expect("our own child");
            // After the name, which is in parentheses.
            stat.rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('T'))
        };
        while !is_stopped() {
            assert!(Instant::now() < deadline, "the gateway does not stop");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// Waits until the process ends by itself.
    #[track_caller]
    pub(crate) fn waits_for_exit(&mut self) -> ExitStatus {
        self.may_have_ended = true;
        let deadline = Instant::now() + TIMEOUT * 2;
        loop {
            if let Some(status) = self.child.try_wait().expect("our own child") {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "the gateway does not end:\n{}",
                self.log()
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Waits until something accepts on the address.
    #[track_caller]
    pub(crate) fn waits_until_listening_on(&self, address: SocketAddr) {
        let deadline = Instant::now() + TIMEOUT;
        while TcpStream::connect(address).is_err() {
            assert!(
                Instant::now() < deadline,
                "nothing listens on {address}:\n{}",
                self.log()
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Waits until nothing accepts on the address.
    #[track_caller]
    pub(crate) fn waits_until_refused_on(&self, address: SocketAddr) {
        let deadline = Instant::now() + TIMEOUT;
        while TcpStream::connect(address).is_ok() {
            assert!(
                Instant::now() < deadline,
                "{address} still accepts:\n{}",
                self.log()
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Waits until it logs that its first configuration is in force: it has bound its ports then. A
    /// connection to a port would prove less, since another process may have it.
    #[track_caller]
    fn waits_until_listening(&mut self) {
        let deadline = Instant::now() + TIMEOUT * 3;
        while !self.log().contains("configuration applied") {
            if let Some(status) = self.child.try_wait().expect("our own child") {
                self.may_have_ended = true;
                panic!("the gateway ended at its start with {status}");
            }
            assert!(Instant::now() < deadline, "the gateway does not start");
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let exit_status = self.child.try_wait().expect("our own child");
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.log();
        if std::thread::panicking() {
            eprintln!("--- the gateway's log\n{log}");
            return;
        }
        assert!(
            exit_status.is_none() || self.may_have_ended,
            "the gateway ended with {exit_status:?}:\n{log}"
        );
        assert!(
            self.may_panic || !log.contains("panicked at"),
            "the gateway panicked:\n{log}"
        );
    }
}
