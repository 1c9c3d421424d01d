//! The relay over epoll, level-triggered: one wait, one read and one write per message.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use anyhow::Result;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;

use super::BUFFER;

pub(super) fn run(listen: SocketAddr, to: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(
        &poll,
        &listener,
        EventData::new_u64(LISTENER),
        EventFlags::IN,
    )?;
    let mut relay = Relay {
        poll,
        to,
        pairs: Vec::new(),
        free: Vec::new(),
        scratch: vec![0; BUFFER],
    };
    let mut events: Vec<Event> = Vec::with_capacity(256);
    loop {
        events.clear();
        match epoll::wait(
            &relay.poll,
            rustix::buffer::spare_capacity(&mut events),
            None,
        ) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => relay.accept(&listener)?,
                token => relay.turn(token),
            }
        }
    }
}

struct Relay {
    poll: OwnedFd,
    to: SocketAddr,
    pairs: Vec<Option<Pair>>,
    free: Vec<usize>,
    scratch: Vec<u8>,
}

/// Two connections, and what one has read that the other could not take yet.
struct Pair {
    ends: [End; 2],
}

struct End {
    stream: TcpStream,
    /// Bytes for this end that it could not take yet.
    pending: Vec<u8>,
    /// The other end has ended: shut this one's sending side down once `pending` is sent.
    finishing: bool,
    /// This end has ended.
    ended: bool,
    /// The events that epoll is registered for.
    armed: EventFlags,
}

/// A token is the number of a pair and one of its sides.
const LISTENER: u64 = u64::MAX;

impl Relay {
    fn accept(&mut self, listener: &TcpListener) -> Result<()> {
        let client = match listener.accept() {
            Ok((client, _)) => client,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // Dropping the client closes its connection: the origin is unreachable.
        let Ok(server) = TcpStream::connect(self.to) else {
            return Ok(());
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.pairs.push(None);
            self.pairs.len() - 1
        });
        for (side, stream) in [&client, &server].into_iter().enumerate() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let token = EventData::new_u64((index * 2 + side) as u64);
            epoll::add(&self.poll, stream, token, EventFlags::IN)?;
        }
        if let Some(slot) = self.pairs.get_mut(index) {
            *slot = Some(Pair {
                ends: [End::new(client), End::new(server)],
            });
        }
        Ok(())
    }

    /// Moves what can be moved. An error or two ends of file drop the pair, and with it both fds.
    fn turn(&mut self, token: u64) {
        let Ok(token) = usize::try_from(token) else {
            return;
        };
        let (index, side) = (token / 2, token % 2);
        let Some(pair) = self.pairs.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        let done = pair.turn(side, &mut self.scratch).is_err()
            || pair.finished()
            || pair.arm(&self.poll, index).is_err();
        if done && let Some(slot) = self.pairs.get_mut(index) {
            *slot = None;
            self.free.push(index);
        }
    }
}

impl Pair {
    fn turn(&mut self, side: usize, scratch: &mut [u8]) -> io::Result<()> {
        let [first, second] = &mut self.ends;
        let (here, there) = if side == 0 {
            (first, second)
        } else {
            (second, first)
        };
        here.flush()?;
        if here.ended || !there.pending.is_empty() {
            return Ok(());
        }
        match here.stream.read(scratch) {
            Ok(0) => {
                here.ended = true;
                there.finishing = true;
                there.flush()
            }
            Ok(read) => there.send(scratch.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn finished(&self) -> bool {
        self.ends
            .iter()
            .all(|end| end.ended && end.pending.is_empty())
    }

    /// Updates epoll's registrations where they have changed.
    fn arm(&mut self, poll: &OwnedFd, index: usize) -> io::Result<()> {
        let backed_up = [
            !self.ends[0].pending.is_empty(),
            !self.ends[1].pending.is_empty(),
        ];
        for (side, end) in self.ends.iter_mut().enumerate() {
            let mut wanted = EventFlags::empty();
            wanted.set(EventFlags::IN, !end.ended && !backed_up[1 - side]);
            wanted.set(EventFlags::OUT, backed_up[side]);
            if wanted != end.armed {
                let token = EventData::new_u64((index * 2 + side) as u64);
                epoll::modify(poll, &end.stream, token, wanted)?;
                end.armed = wanted;
            }
        }
        Ok(())
    }
}

impl End {
    fn new(stream: TcpStream) -> Self {
        let armed = EventFlags::IN;
        Self {
            stream,
            pending: Vec::new(),
            finishing: false,
            ended: false,
            armed,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = write(&mut self.stream, bytes)?;
        self.pending
            .extend_from_slice(bytes.get(written..).unwrap_or_default());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() {
            let written = write(&mut self.stream, &self.pending)?;
            self.pending.drain(..written);
        }
        if self.finishing && self.pending.is_empty() {
            self.finishing = false;
            self.stream.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }
}

fn write(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        outcome => outcome,
    }
}
