//! Bridges that wrap bytes in TLS or unwrap them, so that clients and origins without TLS can be
//! tested over TLS.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::{Connection, ServerConnection};
use socket2::SockRef;

use super::pki::Credential;
use super::tls::server_config_speaking;
use super::{ClientCertificates, Tls};

/// An address that forwards to `gateway` over TLS.
pub(crate) fn into_tls(gateway: SocketAddr, tls: &Tls) -> SocketAddr {
    let tls = tls.clone();
    listen(move |plain| {
        let sealed = TcpStream::connect(gateway).expect("the gateway accepts");
        carry(plain, sealed, tls.connection().into());
    })
}

/// An address that terminates TLS in front of `origin`, and negotiates one of these protocols.
pub(crate) fn out_of_tls(
    origin: SocketAddr,
    shows: &Credential,
    protocols: &'static [&'static str],
) -> SocketAddr {
    let config = server_config_speaking(shows, ClientCertificates::Nobody, protocols);
    listen(move |sealed| {
        let tls = ServerConnection::new(Arc::clone(&config)).expect("a valid configuration");
        if let Ok(plain) = TcpStream::connect(origin) {
            carry(plain, sealed, tls.into());
        }
    })
}

fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Forwards bytes in both directions until both sides are done, with a thread for each.
fn carry(plain: TcpStream, sealed: TcpStream, mut tls: Connection) {
    for socket in [&plain, &sealed] {
        socket.set_nodelay(true).expect("a socket of ours");
    }
    let mut shaking = sealed.try_clone().expect("a descriptor");
    while tls.is_handshaking() {
        if tls.complete_io(&mut shaking).is_err() {
            let _ = plain.shutdown(Shutdown::Both);
            return;
        }
    }
    let tls = Arc::new(Mutex::new(tls));
    let copies = (plain.try_clone(), sealed.try_clone(), Arc::clone(&tls));
    let (Ok(from), Ok(to), other) = copies else {
        return;
    };
    std::thread::spawn(move || seal(from, to, &other));
    open(sealed, plain, &tls);
}

fn seal(mut plain: TcpStream, mut sealed: TcpStream, tls: &Mutex<Connection>) {
    let mut buffer = [0; 16 * 1024];
    loop {
        let Ok(count) = plain.read(&mut buffer) else {
            return reset(&sealed);
        };
        let records = seal_records(tls, &buffer[..count]);
        // Without the lock: a peer that does not read may still be read from.
        if sealed.write_all(&records).is_err() {
            return reset(&plain);
        }
        if count == 0 {
            let _ = sealed.shutdown(Shutdown::Write);
            return;
        }
    }
}

/// Records of these bytes; `close_notify` if there are none.
fn seal_records(tls: &Mutex<Connection>, bytes: &[u8]) -> Vec<u8> {
    let mut tls = tls.lock().expect("no holder panics");
    if bytes.is_empty() {
        tls.send_close_notify();
    } else {
        tls.writer().write_all(bytes).expect("memory");
    }
    let mut records = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut records).expect("memory");
    }
    records
}

fn open(mut sealed: TcpStream, mut plain: TcpStream, tls: &Mutex<Connection>) {
    let mut buffer = [0; 16 * 1024];
    let mut opened = Vec::new();
    // Data received with the end of the handshake.
    let mut ended = take_opened(tls, &mut &[][..], &mut opened);
    loop {
        if plain.write_all(&opened).is_err() {
            return reset(&sealed);
        }
        match ended {
            Ok(false) => {}
            Ok(true) => {
                let _ = plain.shutdown(Shutdown::Write);
                return;
            }
            Err(()) => return reset(&plain),
        }
        opened.clear();
        // An end without close_notify is a truncation.
        let Ok(count @ 1..) = sealed.read(&mut buffer) else {
            return reset(&plain);
        };
        ended = take_opened(tls, &mut &buffer[..count], &mut opened);
    }
}

/// Makes a connection end with a reset, once both threads have dropped it.
fn reset(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    // Wakes the other thread, and sends nothing.
    let _ = stream.shutdown(Shutdown::Read);
}

/// Opens records. Returns whether the peer has sent `close_notify`.
fn take_opened(
    tls: &Mutex<Connection>,
    records: &mut &[u8],
    opened: &mut Vec<u8>,
) -> Result<bool, ()> {
    let mut tls = tls.lock().expect("no holder panics");
    loop {
        // An error says that there is nothing at the moment.
        let ended = tls.reader().read_to_end(opened).is_ok();
        if records.is_empty() || ended {
            return Ok(ended);
        }
        tls.read_tls(records).map_err(drop)?;
        tls.process_new_packets().map_err(drop)?;
    }
}
