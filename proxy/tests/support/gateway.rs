//! The gateway under test: a process of its own with a configuration, a log and an end.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::config::Config;
use super::log::Log;
use super::port::free_ports;
use super::{Client, Driver, Origin, PATIENCE, client};

/// A gateway with one listener `http` and nothing behind it.
pub(crate) fn gateway(driver: Driver) -> GatewayBuilder {
    let mut config = Config::default();
    config.listeners.push("http".to_owned());
    GatewayBuilder {
        driver,
        config,
        shards: 1,
        arguments: Vec::new(),
        environment: Vec::new(),
        panics: false,
    }
}

/// A gateway that was said but not started.
#[derive(Debug, Clone)]
pub(crate) struct GatewayBuilder {
    driver: Driver,
    config: Config,
    shards: usize,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    panics: bool,
}

/// A signal to a gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Signal {
    /// Drain.
    Term,
    /// Drain without the wait for endpoint removal.
    Int,
}

/// A gateway that ended by itself at its start.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// What it said.
    pub(crate) log: String,
}

impl GatewayBuilder {
    /// Everything on the listener `http` goes to this origin.
    pub(crate) fn routes_to(self, origin: &Origin) -> Self {
        self.backend("origin", &[origin.address()])
            .rule("{backendRefs: [{@origin}]}")
    }

    /// Declares a backend that rules name as `@name`.
    pub(crate) fn backend(mut self, name: &str, addresses: &[SocketAddr]) -> Self {
        self.config.backend(name, addresses);
        self
    }

    /// A rule of the listener `http`: a YAML flow mapping, `{@name}` a reference to a backend.
    pub(crate) fn rule(self, rule: &str) -> Self {
        self.rule_of("http", rule)
    }

    /// A rule of a listener.
    pub(crate) fn rule_of(mut self, listener: &str, rule: &str) -> Self {
        self.config.rule(listener, rule);
        self
    }

    /// Forgets every rule.
    pub(crate) fn without_rules(mut self) -> Self {
        self.config.without_rules();
        self
    }

    /// One more listener.
    pub(crate) fn listener(mut self, name: &str) -> Self {
        self.config.listeners.push(name.to_owned());
        self
    }

    /// Drops a listener and keeps its port for the ones after it out of use.
    pub(crate) fn without_last_listener(mut self) -> Self {
        self.config.listeners.pop();
        self
    }

    /// Limits of the whole Gateway, as in `headTimeout: 300ms, keepAliveTimeout: 1s`.
    pub(crate) fn limits(self, limits: &str) -> Self {
        self.policy(&format!("limits: {{{limits}}}"))
    }

    /// A field of a `TrafficPolicy` of the whole Gateway.
    pub(crate) fn policy(self, fields: &str) -> Self {
        self.policy_of("Gateway/gw", fields)
    }

    /// A field of a `TrafficPolicy` of a target: `Gateway/gw/http` is the first listener,
    /// `HTTPRoute/route-0` the first one's route, `HTTPRoute/route-0/name` a rule of that name.
    pub(crate) fn policy_of(mut self, target: &str, fields: &str) -> Self {
        self.config.policy(target, fields);
        self
    }

    /// One more YAML document, as it stands.
    pub(crate) fn document(mut self, yaml: &str) -> Self {
        self.config.document(yaml);
        self
    }

    /// How many shards; one unless said.
    pub(crate) fn shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }

    /// One more argument.
    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// An environment variable.
    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A panic in its log is what the test asks for.
    pub(crate) fn expecting_panics(mut self) -> Self {
        self.panics = true;
        self
    }

    /// Its YAML with listeners on these ports.
    pub(crate) fn yaml(&self, ports: &[u16]) -> String {
        self.config.yaml(ports)
    }

    /// Starts it and waits until every listener accepts.
    #[track_caller]
    pub(crate) fn start(self) -> Gateway {
        for _ in 0..ATTEMPTS {
            let ports = free_ports(self.config.listeners.len());
            let mut gateway = self.spawn(&self.yaml(&ports), ports);
            match gateway.wait_until_listening() {
                Ok(()) => return gateway,
                // Another process took the port between our look and the gateway's bind.
                Err(why) if gateway.log().to_lowercase().contains("in use") => {
                    eprintln!("trying other ports: {why}");
                    gateway.may_have_ended = true;
                }
                Err(why) => panic!("{why}\n{}", gateway.log()),
            }
        }
        panic!("no free port in {ATTEMPTS} attempts");
    }

    /// Starts it with this text for its configuration; it must end by itself.
    #[track_caller]
    pub(crate) fn fails_with(self, yaml: &str) -> Failure {
        let mut gateway = self.spawn(yaml, Vec::new());
        let status = gateway.waits_for_exit();
        Failure {
            code: status.code(),
            log: gateway.log(),
        }
    }

    /// Starts it with this text for its configuration and listeners expected on these ports.
    #[track_caller]
    pub(crate) fn start_with(self, yaml: &str, ports: &[u16]) -> Gateway {
        let mut gateway = self.spawn(yaml, ports.to_vec());
        if let Err(why) = gateway.wait_until_listening() {
            panic!("{why}\n{}", gateway.log());
        }
        gateway
    }

    fn spawn(&self, yaml: &str, ports: Vec<u16>) -> Gateway {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("gateway.yaml");
        std::fs::write(&file, yaml).expect("a file in our own folder");
        let mut child = Command::new(binary())
            .arg("run")
            .args(["--config".as_ref(), file.as_os_str()])
            .args([
                "--driver",
                self.driver.flag(),
                "--shards",
                &self.shards.to_string(),
            ])
            .args(["--access-log", "off"])
            .args(["--pin", "never"])
            .args(&self.arguments)
            .envs(self.environment.iter().cloned())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", binary().display()));
        let log = Log::of(child.stderr.take().expect("a pipe"));
        let access_log = Log::of(child.stdout.take().expect("a pipe"));
        Gateway {
            child,
            ports,
            file,
            log,
            access_log,
            may_have_ended: false,
            may_panic: self.panics,
            _folder: folder,
        }
    }
}

/// A running gateway; ended when dropped, and then it must still have been alive.
#[derive(Debug)]
pub(crate) struct Gateway {
    child: Child,
    ports: Vec<u16>,
    file: PathBuf,
    log: Arc<Log>,
    access_log: Arc<Log>,
    may_have_ended: bool,
    may_panic: bool,
    _folder: TempDir,
}

impl Gateway {
    /// Where the first listener is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address_of(0)
    }

    /// Where the n-th listener is.
    pub(crate) fn address_of(&self, listener: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[listener]))
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

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its resident memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("our own child");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
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

    /// Waits until it has no more than so many files open.
    #[track_caller]
    pub(crate) fn waits_for_open_files_at_most(&self, most: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.open_files() > most {
            assert!(
                Instant::now() < deadline,
                "{} files open, not {most}",
                self.open_files()
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// Waits until the log says this.
    #[track_caller]
    pub(crate) fn waits_for_log(&self, words: &str) {
        self.log.waits_for(words);
    }

    /// Waits until the access log says this; all of it up to there.
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

    /// Adds a port that the next configuration listens on.
    pub(crate) fn adds_port(&mut self) -> SocketAddr {
        self.ports.extend(free_ports(1));
        self.address_of(self.ports.len() - 1)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&mut self, signal: Signal) {
        let name = match signal {
            Signal::Term => "-TERM",
            Signal::Int => "-INT",
        };
        self.may_have_ended = true;
        let sent = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status();
        assert!(
            sent.is_ok_and(|status| status.success()),
            "cannot signal the gateway"
        );
    }

    /// Waits until the process ends by itself.
    #[track_caller]
    pub(crate) fn waits_for_exit(&mut self) -> ExitStatus {
        self.may_have_ended = true;
        let deadline = Instant::now() + PATIENCE * 2;
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
        let deadline = Instant::now() + PATIENCE;
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
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_ok() {
            assert!(
                Instant::now() < deadline,
                "{address} still accepts:\n{}",
                self.log()
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    fn wait_until_listening(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        for index in 0..self.ports.len() {
            let address = self.address_of(index);
            while TcpStream::connect(address).is_err() {
                if let Some(status) = self.child.try_wait().expect("our own child") {
                    self.may_have_ended = true;
                    return Err(format!("the gateway ended at its start with {status}"));
                }
                if Instant::now() > deadline || self.log().to_lowercase().contains("in use") {
                    return Err(format!("the gateway does not listen on {address}"));
                }
                std::thread::park_timeout(Duration::from_millis(2));
            }
        }
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let ended = self.child.try_wait().expect("our own child");
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.log();
        if std::thread::panicking() {
            eprintln!("--- the gateway's log\n{log}");
            return;
        }
        assert!(
            ended.is_none() || self.may_have_ended,
            "the gateway ended with {ended:?}:\n{log}"
        );
        assert!(
            self.may_panic || !log.contains("panicked at"),
            "the gateway panicked:\n{log}"
        );
    }
}

fn binary() -> PathBuf {
    let named = std::env::var_os("GATEWAY_UNDER_TEST").map(PathBuf::from);
    let built = option_env!("CARGO_BIN_EXE_gateway").map(PathBuf::from);
    named
        .or(built)
        .expect("build the binary `gateway`, or name one in GATEWAY_UNDER_TEST")
}

const ATTEMPTS: usize = 5;
