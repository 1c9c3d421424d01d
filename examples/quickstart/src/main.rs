//! The quickstart: two origins on loopback with the gateway in front of them.
//!
//! It does not link the proxy, so that it builds quickly; cargo builds and runs the gateway as a child
//! process. Arguments are passed to `gateway run`. Ctrl-C or SIGTERM stops everything.

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
    // Registered before the child starts, which would otherwise outlive us.
    let signals = Signals::new([SIGINT, SIGTERM])?;
    for (name, port) in ORIGINS {
        origin::start(name, port)
            .map_err(|error| io::Error::other(format!("origin {name}, port {port}: {error}")))?;
    }
    let mut gateway = start_gateway()?;
    forward_signals(signals, gateway.id());
    let status = gateway.wait()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Builds and starts the gateway, optimised if this program is, in the profile that builds fast. Cargo
/// replaces itself with the gateway once it is built, so the child is the gateway.
fn start_gateway() -> io::Result<Child> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Cargo's variables about our own package would make it rebuild crates with build scripts.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_package_variable) {
            command.env_remove(name);
        }
    }
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command.args(["run", "--package", "proxy", "--bin", "gateway"]);
    if !cfg!(debug_assertions) {
        // The release profile optimises the whole program, which adds minutes to the first build.
        command.args(["--profile", "quickstart"]);
    }
    command.args(["--", "run", "--config", "examples/quickstart.yaml"]);
    command.args(std::env::args_os().skip(1));
    command.spawn()
}

fn is_package_variable(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Forwards SIGTERM to the gateway. Ctrl-C reaches it through the terminal.
fn forward_signals(mut signals: Signals, gateway: u32) {
    thread::spawn(move || {
        for signal in &mut signals {
            if signal == SIGTERM {
                let kill = format!("kill {gateway}");
                if let Err(error) = Command::new("sh").args(["-c", &kill]).status() {
                    eprintln!("error: cannot stop the gateway (process {gateway}): {error}");
                }
            }
        }
    });
}

const ORIGINS: [(&str, u16); 2] = [("blue", 9001), ("green", 9002)];
