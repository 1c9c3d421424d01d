//! gRPC calls over HTTP/2 in the clear, every message and trailer verified. A call sends its
//! messages one by one, each after the echo of the last.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::{Buf as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::latency::{Collector, LatencyBasis};
use super::target::LoadTarget;
use super::turn::{Load, LoadResult, ResponseCount};
use crate::origin::http1;
use crate::origin::http2::message;
use crate::tls::{Certificate, NAME, server_name};

/// The connections, driven by the calling thread while it is their turn.
pub(super) struct Calls {
    runtime: LocalRuntime,
    clients: Vec<SendRequest<Bytes>>,
    streams: usize,
    call: Call,
    requests: u64,
}

impl Calls {
    /// Connects, and makes one call on each connection: other proxies run first, and a proxy may
    /// close an idle connection.
    pub(super) fn connect(target: LoadTarget<'_>) -> Result<Self> {
        let load = &target.case.load;
        let (runtime, call) = (runtime()?, Call::of(target));
        let (clients, requests) = runtime.block_on(async {
            let (mut clients, mut requests) = (Vec::new(), 0);
            for _ in 0..load.connections {
                let client = connect(target.address).await?;
                let mut latency = Collector::new(LatencyBasis::ClosedLoop);
                requests += call.run(client.clone(), &mut latency).await?;
                clients.push(client);
            }
            anyhow::Ok((clients, requests))
        })?;
        Ok(Self {
            runtime,
            clients,
            streams: load.streams,
            call,
            requests,
        })
    }
}

impl Load for Calls {
    fn turn(&mut self, duration: Duration) -> Result<LoadResult> {
        let start = Instant::now();
        let (requests, latency) = self.runtime.block_on(async {
            let mut streams = JoinSet::new();
            for client in &self.clients {
                for _ in 0..self.streams {
                    let calls = calls(client.clone(), self.call.clone(), start + duration);
                    streams.spawn_local(calls);
                }
            }
            let (mut requests, mut latency) = (0, Collector::new(LatencyBasis::ClosedLoop));
            while let Some(done) = streams.join_next().await {
                let (count, latencies) = done??;
                requests += count;
                latency.add(&latencies);
            }
            anyhow::Ok((requests, latency))
        })?;
        ensure!(requests > 0, "no call was answered");
        self.requests += requests;
        Ok(LoadResult {
            seconds: start.elapsed().as_secs_f64(),
            latency: Some(latency),
            ..LoadResult::default()
        })
    }

    fn end(&mut self) -> Result<ResponseCount> {
        Ok(ResponseCount {
            requests: self.requests,
            unanswered: 0,
        })
    }
}

pub(crate) fn call_once(target: LoadTarget<'_>) -> Result<()> {
    runtime()?.block_on(async {
        let client = connect(target.address).await?;
        Call::of(target)
            .run(client, &mut Collector::new(LatencyBasis::ClosedLoop))
            .await
            .map(drop)
    })
}

/// The body of a GET over HTTP/2, over TLS where there is a certificate.
pub(crate) fn fetch(
    address: SocketAddr,
    path: &str,
    certificate: Option<&Certificate>,
) -> Result<Vec<u8>> {
    runtime()?.block_on(async {
        let (client, scheme) = match certificate {
            Some(certificate) => (connect_tls(address, certificate).await?, "https"),
            None => (connect(address).await?, "http"),
        };
        let mut client = client.ready().await?;
        let request = Request::get(format!("{scheme}://{NAME}{path}")).body(())?;
        let (answer, _) = client.send_request(request, true)?;
        let answer = answer.await?;
        ensure!(
            answer.status() == 200,
            "status {} instead of 200",
            answer.status()
        );
        let mut body = answer.into_body();
        let mut bytes = Vec::new();
        while let Some(part) = body.data().await {
            let part = part?;
            body.flow_control().release_capacity(part.len())?;
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    })
}

fn runtime() -> Result<LocalRuntime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?)
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Bytes>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    shake_hands(stream).await
}

async fn connect_tls(address: SocketAddr, certificate: &Certificate) -> Result<SendRequest<Bytes>> {
    let stream = TcpStream::connect(address).await?;
    let connector = TlsConnector::from(certificate.http2_client()?);
    shake_hands(connector.connect(server_name()?, stream).await?).await
}

async fn shake_hands(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> Result<SendRequest<Bytes>> {
    let (client, connection) = h2::client::handshake(stream).await?;
    // Its end shows in every stream it carried.
    tokio::task::spawn_local(async move { drop(connection.await) });
    Ok(client)
}

async fn calls(client: SendRequest<Bytes>, call: Call, end: Instant) -> Result<(u64, Collector)> {
    let mut collector = Collector::new(LatencyBasis::ClosedLoop);
    let mut count = 0;
    while Instant::now() < end {
        count += call.run(client.clone(), &mut collector).await?;
    }
    Ok((count, collector))
}

/// The request of every call.
#[derive(Debug, Clone)]
struct Call {
    uri: String,
    message: Bytes,
    messages: usize,
}

impl Call {
    fn of(target: LoadTarget<'_>) -> Self {
        let message = message(&http1::body(target.case.load.bytes));
        let uri = format!("http://{}{}", target.address, target.case.path());
        Self {
            uri,
            message,
            messages: target.case.load.messages,
        }
    }

    /// Makes the call; how many messages were echoed.
    async fn run(&self, client: SendRequest<Bytes>, collector: &mut Collector) -> Result<u64> {
        let request = Request::post(&self.uri)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        let (answer, mut sending) = client.ready().await?.send_request(request, false)?;
        let mut sent_at = Instant::now();
        sending.send_data(self.message.clone(), self.messages == 1)?;
        let answer = answer.await?;
        ensure!(
            answer.status() == 200,
            "status {} instead of 200",
            answer.status()
        );
        let mut body = answer.into_body();
        let mut input = BytesMut::new();
        let mut echoed = 0;
        while let Some(part) = body.data().await {
            let part = part?;
            body.flow_control().release_capacity(part.len())?;
            input.extend_from_slice(&part);
            while input.len() >= self.message.len() {
                ensure!(
                    input.starts_with(&self.message),
                    "wrong bytes received in message {echoed}"
                );
                input.advance(self.message.len());
                collector.record(sent_at.elapsed());
                echoed += 1;
                if echoed < self.messages {
                    sent_at = Instant::now();
                    sending.send_data(self.message.clone(), echoed + 1 == self.messages)?;
                }
            }
        }
        ensure!(
            echoed == self.messages && input.is_empty(),
            "{echoed} messages were echoed"
        );
        match body
            .trailers()
            .await?
            .context("no trailers received")?
            .get("grpc-status")
        {
            Some(status) if status == "0" => Ok(echoed as u64),
            status => bail!("grpc-status is {status:?} instead of 0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    #[test]
    fn unary_and_streaming_calls_are_echoed_by_our_origin() {
        let address = crate::net::free_address().expect("port");
        std::thread::spawn(move || crate::origin::http2::serve(address, |_| {}));
        while std::net::TcpStream::connect(address).is_err() {
            std::thread::yield_now();
        }
        for messages in [1, 64] {
            let text = format!(
                "id='T'\ntitle='t'\nwhy='w'\nfront='grpc'\nload={{with='grpc',connections=2,\
                 streams=3,bytes=128,messages={messages}}}"
            );
            let case = parse(&text).expect("case").remove(0);
            let folder = std::path::Path::new(".");
            let target = LoadTarget {
                address,
                proxy: 0,
                case: &case,
                certificate: None,
                folder,
                answer_size: 0,
            };
            call_once(target).expect("one call");
            let mut calls = Calls::connect(target).expect("connects");
            let first = calls.turn(Duration::from_millis(20)).expect("a turn");
            assert!(first.latency.is_some());
            let after_one = calls.requests;
            calls.turn(Duration::from_millis(20)).expect("another");
            let account = calls.end().expect("ends");
            assert!(account.requests > after_one);
            assert_eq!(account.requests % messages, 0);
        }
        let stats = fetch(address, "/stats", None).expect("stats");
        assert!(String::from_utf8(stats).expect("text").contains("requests"));
    }
}
