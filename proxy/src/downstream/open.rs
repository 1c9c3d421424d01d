//! The first bytes of a connection: what comes before its first request, or in place of requests, by
//! the bind's listeners.
//!
//! A port can have listeners that end TLS and others that pass it on: the client's first message
//! tells which one it wants.

use std::rc::Rc;
use std::sync::Arc;

use crate::config::{Accepts, Carries, Listener, Opening};
use crate::failure::{Failure, FailureKind};
use crate::l4::{self, Found, Protocol, Record};
use crate::net::Buffer;
use crate::shard::{Held, Shard};
use crate::tls::client_hello::ClientHello;

use super::connection::{Client, Next};
use super::{proxy_protocol, tls};

/// Takes a new connection up to where its first request begins; bytes of it that have come. An error
/// is how the connection ends instead, or has ended, where it was none of requests.
pub(super) async fn open(shard: &Rc<Shard>, client: &mut Client) -> Result<Buffer, Next> {
    let mut buffer = shard.buffers.take_small();
    let opened = first_bytes(shard, client, &mut buffer).await;
    client.deadline.park();
    match opened {
        Ok(()) => Ok(buffer),
        Err(next) => {
            shard.buffers.put(buffer);
            Err(next)
        }
    }
}

async fn first_bytes(
    shard: &Rc<Shard>,
    client: &mut Client,
    buffer: &mut Buffer,
) -> Result<(), Next> {
    if !proxy_protocol::read(shard, client, buffer).await {
        return Err(Next::Close);
    }
    match client.opening {
        Opening::Http => Ok(()),
        Opening::Tls => begin_tls(shard, client, buffer).await,
        Opening::Tcp | Opening::Udp => {
            let (found, record) = plan(shard, &shard.config.load(), client, None, None)?;
            Err(l4::serve(shard, client, buffer, found, record).await)
        }
    }
}

/// Finds the listener that a TLS client wants, and brings the handshake to its end where that is
/// ours to do.
async fn begin_tls(
    shard: &Rc<Shard>,
    client: &mut Client,
    buffer: &mut Buffer,
) -> Result<(), Next> {
    let hello = tls::greet(shard, client, buffer).await?;
    let (found, record) = {
        let snapshot = shard.config.load();
        let bind = snapshot.bind(client.bind).ok_or(Next::Close)?;
        // No name is the listener's for every host, or nobody's.
        let listener = bind.listener(hello.server_name().unwrap_or_default());
        if listener.is_none() && shard.watches.are_armed() {
            trace_unserved(shard, &snapshot, client, &hello);
        }
        match listener {
            Some(listener) if matches!(listener.accepts, Accepts::Plain) => {}
            listener => tls::accept(shard, client, listener, buffer).await?,
        }
        client.deadline.disarm();
        if listener.is_some_and(|listener| listener.carries == Carries::Requests) {
            return Ok(());
        }
        plan(shard, &snapshot, client, listener, Some(&hello))?
    };
    Err(l4::serve(shard, client, buffer, found, record).await)
}

/// What becomes of a connection that is carried as it is; without TLS, it is of its bind's only
/// listener.
fn plan<'a>(
    shard: &Shard,
    snapshot: &Held,
    client: &Client,
    listener: Option<&Listener>,
    hello: Option<&'a ClientHello>,
) -> Result<(Result<Found, Failure>, Record<'a>), Next> {
    let bind = snapshot.bind(client.bind).ok_or(Next::Close)?;
    let (protocol, listener) = match hello {
        Some(_) => (Protocol::Tls, listener),
        None => (Protocol::Tcp, bind.listeners.first()),
    };
    let name = hello.and_then(ClientHello::server_name);
    let mut record = Record::begin(protocol, name, bind, listener);
    if shard.watches.are_armed() {
        let client = client.hop.address();
        record.begin_trace(shard, client, snapshot, (bind, listener));
    }
    Ok((find(snapshot, listener, name), record))
}

/// Tells those who watch of a TLS connection whose name is no listener's.
#[cold]
fn trace_unserved(shard: &Shard, snapshot: &Held, client: &Client, hello: &ClientHello) {
    let Some(bind) = snapshot.bind(client.bind) else {
        return;
    };
    let mut record = Record::begin(Protocol::Tls, hello.server_name(), bind, None);
    record.begin_trace(shard, client.hop.address(), snapshot, (bind, None));
    record.end_trace(Some(FailureKind::NoListener.into()));
}

/// The rule of a listener for a server name.
fn find(
    snapshot: &Held,
    listener: Option<&Listener>,
    server_name: Option<&str>,
) -> Result<Found, Failure> {
    let listener = listener.ok_or(FailureKind::NoListener)?;
    let rule = listener.l4.find(server_name).ok_or(FailureKind::NoRoute)?;
    Ok(Found {
        rule: Arc::clone(rule),
        snapshot: Rc::clone(snapshot),
    })
}
