//! A name server for tests: real DNS over UDP on loopback, with answers that can be changed.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::Name;

use super::Resolver;
use super::resolver::configure;

/// TTL and addresses by name; `None` for names without a response.
type Zone = HashMap<String, Option<(u32, Vec<Ipv4Addr>)>>;

/// A running server. Its thread ends with the process.
#[derive(Clone)]
pub(in crate::config) struct Server {
    address: SocketAddr,
    responses: Arc<Mutex<Zone>>,
}

impl Server {
    pub(in crate::config) fn start() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let server = Self {
            address: socket.local_addr().expect("it is bound"),
            responses: Arc::default(),
        };
        let running = server.clone();
        thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut packet) {
                let answer = running.answer(&packet[..length]);
                if !answer.is_empty() {
                    socket.send_to(&answer, client).expect("loopback takes it");
                }
            }
        });
        server
    }

    /// Sets the answer for a name.
    pub(in crate::config) fn set_answer(&self, name: &str, ttl: u32, addresses: &[&str]) {
        let addresses = addresses.iter();
        let addresses = addresses.map(|text| text.parse().expect("an address"));
        let answer = (ttl, addresses.collect());
        let mut responses = self.responses.lock().expect("nobody panics with it");
        responses.insert(name.to_owned(), Some(answer));
    }

    /// Stops responding to queries for a name.
    pub(in crate::config) fn stop_answering(&self, name: &str) {
        let mut responses = self.responses.lock().expect("nobody panics with it");
        responses.insert(name.to_owned(), None);
    }

    /// A resolver that uses this server.
    pub(in crate::config) fn resolver(&self) -> Resolver {
        self.resolver_within(Vec::new())
    }

    /// A resolver that uses this server, and these search domains.
    pub(in crate::config) fn resolver_within(&self, search: Vec<Name>) -> Resolver {
        let mut name_server = NameServerConfig::udp(self.address.ip());
        name_server.connections[0].port = self.address.port();
        let config = ResolverConfig::from_parts(None, search, vec![name_server]);
        let provider = TokioRuntimeProvider::default();
        let mut builder = TokioResolver::builder_with_config(config, provider);
        configure(builder.options_mut());
        Resolver::new(builder.build().expect("a resolver"))
    }

    /// RFC 1035 section 4: the header, the question as it came, a record for each address.
    fn answer(&self, query: &[u8]) -> Vec<u8> {
        let mut rest = &query[12..];
        let mut labels = Vec::new();
        while let [length @ 1..=63, after @ ..] = rest {
            let (label, after) = after.split_at(usize::from(*length));
            labels.push(String::from_utf8_lossy(label).to_lowercase());
            rest = after;
        }
        // The name's end, then type A.
        let asks_ipv4 = rest.starts_with(&[0, 0, 1]);
        let question = &query[12..query.len() - rest.len() + 5];
        let responses = self.responses.lock().expect("nobody panics with it");
        let known = match responses.get(&labels.join(".")) {
            Some(None) => return Vec::new(),
            known => known.and_then(Option::as_ref),
        };
        // NOERROR or NXDOMAIN.
        let code = if known.is_some() { 0x80 } else { 0x83 };
        let records = known.filter(|_| asks_ipv4);
        let count = records.map_or(0, |(_, addresses)| addresses.len());
        let count = u8::try_from(count).expect("few");
        let mut answer = query[..2].to_vec();
        answer.extend([0x81, code, 0, 1, 0, count, 0, 0, 0, 0]);
        answer.extend(question);
        if let Some((ttl, addresses)) = records {
            for address in addresses {
                // The name at offset 12, A, IN, TTL, four bytes.
                answer.extend([0xc0, 12, 0, 1, 0, 1]);
                answer.extend(ttl.to_be_bytes());
                answer.extend([0, 4]);
                answer.extend(address.octets());
            }
        }
        answer
    }
}
