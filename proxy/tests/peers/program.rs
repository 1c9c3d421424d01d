//! Other programs: starting and stopping them.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::support::{Ports, TIMEOUT};

/// A running server; stopped when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    _ports: Ports,
}

impl Server {
    /// Starts the command for a port, and waits until it accepts connections there.
    #[track_caller]
    pub(crate) fn start(command: impl FnOnce(u16) -> Command) -> Self {
        let ports = Ports::free(1);
        let port = ports[0];
        let mut command = command(port);
        let name = command.get_program().to_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child =
            child.unwrap_or_else(|error| panic!("install {} first: {error}", name.display()));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut server = Self {
            child,
            address,
            _ports: ports,
        };
        server.wait_until_listening();
        server
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    #[track_caller]
    fn wait_until_listening(&mut self) {
        let deadline = Instant::now() + TIMEOUT * 3;
        while TcpStream::connect(self.address).is_err() {
            let exit_status = self.child.try_wait().expect("our own child");
            assert!(
                exit_status.is_none(),
                "the peer ended at its start with {exit_status:?}"
            );
            assert!(
                Instant::now() < deadline,
                "nothing listens on {}",
                self.address
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One of our programs that need another interpreter.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/peers/programs")
        .join(name)
}

/// Runs a command, which must succeed. Returns its output.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = output(command);
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{printed}",
        output.status
    );
    printed
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn output(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| {
        panic!("install {} first: {error}", command.get_program().display())
    })
}

/// The folder of executables of a Python with the packages that we name.
#[track_caller]
pub(crate) fn python() -> PathBuf {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MAKING.lock();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    if !folder.join("bin/pip").exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder));
    }
    let install = [
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--requirement",
    ];
    run(Command::new(folder.join("bin/pip"))
        .args(install)
        .arg(file("python.txt")));
    folder.join("bin")
}
