//! `e2e`: a real Kubernetes cluster on this machine in one command, and the tests that run on it.
//!
//! A cluster is upstream Kubernetes in network, mount and process namespaces of its own, without a
//! network beyond the machine. `k8s/e2e/README.md` describes its use.

mod args;
mod cluster;
mod conformance;
mod definitions;
mod home;
mod image;
mod load_balancer;
mod packages;
mod process;
mod programs;
mod progress;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::cluster::Cluster;
use crate::home::Home;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let home = Home::of_user()?;
    let cluster = || Cluster::named(&home, &cli.name);
    match cli.command {
        Command::Build { module: Some(name) } => {
            let folder = programs::build_one(&home, &name)?;
            process::print_line(&folder.display().to_string())?;
        }
        Command::Build { module: None } => {
            programs::build(&home)?;
            image::build_backends(&home)?;
        }
        Command::Image {
            program,
            profile,
            from,
            pgo,
            train,
        } => {
            let repository = from.as_deref().unwrap_or(home::repository());
            let pgo = if train {
                Some(image::train(&program, repository)?)
            } else {
                pgo
            };
            let recipe = image::Recipe {
                program: &program,
                repository,
                profile: &profile,
                tag: &profile,
                pgo: pgo.as_deref(),
            };
            let image = image::build_from(&home, &recipe)?;
            process::print_line(&image.summary()?)?;
        }
        Command::Up { nodes } => cluster()?.up(&home, nodes)?,
        Command::Exec { command } => return cluster()?.exec(&command),
        Command::Load { images, release } => cluster()?.load(&home, &images, release)?,
        Command::Forward(args) => cluster()?.forward(&args)?,
        Command::Logs(args) => cluster()?.logs(&args)?,
        Command::Stop(args) => cluster()?.stop(&args)?,
        Command::Start(args) => cluster()?.start(&args)?,
        Command::Network { condition } => cluster()?.set_network(&condition)?,
        Command::Down => cluster()?.down()?,
        Command::Test(args) => return test::run(&home, &cli.name, &args),
        Command::Conformance(args) => return conformance::run(&home, &cli.name, &args),
        Command::Supervise { place, inside } => {
            cluster::supervisor::run(&cluster()?, place, inside)?;
        }
        Command::LoadBalancer => load_balancer::run()?,
        Command::Emulate { delay, loss } => cluster::emulator::run(delay, loss)?,
    }
    Ok(ExitCode::SUCCESS)
}
