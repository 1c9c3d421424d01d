//! An HTTP/1 connection in pieces as they arrive, read and written by one thread each: a bridge to
//! another protocol can so wait for both directions together.

use std::future::pending;
use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::{Broken, Framing, Message, TIMEOUT, Wire};

/// A piece of a message.
pub(super) enum Piece {
    /// The head, and the framing of the body.
    Head(Box<Message>, Framing),
    /// Some of its body.
    Part(Vec<u8>),
    /// The end of its body, with trailers.
    End(Vec<(String, String)>),
}

/// The other side disconnected.
pub(super) struct PeerGone;

impl From<Broken> for PeerGone {
    fn from(_: Broken) -> Self {
        Self
    }
}

/// Both directions of a connection, which ends with it.
pub(super) struct Conversation {
    pub(super) reader: MessageReader,
    pub(super) writer: MessageSender,
    socket: TcpStream,
    at_end: Shutdown,
}

impl Conversation {
    /// Takes over a connection whose bodies have this framing.
    pub(super) fn over(
        socket: TcpStream,
        framing: impl Fn(&Message) -> Result<Framing, Broken> + Send + 'static,
    ) -> Self {
        let wire = Wire::new(socket.try_clone().expect("a descriptor"));
        // A client that waits for a response sends nothing in that time.
        wire.wait_at_most(TIMEOUT * 6);
        let (received, pieces) = mpsc::channel(1);
        std::thread::spawn(move || receive_messages(wire, framing, &received));
        let (writer, outgoing) = mpsc::channel(1);
        let mouth = socket.try_clone().expect("a descriptor");
        std::thread::spawn(move || send_messages(mouth, outgoing));
        Self {
            reader: MessageReader {
                pieces,
                ahead: None,
            },
            writer: MessageSender { outgoing: writer },
            socket,
            at_end: Shutdown::Both,
        }
    }

    /// Ends it by a reset.
    pub(super) fn resets(mut self) {
        let _ = socket2::SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
        // A FIN would be sent before the reset.
        self.at_end = Shutdown::Read;
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // Wakes the reading thread, which may hold the descriptor for long.
        let _ = self.socket.shutdown(self.at_end);
    }
}

/// The reading half.
pub(super) struct MessageReader {
    pieces: mpsc::Receiver<Result<Piece, Broken>>,
    /// The beginning of a message that was read too early.
    ahead: Option<Piece>,
}

impl MessageReader {
    /// The next piece; `None` if the other side has finished sending.
    pub(super) async fn next(&mut self) -> Result<Option<Piece>, PeerGone> {
        match self.ahead.take() {
            Some(piece) => Ok(Some(piece)),
            None => Ok(self.pieces.recv().await.transpose()?),
        }
    }

    /// Waits until the other side has disconnected. A half-closed peer has not.
    pub(super) async fn leaves(&mut self) -> PeerGone {
        match self.next().await {
            Ok(piece) => self.ahead = piece,
            Err(gone) => return gone,
        }
        pending().await
    }

    /// Discards the rest of a body.
    pub(super) async fn ends_the_body(&mut self) -> Result<(), PeerGone> {
        loop {
            match self.next().await? {
                Some(Piece::Part(_)) => {}
                Some(Piece::End(_)) => return Ok(()),
                Some(Piece::Head(..)) | None => return Err(PeerGone),
            }
        }
    }
}

/// The writing half.
pub(super) struct MessageSender {
    outgoing: mpsc::Sender<(Vec<u8>, oneshot::Sender<()>)>,
}

impl MessageSender {
    /// Sends this, and waits until it is written.
    pub(super) async fn all_of(&self, bytes: Vec<u8>) -> Result<(), PeerGone> {
        let (written, has_left) = oneshot::channel();
        self.outgoing
            .send((bytes, written))
            .await
            .map_err(|_| PeerGone)?;
        has_left.await.map_err(|_| PeerGone)
    }
}

fn receive_messages(
    mut wire: Wire,
    framing: impl Fn(&Message) -> Result<Framing, Broken>,
    received: &mpsc::Sender<Result<Piece, Broken>>,
) {
    let send = |piece| {
        received
            .blocking_send(Ok(piece))
            .map_err(|_| Broken::Closed)
    };
    let mut all_of_it = || {
        while let Some(head) = wire.head()? {
            let framing = framing(&head)?;
            send(Piece::Head(Box::new(head), framing))?;
            let trailers = wire.parts(framing, &mut |part| send(Piece::Part(part)))?;
            send(Piece::End(trailers))?;
        }
        Ok(())
    };
    if let Err(broken) = all_of_it() {
        let _ = received.blocking_send(Err(broken));
    }
}

fn send_messages(
    mut socket: TcpStream,
    mut outgoing: mpsc::Receiver<(Vec<u8>, oneshot::Sender<()>)>,
) {
    while let Some((bytes, written)) = outgoing.blocking_recv() {
        if socket.write_all(&bytes).is_err() {
            return;
        }
        let _ = written.send(());
    }
}
