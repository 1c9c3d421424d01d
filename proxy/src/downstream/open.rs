//! The start of a connection: a PROXY protocol header and TLS before the first request, or byte
//! proxying instead of requests, depending on the bind's listeners.
//!
//! A port can have listeners that terminate TLS and others that pass it through: the ClientHello
//! selects one.

use std::rc::Rc;

use crate::config::{Accepts, BindProtocol, L4Rule, Listener, TrafficMode};
use crate::exchange::{Client, NextStep, Proxy};
use crate::failure::{Failure, FailureKind};
use crate::l4::{self, ConnectionRecord, Protocol};
use crate::memory::Buffer;
use crate::shard::{RuleHandle, SnapshotHandle};
use crate::tls::client_hello::ClientHello;

use super::tls::{Terminator, TlsAcceptError};
use super::{proxy_protocol, tls};

/// Takes a new connection to the start of its first request; returns the bytes received so far. An
/// error means that the connection is finished: rejected, or proxied as bytes.
pub(super) async fn open(proxy: &Rc<Proxy>, client: &mut Client) -> Result<Buffer, NextStep> {
    let shard = &proxy.shard;
    let mut buffer = shard.buffers.take_small();
    let opened = first_bytes(proxy, client, &mut buffer).await;
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
    proxy: &Rc<Proxy>,
    client: &mut Client,
    buffer: &mut Buffer,
) -> Result<(), NextStep> {
    let shard = &proxy.shard;
    if !proxy_protocol::read(shard, client, buffer).await {
        return Err(NextStep::Close);
    }
    if client.awaits_address() && !client.is_within_limit(proxy) {
        return Err(NextStep::Close);
    }
    match client.opening {
        BindProtocol::Http => Ok(()),
        BindProtocol::Tls => begin_tls(proxy, client, buffer).await,
        BindProtocol::Tcp | BindProtocol::Udp => {
            let (found, record) = plan(proxy, &shard.config.load(), client, None, None)?;
            Err(carry(proxy, client, buffer, found, record).await)
        }
    }
}

/// Finds the listener for a TLS client, and completes the handshake if it terminates TLS.
async fn begin_tls(
    proxy: &Rc<Proxy>,
    client: &mut Client,
    buffer: &mut Buffer,
) -> Result<(), NextStep> {
    let shard = &proxy.shard;
    let hello = tls::read_client_hello(shard, client, buffer).await?;
    // Without SNI only a listener for all hosts matches.
    let server_name = hello.server_name();
    if let Some((found, record)) = refused_by_rule(proxy, client, &hello)? {
        client.deadline.disarm();
        return Err(carry(proxy, client, buffer, found, record).await);
    }
    if let Some(terminator) = terminator(proxy, client, &hello)? {
        tls::accept(shard, client, (terminator, server_name), buffer).await?;
    }
    client.deadline.disarm();
    let (found, record) = {
        let snapshot = shard.config.load();
        let bind = snapshot.bind(client.bind).ok_or(NextStep::Close)?;
        let listener = bind.listener(server_name.unwrap_or_default());
        if listener.is_some_and(|listener| listener.traffic == TrafficMode::Requests) {
            return Ok(());
        }
        // The listener may have changed during the handshake.
        let is_terminated = client.tls.is_some();
        if is_terminated && !listener.is_some_and(|listener| client.is_for(bind, listener)) {
            return Err(NextStep::Close);
        }
        plan(proxy, &snapshot, client, listener, Some(&hello))?
    };
    Err(carry(proxy, client, buffer, found, record).await)
}

/// What the handshake of a TLS client needs; `None` if its TLS is passed through.
fn terminator(
    proxy: &Proxy,
    client: &Client,
    hello: &ClientHello,
) -> Result<Option<Result<Terminator, TlsAcceptError>>, NextStep> {
    let snapshot = proxy.shard.config.load();
    let bind = snapshot.bind(client.bind).ok_or(NextStep::Close)?;
    let listener = bind.listener(hello.server_name().unwrap_or_default());
    if listener.is_none() && proxy.watches.are_armed() {
        trace_unserved(proxy, &snapshot, client, hello);
    }
    let is_plain = listener.is_some_and(|listener| matches!(listener.accepts, Accepts::Plain));
    Ok((!is_plain).then(|| Terminator::of(listener)))
}

/// Proxies a connection as bytes until it ends.
async fn carry(
    proxy: &Rc<Proxy>,
    client: &Client,
    buffer: &mut Buffer,
    found: Result<RuleHandle<L4Rule>, Failure>,
    record: ConnectionRecord<'_>,
) -> NextStep {
    let Err(failure) = l4::serve(proxy, client, buffer, found, record).await else {
        return NextStep::Close;
    };
    match failure.kind {
        // Without a rule that takes it the connection closes in order: there is no TLS alert to misread.
        FailureKind::NoListener
        | FailureKind::NoRoute
        | FailureKind::Forbidden
        | FailureKind::ListMissing
        | FailureKind::PolicyInvalid => NextStep::Close,
        FailureKind::UntrustedHeader => {
            proxy_protocol::refuse_untrusted(&proxy.shard, client);
            NextStep::Reset
        }
        _ => NextStep::Reset,
    }
}

/// A connection that the rule for its server name refuses, before a handshake.
fn refused_by_rule<'a>(
    proxy: &Proxy,
    client: &Client,
    hello: &'a ClientHello,
) -> Result<Option<Plan<'a>>, NextStep> {
    let snapshot = proxy.shard.config.load();
    let bind = snapshot.bind(client.bind).ok_or(NextStep::Close)?;
    let name = hello.server_name();
    let listener = bind.listener(name.unwrap_or_default());
    let rule = listener.and_then(|listener| listener.l4.find(name));
    if rule.is_none_or(|rule| rule.accepts(client.hop.address())) {
        return Ok(None);
    }
    plan(proxy, &snapshot, client, listener, Some(hello)).map(Some)
}

/// The rule of a connection that is proxied as bytes, and its record.
type Plan<'a> = (Result<RuleHandle<L4Rule>, Failure>, ConnectionRecord<'a>);

/// How a connection is proxied as bytes; without TLS, it belongs to its bind's only listener.
fn plan<'a>(
    proxy: &Proxy,
    snapshot: &SnapshotHandle,
    client: &Client,
    listener: Option<&Listener>,
    hello: Option<&'a ClientHello>,
) -> Result<Plan<'a>, NextStep> {
    let bind = snapshot.bind(client.bind).ok_or(NextStep::Close)?;
    let (protocol, listener) = match hello {
        Some(_) => (Protocol::Tls, listener),
        None => (Protocol::Tcp, bind.listeners.first()),
    };
    let name = hello.and_then(ClientHello::server_name);
    let mut record = ConnectionRecord::begin(protocol, name, bind, listener);
    if proxy.watches.are_armed() {
        let client = client.hop.address();
        record.begin_trace(proxy, client, snapshot, (bind, listener));
    }
    Ok((find(proxy, snapshot, listener, name), record))
}

/// Traces a TLS connection whose server name matches no listener.
#[cold]
fn trace_unserved(proxy: &Proxy, snapshot: &SnapshotHandle, client: &Client, hello: &ClientHello) {
    let Some(bind) = snapshot.bind(client.bind) else {
        return;
    };
    let mut record = ConnectionRecord::begin(Protocol::Tls, hello.server_name(), bind, None);
    record.begin_trace(proxy, client.hop.address(), snapshot, (bind, None));
    record.end_trace(Some(FailureKind::NoListener.into()));
}

/// The rule of a listener for a server name.
fn find(
    proxy: &Proxy,
    snapshot: &SnapshotHandle,
    listener: Option<&Listener>,
    server_name: Option<&str>,
) -> Result<RuleHandle<L4Rule>, Failure> {
    let listener = listener.ok_or(FailureKind::NoListener)?;
    let rule = listener.l4.find(server_name).ok_or(FailureKind::NoRoute)?;
    Ok(proxy.shard.config.hold_l4(snapshot, rule))
}
