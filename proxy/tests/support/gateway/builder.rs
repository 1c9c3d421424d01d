//! Builder of a gateway, which starts as a process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::super::config::Config;
use super::super::log::Log;
use super::super::pki::{Authority, Credential};
use super::super::port::Ports;
use super::super::seccomp::{self, RingCall};
use super::super::{Driver, Origin};
use super::Gateway;

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
        forbidden: None,
        source: Vec::new(),
    }
}

/// A gateway that is not started yet.
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
    forbidden: Option<RingCall>,
    source: Vec<String>,
}

/// A gateway that exited at startup.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Option<i32>,
    pub(crate) log: String,
}

impl GatewayBuilder {
    /// Routes everything on the listener `http` to this origin.
    pub(crate) fn routes_to(self, origin: &Origin) -> Self {
        self.backend("origin", &[origin.address()])
            .rule("{backendRefs: [{@origin}]}")
    }

    /// Declares a backend that rules name as `@name`.
    pub(crate) fn backend(mut self, name: &str, addresses: &[SocketAddr]) -> Self {
        self.config.backend(name, addresses);
        self
    }

    /// Sets the protocol of a backend: `H2C`, `HTTPS` …; the default is HTTP/1.1.
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

    pub(crate) fn without_rules(mut self) -> Self {
        self.config.without_rules();
        self
    }

    pub(crate) fn listener(mut self, name: &str) -> Self {
        self.config.http(name);
        self
    }

    /// One more listener with these fields: `protocol: TCP` and the like.
    pub(crate) fn listener_with(mut self, name: &str, fields: &str) -> Self {
        self.config.listener(name, None, fields);
        self
    }

    /// One more listener on the port of another one.
    pub(crate) fn listener_beside(mut self, other: &str, name: &str, fields: &str) -> Self {
        self.config.listener(name, Some(other), fields);
        self
    }

    /// One more HTTPS listener, for a hostname or for all; they share a port.
    pub(crate) fn https(mut self, name: &str, host: Option<&str>, shows: &[&Credential]) -> Self {
        self.config.https(name, host, shows);
        self
    }

    /// Makes a listener terminate TLS with this certificate.
    pub(crate) fn seals(mut self, listener: &str, pair: &Credential) -> Self {
        self.config.seal(listener, pair);
        self
    }

    /// A Secret of this name, replacing an earlier one: `name-0` is the first of a listener.
    pub(crate) fn secret(mut self, name: &str, pair: &Credential) -> Self {
        self.config.secret(name, pair);
        self
    }

    /// Removes a Secret.
    pub(crate) fn without_secret(mut self, name: &str) -> Self {
        self.config.without_secret(name);
        self
    }

    /// A Secret whose certificate and key cannot be read.
    pub(crate) fn broken_secret(mut self, name: &str) -> Self {
        self.config
            .broken_secret(name, "{tls.crt: broken, tls.key: broken}");
        self
    }

    /// A Secret without entries.
    pub(crate) fn empty_secret(mut self, name: &str) -> Self {
        self.config.broken_secret(name, "{}");
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

    /// A field of an `XBackendTrafficPolicy` of a backend.
    pub(crate) fn backend_traffic(self, backend: &str, field: &str) -> Self {
        self.document(&format!(
            "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackendTrafficPolicy\n\
             metadata: {{name: {backend}}}\nspec:\n  targetRefs:\n  \
             - {{group: gateway-system.io, kind: Backend, name: {backend}}}\n  {field}"
        ))
    }

    /// Drops a listener and leaves its port unused.
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

    /// One more raw YAML document.
    pub(crate) fn document(mut self, yaml: &str) -> Self {
        self.config.document(yaml);
        self
    }

    /// The number of shards; the default is one.
    pub(crate) fn shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }

    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// How many files it may have open.
    pub(crate) fn open_files(self, most: usize) -> Self {
        let limited = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
        self.launched_by(&["sh", "-c", &limited])
    }

    /// The command that starts it; the binary and its arguments are appended to its own.
    pub(crate) fn launched_by(mut self, command: &[&str]) -> Self {
        self.launcher = command.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// The kernel forbids a system call of io_uring, as a container's seccomp profile does.
    pub(crate) fn forbidding(mut self, call: RingCall) -> Self {
        self.forbidden = Some(call);
        self
    }

    /// Sets arguments for the configuration source, instead of a file.
    pub(crate) fn configured_by(mut self, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|it| (*it).to_owned());
        self.source = arguments.collect();
        self
    }

    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With admin, metrics and readiness servers, on ports that the system chooses.
    pub(crate) fn inspected(mut self) -> Self {
        self.inspected = true;
        self
    }

    /// The test expects panics in its log.
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

    /// Starts it with this text for its configuration; it must exit by itself.
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

    /// Starts it without a wait for its first configuration, listeners expected on these ports.
    pub(crate) fn begin(&self, ports: &[u16]) -> Gateway {
        self.spawn("", ports.to_vec())
    }

    fn server_arguments(&self) -> Vec<String> {
        let address = if self.inspected { "127.0.0.1:0" } else { "off" };
        let servers = ["admin", "metrics", "readiness"];
        let argument = |server| format!("--{server}-address={address}");
        let is_set = |server: &&str| {
            let flag = format!("--{server}-address");
            self.arguments.iter().any(|it| it.starts_with(&flag))
        };
        servers
            .iter()
            .filter(|server| !is_set(server))
            .map(argument)
            .collect()
    }

    /// The command that starts the binary, with its limits.
    fn command(&self) -> Command {
        let mut command = match self.launcher.split_first() {
            None => Command::new(binary()),
            Some((launcher, arguments)) => {
                let mut command = Command::new(launcher);
                command.args(arguments).arg(binary());
                command
            }
        };
        if let Some(call) = self.forbidden {
            seccomp::forbid(&mut command, call);
        }
        command
    }

    fn spawn(&self, yaml: &str, ports: Vec<u16>) -> Gateway {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("gateway.yaml");
        std::fs::write(&file, yaml).expect("a file in our own folder");
        let mut command = self.command();
        command.arg("run");
        match &*self.source {
            [] => command.args(["--config".as_ref(), file.as_os_str()]),
            source => command.args(source),
        };
        let mut child = command
            .args([
                "--driver",
                self.driver.flag(),
                "--shards",
                &self.shards.to_string(),
            ])
            .args(["--access-log", "off"])
            .args(self.server_arguments())
            .env("GATEWAY_PIN", "never")
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

fn binary() -> PathBuf {
    let named = std::env::var_os("GATEWAY_UNDER_TEST").map(PathBuf::from);
    let built = option_env!("CARGO_BIN_EXE_gateway").map(PathBuf::from);
    named
        .or(built)
        .expect("build the binary `gateway`, or name one in GATEWAY_UNDER_TEST")
}
