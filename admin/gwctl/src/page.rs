//! `gwctl page`: a local port that leads to the web page of a gateway.

use std::io::Write;

use anyhow::{Context as _, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::args::PageArgs;
use crate::server::Server;
use crate::source::Source;

/// Prints the URL of the page and forwards connections, until the process is interrupted.
///
/// # Errors
/// The gateway is unreachable, or the local port is taken.
pub(crate) fn run(args: &PageArgs, source: &Source, out: &mut dyn Write) -> Result<()> {
    let client = source.client(args.resource.as_ref())?;
    // Checks that it responds before its URL is printed.
    client.get("/logging")?;
    let server = client.server();
    client.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", args.port)).await;
        let listener = listener
            .with_context(|| format!("cannot listen on port {}; choose another", args.port))?;
        writeln!(
            out,
            "http://{}/ forwards to {server}; press Ctrl-C to stop",
            listener.local_addr()?
        )?;
        out.flush()?;
        loop {
            let (connection, _) = listener.accept().await?;
            tokio::spawn(forward(connection, server.clone()));
        }
    })
}

async fn forward(mut connection: TcpStream, server: Server) {
    let forwarded = async {
        let mut stream = server.open().await?;
        copy_bidirectional(&mut connection, &mut stream).await?;
        anyhow::Ok(())
    };
    if let Err(error) = forwarded.await {
        // The browser only shows that there was no response; this is the reason.
        eprintln!("{server}: {error:#}");
    }
}
