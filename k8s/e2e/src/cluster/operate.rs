//! Operations on a running cluster: commands in it, images, logs, and stopping components.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;

use super::Cluster;
use super::cgroup::Hierarchies;
use super::component::Component;
use super::control::{self, Request, State};
use super::network_namespace::NetworkNamespace;
use crate::args::{ComponentArgs, LogsArgs, StopArgs};
use crate::home::Home;
use crate::process;
use crate::{image, packages};

/// Grace period of a component before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

impl Cluster {
    /// Executes a command in the network of the cluster's clients. `down` ends processes that it
    /// leaves running.
    pub(crate) fn exec(&self, words: &[OsString]) -> Result<ExitCode> {
        self.check_up()?;
        packages::check_root()?;
        self.enter_as_client()?;
        let mut command = process::command(words);
        command
            .env("PATH", self.search_path())
            .env("KUBECONFIG", self.kubeconfig());
        let error = command.exec();
        Err(error).with_context(|| format!("cannot run {}", process::described(&command)))
    }

    /// Moves this process into the cgroup and network of the cluster's clients.
    pub(crate) fn enter_as_client(&self) -> Result<()> {
        Hierarchies::of_machine()?.enter(&self.cgroup_of_commands())?;
        self.enter_client_network()
    }

    /// Loads archives, or images of this repository by name, into every node.
    pub(crate) fn load(&self, home: &Home, images: &[String], release: bool) -> Result<()> {
        packages::check_root()?;
        self.check_up()?;
        let profile = if release {
            image::SHIPPED_PROFILE
        } else {
            image::TEST_PROFILE
        };
        let archives: Vec<PathBuf> = images
            .iter()
            .map(|name| image::archive(home, name, profile))
            .collect::<Result<_>>()?;
        self.load_archives(&archives)
    }

    pub(crate) fn load_archives(&self, archives: &[PathBuf]) -> Result<()> {
        for place in self.nodes() {
            self.import_images(place, archives)?;
        }
        Ok(())
    }

    /// Prints a component's log.
    pub(crate) fn logs(&self, args: &LogsArgs) -> Result<()> {
        let place = args.component.component.place(args.component.node);
        let path = self.logs.join(args.component.component.log(place));
        let mut file = File::open(&path).with_context(|| {
            format!(
                "cannot open {}: `e2e --name {} up` makes it",
                path.display(),
                self.name
            )
        })?;
        let mut text = Vec::new();
        loop {
            text.clear();
            file.read_to_end(&mut text)
                .with_context(|| format!("cannot read {}", path.display()))?;
            if !print(&text)? || !args.follow {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    pub(crate) fn stop(&self, args: &StopArgs) -> Result<()> {
        self.check_up()?;
        let ComponentArgs { component, node } = args.component;
        let place = self.place_of(component, node)?;
        self.halt(component, place, args.kill)
    }

    pub(crate) fn start(&self, args: &ComponentArgs) -> Result<()> {
        self.check_up()?;
        let place = self.place_of(args.component, args.node)?;
        self.start_in(place, args.component)?;
        if args.component == Component::Apiserver {
            self.wait_for_api()?;
        }
        Ok(())
    }

    fn place_of(&self, component: Component, node: u8) -> Result<NetworkNamespace> {
        let place = component.place(node);
        if !self.folder_of(place).is_dir() {
            bail!("cluster {} has no {place}", self.name);
        }
        Ok(place)
    }

    /// Stops a component and waits until it has exited. No error if it does not run.
    pub(super) fn halt(
        &self,
        component: Component,
        place: NetworkNamespace,
        kill: bool,
    ) -> Result<()> {
        let folder = self.folder_of(place);
        let runs = |request: &Request| -> Result<bool> {
            let components = control::send(&folder, request)?;
            Ok(components.get(&component) == Some(&State::Running))
        };
        if !runs(&Request::Status)? {
            return Ok(());
        }
        let signal = if kill { Signal::KILL } else { Signal::TERM };
        let started = Instant::now();
        let mut running = runs(&Request::Signal(component, signal.as_raw()))?;
        let mut killed = kill;
        while running {
            thread::sleep(Duration::from_millis(20));
            if started.elapsed() > STOP_TIMEOUT && !killed {
                killed = true;
                runs(&Request::Signal(component, Signal::KILL.as_raw()))?;
            }
            if started.elapsed() > 2 * STOP_TIMEOUT {
                bail!("{component} does not exit, although it was killed");
            }
            running = runs(&Request::Status)?;
        }
        Ok(())
    }

    /// The components that have exited, each with its last log lines.
    pub(crate) fn ended(&self) -> Vec<String> {
        let places = [NetworkNamespace::Client].into_iter().chain(self.nodes());
        let failed = places.filter_map(|place| self.check_running(place).err());
        failed.map(|error| format!("{error:#}")).collect()
    }
}

/// False if stdout is closed: `e2e logs … | head` must not fail.
fn print(text: &[u8]) -> Result<bool> {
    match io::stdout().lock().write_all(text) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to stdout"),
    }
}
