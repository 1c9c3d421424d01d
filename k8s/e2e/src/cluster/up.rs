//! Starting a cluster: from nothing to nodes that are Ready.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::cgroup::Hierarchies;
use super::component::Component;
use super::control::{self, Request, State};
use super::network_namespace::NetworkNamespace;
use super::{Cluster, configuration, supervisor};
use crate::home::Home;
use crate::process::{self, wait_for};
use crate::{image, packages, programs};

/// Startup timeout of a component on a busy machine: on an idle one, all of them take six seconds.
const TIMEOUT: Duration = Duration::from_mins(3);

/// Lines of a component's log that an error quotes.
const QUOTED_LINES: usize = 10;

impl Cluster {
    /// Starts the cluster, and cleans up if that fails.
    pub(crate) fn up(&self, home: &Home, nodes: u8) -> Result<()> {
        packages::check_root()?;
        let _lock = self.lock()?;
        if self.is_up() {
            bail!(
                "cluster {0} is up already: `e2e --name {0} down` removes it",
                self.name
            );
        }
        let programs = programs::build(home)?;
        let images = image::build_backends(home)?;
        packages::check_machine(home.folder())?;
        process::catch_interrupts()?;
        let started = Instant::now();
        self.remove()
            .context("cannot remove what an earlier run left behind")?;
        if let Err(error) = self.start_all(nodes, &programs, &images) {
            let logs = self.logs.display();
            let removed = self.remove();
            let error = error.context(format!("cluster {} did not start", self.name));
            return Err(match removed {
                Ok(()) => error.context(format!("the logs are in {logs}")),
                Err(also) => error.context(format!("and not all could be removed: {also:#}")),
            });
        }
        self.print_summary(nodes, started.elapsed())
    }

    fn print_summary(&self, nodes: u8, took: Duration) -> Result<()> {
        let name = &self.name;
        process::print_line(&format!(
            "cluster {name} is up after {:.1} s, with {nodes} node{}\n\
             kubeconfig: {}\n\
             It has no way out of the machine, and is reached from its own network alone:\n\
             \x20 e2e --name {name} exec -- kubectl get pods --all-namespaces\n\
             \x20 e2e --name {name} exec -- bash\n\
             \x20 e2e --name {name} down",
            took.as_secs_f64(),
            if nodes == 1 { "" } else { "s" },
            self.kubeconfig().display(),
        ))
    }

    fn start_all(&self, nodes: u8, programs: &[PathBuf], images: &[PathBuf]) -> Result<()> {
        self.create_folders(nodes, programs)?;
        self.create_cgroups(nodes)?;
        self.create_client_network()?;
        self.start_supervisor(NetworkNamespace::Client)?;
        for number in 0..nodes {
            self.configure_node(NetworkNamespace::Node(number), number)?;
            self.start_supervisor(NetworkNamespace::Node(number))?;
            self.join_node(number)?;
            self.start_in(NetworkNamespace::Node(number), Component::Containerd)?;
        }
        let first = NetworkNamespace::Node(0);
        self.start_in(first, Component::Etcd)?;
        self.make_credentials()?;
        self.start_in(first, Component::Apiserver)?;
        for number in 0..nodes {
            self.make_node_credentials(NetworkNamespace::Node(number))?;
            self.import_images(NetworkNamespace::Node(number), images)?;
        }
        self.wait_for_api()?;
        self.create_first_objects()?;
        self.start_in(first, Component::ControllerManager)?;
        self.start_in(first, Component::Scheduler)?;
        self.start_in(first, Component::Coredns)?;
        for number in 0..nodes {
            self.start_in(NetworkNamespace::Node(number), Component::Kubelet)?;
            self.start_in(NetworkNamespace::Node(number), Component::KubeProxy)?;
        }
        self.start_in(NetworkNamespace::Client, Component::LoadBalancer)?;
        self.wait_for_nodes(nodes)
    }

    fn create_folders(&self, nodes: u8, programs: &[PathBuf]) -> Result<()> {
        if self.logs.exists() {
            fs::remove_dir_all(&self.logs)
                .with_context(|| format!("cannot remove {}", self.logs.display()))?;
        }
        let create = |path: PathBuf| {
            fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))
        };
        create(self.logs.clone())?;
        create(self.programs())?;
        create(self.folder_of(NetworkNamespace::Client))?;
        for number in 0..nodes {
            create(self.folder_of(NetworkNamespace::Node(number)).join("cni"))?;
        }
        let own = std::env::current_exe().context("cannot find this program")?;
        // Links it as `e2e`, whatever its file name is.
        let mut linked = vec![("e2e".into(), own)];
        for folder in programs {
            let files = fs::read_dir(folder)
                .with_context(|| format!("cannot read {}", folder.display()))?;
            linked.extend(files.flatten().map(|file| (file.file_name(), file.path())));
        }
        for (name, path) in linked {
            symlink(&path, self.programs().join(name))
                .with_context(|| format!("cannot link {}", path.display()))?;
        }
        Ok(())
    }

    fn create_cgroups(&self, nodes: u8) -> Result<()> {
        let hierarchies = Hierarchies::of_machine()?;
        let components = self.cgroup_of_components();
        hierarchies.create(&components)?;
        // Pods and commands stand for other machines, whose processors the API server would not use.
        hierarchies.lower_cpu_weight(&components)?;
        hierarchies.create(&self.cgroup_of_commands())?;
        for number in 0..nodes {
            hierarchies.create(&self.cgroup_of_pods(NetworkNamespace::Node(number)))?;
        }
        Ok(())
    }

    fn start_supervisor(&self, place: NetworkNamespace) -> Result<()> {
        let log = supervisor::open_log(&self.logs.join(format!("{place}-supervisor.log")))?;
        let mut command = self.command(&["setsid", "e2e", "--name", &self.name, "supervise"]);
        let mut child = command
            .arg(place.to_string())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run the supervisor of {place}"))?;
        let there = wait_for(&format!("the supervisor of {place}"), TIMEOUT, || {
            if let Some(status) = child.try_wait()? {
                bail!(
                    "the supervisor of {place} ended ({status}): {}",
                    self.last_logged(&format!("{place}-supervisor.log"))
                );
            }
            Ok(control::is_there(&self.folder_of(place)).then_some(()))
        });
        if there.is_err() {
            // It may not be in the cluster's cgroup yet, where `down` would find it.
            child.kill().context("cannot end a supervisor")?;
            child.wait().context("cannot wait for a supervisor")?;
        }
        there
    }

    pub(super) fn start_in(&self, place: NetworkNamespace, component: Component) -> Result<()> {
        control::send(&self.folder_of(place), &Request::Start(component)).map(drop)
    }

    pub(super) fn import_images(&self, place: NetworkNamespace, images: &[PathBuf]) -> Result<()> {
        wait_for(&format!("containerd of {place}"), TIMEOUT, || {
            self.check_running(place)?;
            Ok(process::run(&mut self.node_command(place, &["ctr", "version"])?).ok())
        })?;
        for image in images {
            let mut command =
                self.node_command(place, &["ctr", "-n", "k8s.io", "images", "import"])?;
            process::run(command.arg(image))
                .with_context(|| format!("cannot load {} into {place}", image.display()))?;
        }
        Ok(())
    }

    pub(super) fn wait_for_api(&self) -> Result<()> {
        wait_for("the API server", TIMEOUT, || {
            self.check_running(NetworkNamespace::Node(0))?;
            Ok(
                process::run(&mut self.client_command(&["kubectl", "get", "--raw", "/readyz"]))
                    .ok(),
            )
        })
        .map(drop)
    }

    fn create_first_objects(&self) -> Result<()> {
        let mut command = self.client_command(&["kubectl", "apply", "-f", "-"]);
        process::run_with_input(&mut command, &configuration::first_objects()).map(drop)
    }

    fn wait_for_nodes(&self, nodes: u8) -> Result<()> {
        for number in 0..nodes {
            let place = NetworkNamespace::Node(number);
            let name = place.to_string();
            let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
            wait_for(&format!("{place} to be Ready"), TIMEOUT, || {
                self.check_running(place)?;
                self.check_running(NetworkNamespace::Client)?;
                let mut command =
                    self.client_command(&["kubectl", "get", "node", &name, "-o", path]);
                Ok(process::run(&mut command)
                    .ok()
                    .filter(|status| status == "True"))
            })?;
        }
        Ok(())
    }

    /// Fails if a component of a place has exited.
    pub(super) fn check_running(&self, place: NetworkNamespace) -> Result<()> {
        let components = control::send(&self.folder_of(place), &Request::Status)?;
        for (component, state) in components {
            if let State::Ended(status) = state {
                bail!(
                    "{component} of {place} ended ({status}): {}",
                    self.last_logged(&component.log(place))
                );
            }
        }
        Ok(())
    }

    fn last_logged(&self, log: &str) -> String {
        let text = fs::read_to_string(self.logs.join(log)).unwrap_or_default();
        process::last_lines(&text, QUOTED_LINES)
    }
}
