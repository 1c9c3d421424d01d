//! The line of a byte-proxied connection or UDP session.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use xds::model::LogFormat;

use super::{Fields, Line, write};
use crate::failure::FailureKind;

/// The logged facts of a connection. Names come from the configuration; the server name from a
/// peer.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionEntry<'a> {
    /// When the connection began.
    pub time: SystemTime,
    /// `namespace/name` of the Gateway.
    pub gateway: &'a str,
    /// Key of the listener; `None` if none matched.
    pub listener: Option<&'a str>,
    /// Key of the route rule; `None` if none matched.
    pub route: Option<&'a str>,
    /// Key of the backend or service.
    pub backend: Option<&'a str>,
    /// Address of the last endpoint tried.
    pub endpoint: Option<&'a str>,
    /// Address of the client, as a PROXY header gives it if trusted.
    pub client: IpAddr,
    /// `TCP`, `TLS` or `UDP`.
    pub protocol: &'static str,
    /// Server name of its ClientHello.
    pub server_name: Option<&'a str>,
    /// Bytes from the client.
    pub bytes_in: u64,
    /// Bytes to the client.
    pub bytes_out: u64,
    /// From its first byte to its last.
    pub duration: Duration,
    /// Time to connect to the endpoint.
    pub connect: Option<Duration>,
    /// Why it failed; `None` if it ended in order.
    pub reason: Option<FailureKind>,
    /// Number of attempts to connect after the first.
    pub retries: u32,
}

impl ConnectionEntry<'_> {
    /// Appends its line to `out`.
    pub fn write(&self, format: LogFormat, out: &mut Vec<u8>) {
        write(self, format, out);
    }
}

impl Fields for ConnectionEntry<'_> {
    fn fields(&self, line: &mut impl Line) {
        line.time(self.time);
        line.name("gateway", Some(self.gateway));
        line.name("listener", self.listener);
        line.name("route", self.route);
        line.name("backend", self.backend);
        line.name("endpoint", self.endpoint);
        line.address("client", Some(self.client));
        line.name("protocol", Some(self.protocol));
        line.name("server_name", self.server_name);
        line.number("bytes_in", self.bytes_in);
        line.number("bytes_out", self.bytes_out);
        line.millis("duration_ms", Some(self.duration));
        line.millis("connect_ms", self.connect);
        line.name("reason", self.reason.map(FailureKind::reason));
        line.number("retries", u64::from(self.retries));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::{Duration, SystemTime};

    use xds::model::LogFormat;

    use super::ConnectionEntry;
    use crate::failure::FailureKind;

    const RECORD: ConnectionEntry<'_> = ConnectionEntry {
        time: SystemTime::UNIX_EPOCH,
        gateway: "a/gw",
        listener: Some("Gateway/a/gw/tls"),
        route: Some("TLSRoute/a/shop/0"),
        backend: Some("Service/a/shop:443"),
        endpoint: Some("10.0.0.1:8443"),
        client: std::net::IpAddr::V4(Ipv4Addr::LOCALHOST),
        protocol: "TLS",
        server_name: Some("shop.example"),
        bytes_in: 517,
        bytes_out: 4096,
        duration: Duration::from_millis(20),
        connect: Some(Duration::from_micros(1500)),
        reason: Some(FailureKind::ClientGone),
        retries: 1,
    };

    fn line(format: LogFormat) -> String {
        let mut out = Vec::new();
        RECORD.write(format, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn text_and_json_use_the_same_field_names() {
        assert_eq!(
            line(LogFormat::Text),
            "time=\"1970-01-01T00:00:00.000Z\" gateway=a/gw listener=Gateway/a/gw/tls \
             route=TLSRoute/a/shop/0 backend=Service/a/shop:443 endpoint=10.0.0.1:8443 \
             client=\"127.0.0.1\" protocol=TLS server_name=shop.example bytes_in=517 \
             bytes_out=4096 duration_ms=20.000 connect_ms=1.500 reason=client_gone retries=1\n"
        );
        let json: serde_json::Value =
            serde_json::from_str(&line(LogFormat::Json)).expect("a JSON object");
        assert_eq!(json["server_name"], "shop.example");
        assert_eq!(json["bytes_out"], 4096);
        assert_eq!(json["reason"], "client_gone");
    }
}
