//! Our origin over glommio: a thread-per-core io_uring runtime independent of the proxy's, so that
//! the proxy is never measured against itself.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context, Result, anyhow};
use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use glommio::net::{TcpListener, TcpStream};
use glommio::{LocalExecutorBuilder, Placement};

use super::http1::{Conversation, ResponseTable};

/// Serves until the process is killed. `ready` is called with the address once it listens.
pub(crate) fn serve(listen: SocketAddr, ready: impl FnOnce(SocketAddr) + 'static) -> Result<()> {
    LocalExecutorBuilder::new(Placement::Unbound)
        .make()
        .map_err(|e| anyhow!("{e}"))
        .context("glommio cannot start here (is io_uring disabled?): use --origin nginx")?
        .run(async move {
            let listener = TcpListener::bind(listen).map_err(|e| anyhow!("{e}"))?;
            ready(listener.local_addr().map_err(|e| anyhow!("{e}"))?);
            let answers = Rc::new(ResponseTable::default());
            loop {
                let stream = listener
                    .accept()
                    .await
                    .map_err(|e| anyhow!("accept: {e}"))?;
                let answers = Rc::clone(&answers);
                // A connection that breaks is the peer's business; the counts tell.
                glommio::spawn_local(async move { drop(converse(stream, &answers).await) })
                    .detach();
            }
        })
}

async fn converse(mut stream: TcpStream, answers: &ResponseTable) -> io::Result<()> {
    stream.set_nodelay(true).map_err(io::Error::from)?;
    let mut talk = Conversation::default();
    let mut buffer = vec![0; BUFFER];
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            buffer.resize(buffer.len() * 2, 0);
        }
        let space = buffer.get_mut(filled..).unwrap_or_default();
        let read = stream.read(space).await?;
        if read == 0 {
            return Ok(());
        }
        filled += read;
        let mut used = 0;
        while let Some(answer) = talk.next(buffer.get(used..filled).unwrap_or_default(), answers) {
            stream.write_all(answer.reply.as_slice()).await?;
            used += answer.consumed;
            if answer.close {
                stream
                    .shutdown(std::net::Shutdown::Write)
                    .await
                    .map_err(io::Error::from)?;
                return Ok(());
            }
        }
        buffer.copy_within(used..filled, 0);
        filled -= used;
    }
}

/// One read takes a whole request of every scenario but the large uploads.
const BUFFER: usize = 32 * 1024;
