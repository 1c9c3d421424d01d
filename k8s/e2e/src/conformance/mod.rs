//! `e2e conformance`: an official conformance suite, unmodified, against the gateway of this tree.
//!
//! A cluster has the definitions of one release of Gateway API, those of the suite. Features are what the
//! GatewayClass says, or all where the suite has core features alone; the verdict is the suite's exit code,
//! and each test's from its log.

mod install;
mod run;
mod suite;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::args::ConformanceArgs;
use crate::cluster::Cluster;
use crate::home::Home;
use crate::image::Backend;
use crate::{image, packages, programs};
pub(crate) use install::Driver;
use install::Installation;
pub(crate) use suite::{Channel, PICKER, Suite};

/// All pods of a suite and of its Gateways fit on one node.
const NODES: u8 = 1;

/// The images of this tree that a suite tests.
const OURS: [&str; 2] = ["gateway", "controller"];

/// Runs a suite on the cluster of this name if it is up, or else on one that is started for it.
pub(crate) fn run(home: &Home, name: &str, args: &ConformanceArgs) -> Result<ExitCode> {
    packages::check_root()?;
    let cluster = Cluster::named(home, name)?;
    let programs = programs::build_one(home, args.suite.module())?;
    let mut archives = suite_images(home, args.suite)?;
    if !args.loaded {
        for program in OURS {
            archives.push(image::build(home, program, image::TEST_PROFILE)?.archive);
        }
    }
    let started = !cluster.is_up();
    if started {
        cluster.up(home, NODES)?;
    }
    let installation = Installation {
        cluster: &cluster,
        suite: args.suite,
        channel: args.channel,
        programs: &programs,
        driver: args.driver,
        is_there: !started,
    };
    let verdict = cluster
        .load_archives(&archives)
        .and_then(|()| cluster.enter_client_network())
        .and_then(|()| installation.install())
        .and_then(|()| run::run(&cluster, &programs, args));
    if started && !args.keep {
        cluster.down()?;
    }
    let verdict = verdict?;
    verdict.print_summary()?;
    Ok(if verdict.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn suite_images(home: &Home, suite: Suite) -> Result<Vec<PathBuf>> {
    let build = |backend: Backend| {
        programs::build_one(home, backend.module)?;
        image::build_backend(home, backend)
    };
    let images = suite.images().into_iter().map(build);
    images
        .collect::<Result<_>>()
        .context("cannot build the images of the suite's pods")
}
