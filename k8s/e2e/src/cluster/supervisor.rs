//! The process that runs the components of a place. On a node it is PID 1: when it is killed, the
//! kernel ends everything in the node, mounts and pods included.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, kill_process, setrlimit, wait,
};
use signal_hook::consts::SIGCHLD;

use super::Cluster;
use super::cgroup::Hierarchies;
use super::component::Component;
use super::control::{self, Reply, Request, State};
use super::network_namespace::NetworkNamespace;
use crate::process;

/// Runs a supervisor: first outside, which makes the namespaces, then inside of them.
pub(crate) fn run(cluster: &Cluster, place: NetworkNamespace, inside: bool) -> Result<()> {
    if !inside {
        return Err(enter(cluster, place));
    }
    match place {
        NetworkNamespace::Client => cluster.enter_client_network()?,
        NetworkNamespace::Node(_) => prepare_node(cluster, place)?,
    }
    forward_packets()?;
    Supervisor::new(cluster, place)?.serve()
}

/// Executes the program that makes the namespaces, in the cluster's cgroup. Returns only on
/// failure.
fn enter(cluster: &Cluster, place: NetworkNamespace) -> anyhow::Error {
    let prepared = Hierarchies::of_machine()
        .and_then(|hierarchies| hierarchies.enter(&cluster.cgroup_of_components()));
    if let Err(error) = prepared {
        return error;
    }
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return anyhow::Error::new(error).context("cannot find this program"),
    };
    let mut command = match place {
        NetworkNamespace::Client => Command::new(&own),
        NetworkNamespace::Node(_) => {
            let mut unshare = process::command(&["unshare"]);
            // Only SIGKILL ends it, which then also ends its child.
            unshare.args([
                "-m",
                "-p",
                "-f",
                "--mount-proc",
                "-n",
                "-u",
                "-i",
                "--kill-child",
            ]);
            unshare.arg(&own);
            unshare
        }
    };
    command.args([
        "--name",
        &cluster.name,
        "supervise",
        "--inside",
        &place.to_string(),
    ]);
    let error = command.exec();
    anyhow::Error::new(error).context(format!("cannot run {}", process::described(&command)))
}

/// Gives a node its own files in the folders that Kubernetes writes to.
fn prepare_node(cluster: &Cluster, place: NetworkNamespace) -> Result<()> {
    rustix::system::sethostname(place.to_string().as_bytes())
        .context("cannot set the host name")?;
    let mount = |words: &[&str]| {
        // Without an entry in the machine's /run/mount/utab.
        let mut command = process::command(&["mount", "-n"]);
        process::run(command.args(words))
    };
    // Later mounts of volumes must propagate to containers.
    mount(&["--make-rshared", "/"])?;
    mount(&["-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"])?;
    let own = cluster.folder_of(place);
    for (folder, over) in [("lib", "/var/lib"), ("log", "/var/log")] {
        let from = own.join(folder);
        fs::create_dir_all(&from).with_context(|| format!("cannot create {}", from.display()))?;
        mount(&["--bind", &from.display().to_string(), over])?;
    }
    let empty = own.join("resolv.conf").display().to_string();
    mount(&["--bind", &empty, "/etc/resolv.conf"])?;
    lift_limit_of_locked_memory();
    // A few pods' log followers use up the default of 128.
    set("/proc/sys/fs/inotify/max_user_instances", "8192")
}

/// Lifts the limit, as many distributions do for container runtimes: all proxies on a node share it for
/// the rings of io_uring. Without `CAP_SYS_RESOURCE` the machine's limit stays.
fn lift_limit_of_locked_memory() {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    let _ = setrlimit(Resource::Memlock, unlimited);
}

fn forward_packets() -> Result<()> {
    set("/proc/sys/net/ipv4/ip_forward", "1")?;
    // For a Service with several nodes behind it: hash by ports too, not by addresses alone.
    set("/proc/sys/net/ipv4/fib_multipath_hash_policy", "1")
}

fn set(path: &str, value: &str) -> Result<()> {
    fs::write(path, value).with_context(|| format!("cannot set {path} to {value}"))
}

struct Child {
    pid: Pid,
    state: State,
}

struct Supervisor<'a> {
    cluster: &'a Cluster,
    place: NetworkNamespace,
    children: BTreeMap<Component, Child>,
    listener: UnixListener,
    ended: UnixStream,
}

impl<'a> Supervisor<'a> {
    fn new(cluster: &'a Cluster, place: NetworkNamespace) -> Result<Self> {
        let (ended, wake) = UnixStream::pair().context("cannot create a socket pair")?;
        ended.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGCHLD, wake).context("cannot watch children")?;
        let path = control::socket(&cluster.folder_of(place));
        let listener = UnixListener::bind(&path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        Ok(Self {
            cluster,
            place,
            children: BTreeMap::new(),
            listener,
            ended,
        })
    }

    fn serve(mut self) -> Result<()> {
        loop {
            let mut waited = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&self.ended, PollFlags::IN),
            ];
            match poll(&mut waited, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot wait for requests"),
            }
            let has_request = !waited[0].revents().is_empty();
            self.reap();
            if has_request && let Ok((stream, _)) = self.listener.accept() {
                // A client notices a failure by the missing response.
                let _ = self.answer(&stream);
            }
        }
    }

    /// Reaps processes that have exited; as PID 1 also orphans.
    fn reap(&mut self) {
        let mut bytes = [0; 64];
        while matches!((&self.ended).read(&mut bytes), Ok(read) if read > 0) {}
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            for child in self.children.values_mut().filter(|child| child.pid == pid) {
                child.state = State::Ended(described(status));
            }
        }
    }

    fn answer(&mut self, mut stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(control::TIMEOUT))?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        let reply = match serde_json::from_str(&line).map_err(anyhow::Error::new) {
            Ok(request) => self.act(&request),
            Err(error) => Err(error),
        };
        let reply = match reply {
            Ok(()) => Reply::Components(
                self.children
                    .iter()
                    .map(|(component, child)| (*component, child.state.clone()))
                    .collect(),
            ),
            Err(error) => Reply::Refused(format!("{error:#}")),
        };
        let mut line = serde_json::to_string(&reply)?;
        line.push('\n');
        stream.write_all(line.as_bytes())
    }

    fn act(&mut self, request: &Request) -> Result<()> {
        match request {
            Request::Status => Ok(()),
            Request::Start(component) => self.start(*component),
            Request::Signal(component, signal) => {
                let running = self
                    .children
                    .get(component)
                    .filter(|child| child.state == State::Running);
                let child = running.with_context(|| format!("{component} does not run"))?;
                let signal = Signal::from_named_raw(*signal).context("no such signal")?;
                kill_process(child.pid, signal)
                    .with_context(|| format!("cannot signal {component}"))
            }
        }
    }

    fn start(&mut self, component: Component) -> Result<()> {
        let runs = |child: &Child| child.state == State::Running;
        if self.children.get(&component).is_some_and(runs) {
            anyhow::bail!("{component} runs already");
        }
        let words = component.words(&self.cluster.folder, self.place);
        let log = open_log(&self.cluster.logs.join(component.log(self.place)))?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.cluster.command(&words);
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run {}", process::described(&command)))?;
        let pid = Pid::from_child(&child);
        self.children.insert(
            component,
            Child {
                pid,
                state: State::Running,
            },
        );
        Ok(())
    }
}

/// Appends to the log of earlier runs of the component.
pub(super) fn open_log(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))
}

fn described(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => "an unknown status".to_owned(),
    }
}
