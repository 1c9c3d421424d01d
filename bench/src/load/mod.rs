//! Load generators. Each sends a case's requests in turns and verifies the responses; a wrong
//! response is an error, never a number.

pub(crate) mod client;
mod external;
pub(crate) mod grpc;
mod h2load;
mod handshake;
mod idle;
pub(crate) mod latency;
mod paced;
mod pacing;
pub(crate) mod target;
pub(crate) mod turn;
mod wrk;

use anyhow::Result;

use crate::scenario::Loader;
use target::LoadTarget;
use turn::Load;

/// Starts the load on `load_target`. It waits for its first turn.
pub(crate) fn start(target: LoadTarget<'_>) -> Result<Box<dyn Load>> {
    Ok(match target.case.load.with {
        Loader::Wrk => Box::new(wrk::Wrk::start(target)?),
        Loader::Paced => Box::new(paced::Paced::connect(target)?),
        Loader::H2load => Box::new(h2load::H2load::start(target)?),
        Loader::Idle => Box::new(idle::Idle::new(target)),
        Loader::Handshake => Box::new(handshake::Handshakes::new(target)?),
        Loader::Grpc => Box::new(grpc::Calls::connect(target)?),
    })
}

/// The Debian package of an external load generator that is not installed.
pub(crate) fn missing(loader: Loader) -> Option<&'static str> {
    let (program, hint) = match loader {
        Loader::Wrk => ("wrk", "wrk is not installed: apt-get install wrk"),
        Loader::H2load => (
            "h2load",
            "h2load is not installed: apt-get install nghttp2-client",
        ),
        Loader::Paced | Loader::Idle | Loader::Handshake | Loader::Grpc => return None,
    };
    crate::process::output(program, &["--version"])
        .err()
        .map(|_| hint)
}
