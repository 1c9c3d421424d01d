//! The shipped example in one command: two origins on loopback, and the gateway in front of them.
//!
//! It stands apart from the proxy and builds in a moment; the gateway runs as a child, by cargo.
//! Arguments go on to `gateway run`. Ctrl-C or SIGTERM ends all of it.

mod origin;

use std::io;
use std::process::{Child, Command, ExitCode};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<ExitCode> {
    // Caught before there is a child, which would otherwise outlive us.
    let signals = Signals::new([SIGINT, SIGTERM])?;
    for (name, port) in ORIGINS {
        origin::start(name, port)
            .map_err(|error| io::Error::other(format!("origin {name}, port {port}: {error}")))?;
    }
    let mut gateway = start_gateway()?;
    pass_on(signals, gateway.id());
    let status = gateway.wait()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Builds and starts the gateway, with our own profile. Cargo becomes the gateway when it is built,
/// so that the child is it.
fn start_gateway() -> io::Result<Child> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Cargo told us which package we are. Build scripts would take that for a change of theirs, and
    // everything would be built again.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command.args(["run", "--package", "proxy", "--bin", "gateway"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command.args(["--", "run", "--config", "examples/quickstart.yaml"]);
    command.args(std::env::args_os().skip(1));
    command.spawn()
}

fn is_of_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Ctrl-C reaches the whole terminal, the gateway too; SIGTERM reaches us alone.
fn pass_on(mut signals: Signals, gateway: u32) {
    thread::spawn(move || {
        for signal in &mut signals {
            if signal == SIGTERM {
                let kill = format!("kill {gateway}");
                if let Err(error) = Command::new("sh").args(["-c", &kill]).status() {
                    eprintln!("error: the gateway (process {gateway}) still runs: {error}");
                }
            }
        }
    });
}

/// As in `examples/quickstart.yaml`.
const ORIGINS: [(&str, u16); 2] = [("blue", 9001), ("green", 9002)];
