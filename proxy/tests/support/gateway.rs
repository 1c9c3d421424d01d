//! The gateway under test: a process of its own with a configuration, a log and an end.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::config::Config;
use super::log::Log;
use super::pki::{Authority, Credential};
use super::port::Ports;
use super::{Client, Driver, Origin, PATIENCE, Tls, client, seccomp, tls_client};

/// A gateway with one listener `http` and nothing behind it.
pub(crate) fn gateway(driver: Driver) -> GatewayBuilder {
    let mut config = Config::default();
    config.http("http");
    GatewayBuilder {
        driver,
        config,
        shards: 1,
        arguments: Vec::new(),
        environment: Vec::new(),
        panics: false,
        inspected: false,
        launcher: Vec::new(),
        forbids_io_uring: false,
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
    inspected: bool,
    launcher: Vec<String>,
    forbids_io_uring: bool,
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

    /// Says what a backend speaks: `H2C`, `HTTPS` …; HTTP/1.1 unless said.
    pub(crate) fn speaks(mut self, backend: &str, protocol: &str) -> Self {
        self.config.speaks(backend, protocol);
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
        self.config.http(name);
        self
    }

    /// One more listener, of which this is said: `protocol: TCP` and the like.
    pub(crate) fn listener_with(mut self, name: &str, fields: &str) -> Self {
        self.config.listener(name, None, fields);
        self
    }

    /// One more listener on the port of another one.
    pub(crate) fn listener_beside(mut self, other: &str, name: &str, fields: &str) -> Self {
        self.config.listener(name, Some(other), fields);
        self
    }

    /// One more listener of HTTPS, for a hostname or for all; they share a port.
    pub(crate) fn https(mut self, name: &str, host: Option<&str>, shows: &[&Credential]) -> Self {
        self.config.https(name, host, shows);
        self
    }

    /// Has a listener speak TLS, and show this.
    pub(crate) fn seals(mut self, listener: &str, pair: &Credential) -> Self {
        self.config.seal(listener, pair);
        self
    }

    /// A Secret of this name, in the place of the one there was: `name-0` is the first of a
    /// listener.
    pub(crate) fn secret(mut self, name: &str, pair: &Credential) -> Self {
        self.config.secret(name, pair);
        self
    }

    /// A `ConfigMap` with the certificate of an authority.
    pub(crate) fn authority(mut self, name: &str, authority: &Authority) -> Self {
        self.config.authority(name, authority);
        self
    }

    /// A field of the Gateway's spec; `@https` is the port of HTTPS.
    pub(crate) fn gateway_field(mut self, field: &str) -> Self {
        self.config.gateway_field(field);
        self
    }

    /// TLS towards a backend: the fields of `validation` of a `BackendTLSPolicy`.
    pub(crate) fn backend_tls(self, backend: &str, validation: &str) -> Self {
        self.document(&format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\n\
             metadata: {{name: {backend}}}\nspec:\n  targetRefs:\n  \
             - {{group: gateway-system.io, kind: Backend, name: {backend}}}\n  \
             validation: {{{validation}}}"
        ))
    }

    /// Drops a listener and keeps its port for the ones after it out of use.
    pub(crate) fn without_last_listener(mut self) -> Self {
        self.config.without_last_listener();
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

    /// How many files it may have open.
    pub(crate) fn open_files(self, most: usize) -> Self {
        let limited = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
        self.launched_by(&["sh", "-c", &limited])
    }

    /// Which command starts it; the binary and its arguments follow that command's own.
    pub(crate) fn launched_by(mut self, command: &[&str]) -> Self {
        self.launcher = command.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// The kernel refuses io_uring, as a container's seccomp profile has it.
    pub(crate) fn forbidding_io_uring(mut self) -> Self {
        self.forbids_io_uring = true;
        self
    }

    /// An environment variable.
    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With admin, metrics and readiness servers, on ports that the system chooses.
    pub(crate) fn inspected(mut self) -> Self {
        self.inspected = true;
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
        let ports = Ports::free(self.config.ports);
        let mut gateway = self.start_with(&self.yaml(&ports), &ports);
        gateway.held.push(ports);
        gateway
    }

    /// Starts it with this text for its configuration; it must end by itself.
    #[track_caller]
    pub(crate) fn fails_with(self, yaml: &str) -> Failure {
        let mut gateway = self.spawn(yaml, Vec::new());
        let status = gateway.waits_for_exit();
        Failure {
            code: status.code(),
            log: gateway.log.whole(),
        }
    }

    /// Starts it with this text for its configuration and listeners expected on these ports.
    #[track_caller]
    pub(crate) fn start_with(&self, yaml: &str, ports: &[u16]) -> Gateway {
        let mut gateway = self.spawn(yaml, ports.to_vec());
        gateway.waits_until_listening();
        gateway
    }

    fn server_arguments(&self) -> Vec<String> {
        let address = if self.inspected { "127.0.0.1:0" } else { "off" };
        let servers = ["admin", "metrics", "readiness"];
        let argument = |server| format!("--{server}-address={address}");
        let given = |server: &&str| {
            let flag = format!("--{server}-address");
            self.arguments.iter().any(|it| it.starts_with(&flag))
        };
        servers
            .iter()
            .filter(|server| !given(server))
            .map(argument)
            .collect()
    }

    /// The binary, within the limits that it is to have.
    fn command(&self) -> Command {
        let mut command = match self.launcher.split_first() {
            None => Command::new(binary()),
            Some((launcher, arguments)) => {
                let mut command = Command::new(launcher);
                command.args(arguments).arg(binary());
                command
            }
        };
        if self.forbids_io_uring {
            seccomp::forbid_io_uring(&mut command);
        }
        command
    }

    fn spawn(&self, yaml: &str, ports: Vec<u16>) -> Gateway {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("gateway.yaml");
        std::fs::write(&file, yaml).expect("a file in our own folder");
        let mut child = self
            .command()
            .arg("run")
            .args(["--config".as_ref(), file.as_os_str()])
            .args([
                "--driver",
                self.driver.flag(),
                "--shards",
                &self.shards.to_string(),
            ])
            .args(["--access-log", "off"])
            .args(self.server_arguments())
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
            https: self.config.https.unwrap_or_default(),
            ports,
            held: Vec::new(),
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
    /// Where the first listener is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address_of(0)
    }

    /// Where the n-th listener is.
    pub(crate) fn address_of(&self, listener: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[listener]))
    }

    /// Where its `admin`, `metrics` or `readiness` server is.
    #[track_caller]
    pub(crate) fn server(&self, name: &str) -> SocketAddr {
        let said = format!("server=\"{name}\" address=");
        let log = self.log.waits_for(&said);
        let rest = log.split(&said).nth(1).expect("it was waited for");
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

    /// Where the listeners of HTTPS are.
    pub(crate) fn https_address(&self) -> SocketAddr {
        self.address_of(self.https)
    }

    /// A connection to the listeners of HTTPS.
    #[track_caller]
    pub(crate) fn tls_client(&self, tls: &Tls) -> Client {
        tls_client(self.https_address(), tls)
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

    /// Lets it open no further file, or as many as before.
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

    /// Waits until the log has said this so many times.
    #[track_caller]
    pub(crate) fn waits_for_log_times(&self, words: &str, times: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.log().matches(words).count() < times {
            assert!(
                Instant::now() < deadline,
                "not {times} times:\n{}",
                self.log()
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
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

    /// Waits until it says that a configuration of this version is in force; the first one is 1.
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

    /// Waits until it says that its first configuration is in force: it has bound its ports then.
    /// To ask a port would prove less, since whoever has it answers.
    #[track_caller]
    fn waits_until_listening(&mut self) {
        let deadline = Instant::now() + PATIENCE * 3;
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
