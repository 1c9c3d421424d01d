//! Runs tests one after the other, each in a namespace of its own, on the running cluster or on a
//! temporary one.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, anyhow};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use super::control_plane::autoscaling::METRICS_SERVER;
use super::control_plane::{ControlPlane, foreign_crds};
use super::scope::{Images, Scope};
use super::{Needs, Test, diagnosis};
use crate::cluster::Cluster;
use crate::conformance::PICKER;
use crate::home::Home;
use crate::image::previous::Previous;
use crate::process::print_line;
use crate::{image, packages, programs};

/// Nodes of a temporary cluster.
const NODES: u8 = 2;

/// The running cluster of a name, or else a temporary one.
pub(super) struct TestCluster<'a> {
    pub(super) home: &'a Home,
    pub(super) name: &'a str,
    /// Whether to keep a temporary cluster.
    pub(super) keep: bool,
    /// The requirements of the tests.
    pub(super) needs: &'a [Needs],
}

impl TestCluster<'_> {
    /// Runs a function on it, with images of this tree.
    pub(super) fn run<T>(&self, work: impl FnOnce(&mut Runner) -> Result<T>) -> Result<T> {
        packages::check_root()?;
        let cluster = Cluster::named(self.home, self.name)?;
        let mut images = Images::of_environment();
        let mut archives = Vec::new();
        let mut build = |program: &str, reference: &mut String| -> Result<()> {
            // An image that the environment names is loaded already.
            if !Images::is_in_environment(program) {
                let image = image::build(self.home, program, image::TEST_PROFILE)?;
                archives.push(image.archive);
                *reference = image.reference;
            }
            Ok(())
        };
        build("gateway", &mut images.gateway)?;
        let with_controller = self.needs.iter().any(|it| *it >= Needs::Controller);
        if with_controller {
            build("controller", &mut images.controller)?;
        }
        if self.needs.contains(&Needs::Keycloak) {
            archives.push(image::keycloak::build(self.home)?);
        }
        if self.needs.contains(&Needs::Picker) {
            programs::build_one(self.home, PICKER.module)?;
            archives.push(image::build_backend(self.home, PICKER)?);
        }
        if self.needs.contains(&Needs::Metrics) {
            programs::build_one(self.home, METRICS_SERVER.module)?;
            archives.push(image::build_backend(self.home, METRICS_SERVER)?);
        }
        if self.needs.contains(&Needs::Previous) {
            let previous = Previous::build(self.home)?;
            archives.extend(previous.archives.iter().cloned());
            images.previous = Some(previous);
        }
        // Clients of the cluster reach nothing else.
        let crds = with_controller.then(foreign_crds).transpose()?;
        let started = !cluster.is_up();
        if started {
            cluster.up(self.home, NODES)?;
        }
        let result = cluster
            .load_archives(&archives)
            .and_then(|()| cluster.enter_client_network())
            .and_then(|()| Runner::new(cluster.kubeconfig(), Some(cluster.clone()), images))
            .and_then(|mut runner| {
                runner.crds = crds;
                work(&mut runner)
            });
        if started && !self.keep {
            cluster.down()?;
        }
        result
    }
}

pub(super) struct Runner {
    runtime: Runtime,
    kubeconfig: PathBuf,
    cluster: Option<Cluster>,
    images: Images,
    /// The folders of the CRDs of others, where the controller is needed.
    crds: Option<Vec<PathBuf>>,
    control_plane: Option<ControlPlane>,
}

impl Runner {
    pub(super) fn new(
        kubeconfig: PathBuf,
        cluster: Option<Cluster>,
        images: Images,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            runtime,
            kubeconfig,
            cluster,
            images,
            crds: None,
            control_plane: None,
        })
    }

    /// Runs these tests. Returns whether none failed.
    pub(super) fn run_all(&mut self, chosen: &[&Test]) -> Result<bool> {
        let mut failed = Vec::new();
        let (mut passed, mut skipped) = (0, 0);
        for test in chosen {
            if test.needs != Needs::Any && self.cluster.is_none() {
                skipped += 1;
                let why = "it needs nodes that e2e started";
                print_line(&format!("test {} ... skipped: {why}", test.name))?;
                continue;
            }
            let started = Instant::now();
            let result = self.run(test);
            let took = started.elapsed().as_secs_f64();
            match result {
                Ok(()) => {
                    passed += 1;
                    print_line(&format!("test {} ... ok ({took:.1} s)", test.name))?;
                }
                Err(report) => {
                    failed.push(test.name);
                    let line = format!("test {} ... FAILED ({took:.1} s)", test.name);
                    print_line(&format!("{line}\n{report:#}"))?;
                }
            }
        }
        self.remove_control_plane()?;
        for name in &failed {
            print_line(&format!("failed: {name}"))?;
        }
        let count = failed.len();
        print_line(&format!(
            "cluster tests: {passed} passed, {count} failed, {skipped} skipped"
        ))?;
        Ok(failed.is_empty())
    }

    fn run(&mut self, test: &Test) -> Result<()> {
        let needs_controller = test.needs >= Needs::Controller;
        self.in_namespace(needs_controller, async |scope| run_one(test, scope).await)
    }

    /// Runs a function in a namespace of its own, with the controller if it needs one.
    pub(super) fn in_namespace<T>(
        &mut self,
        needs_controller: bool,
        work: impl AsyncFnOnce(&Scope) -> Result<T>,
    ) -> Result<T> {
        let (kubeconfig, cluster) = (self.kubeconfig.clone(), self.cluster.clone());
        let (images, crds) = (self.images.clone(), self.crds.clone());
        let control_plane = &mut self.control_plane;
        // A test's clients are tasks that share its state.
        LocalSet::new().block_on(&self.runtime, async {
            let scope = Scope::open(kubeconfig, cluster, images).await?;
            if let (true, None, Some(crds)) = (needs_controller, &control_plane, crds) {
                *control_plane = Some(ControlPlane::install(&scope, &crds).await?);
            }
            work(&scope).await
        })
    }

    /// Removes the controller, if it was installed.
    pub(super) fn remove_control_plane(&mut self) -> Result<()> {
        match self.control_plane.take() {
            Some(control_plane) => self.runtime.block_on(control_plane.remove()),
            None => Ok(()),
        }
    }
}

/// Runs one test in its namespace. A failure comes with a diagnosis.
async fn run_one(test: &Test, scope: &Scope) -> Result<()> {
    let timeout = test.timeout();
    let result = match tokio::time::timeout(timeout, (test.run)(scope)).await {
        Ok(result) => result,
        Err(_) => Err(anyhow!("it took longer than {} s", timeout.as_secs())),
    };
    let result = match result {
        Ok(()) => Ok(()),
        Err(error) => Err(anyhow!("{error:#}\n{}", diagnosis::of_scope(scope).await)),
    };
    // The namespace is removed in the background.
    result.and(scope.close().await)
}
