//! The node's side of a port-forward: a WebSocket with a channel for bytes and one for an error, each of
//! which begins with the port.

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

/// Forwards to an address, or reports that nothing listens there.
pub(super) async fn forward(upgraded: Upgraded, port: u16, address: Option<String>) {
    let upgraded = TokioIo::new(upgraded);
    let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, None).await;
    let (mut sink, mut frames) = socket.split();
    let [low, high] = port.to_le_bytes();
    for channel in [BYTES, ERROR] {
        let begun = sink.send(frame(channel, &[low, high])).await;
        begun.expect("the client is there");
    }
    let connected = match address {
        Some(address) => TcpStream::connect(address).await.ok(),
        None => None,
    };
    let Some(mut stream) = connected else {
        let text = REFUSED.replace("PORT", &port.to_string());
        let _ = sink.send(frame(ERROR, text.as_bytes())).await;
        let _ = sink.close().await;
        return;
    };
    let (mut reader, mut writer) = stream.split();
    let mut buffer = vec![0; 16 << 10];
    loop {
        tokio::select! {
            message = frames.next() => match message {
                Some(Ok(Message::Binary(bytes))) => {
                    let (_, bytes) = bytes.split_first().expect("a channel");
                    if writer.write_all(bytes).await.is_err() {
                        break;
                    }
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return,
            },
            read = reader.read(&mut buffer) => match read {
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    let bytes = frame(BYTES, &buffer[..count]);
                    if sink.send(bytes).await.is_err() {
                        return;
                    }
                }
            },
        }
    }
    let _ = sink.close().await;
}

fn frame(channel: u8, bytes: &[u8]) -> Message {
    Message::binary([&[channel], bytes].concat())
}

const BYTES: u8 = 0;
const ERROR: u8 = 1;
const REFUSED: &str = "error forwarding port PORT to pod 7, uid : failed to execute portforward in network \
    namespace \"/var/run/netns/cni-7\": failed to connect to localhost:PORT inside namespace \"7\", IPv4: \
    dial tcp4 127.0.0.1:PORT: connect: connection refused IPv6 dial tcp6 [::1]:PORT: connect: connection \
    refused ";
