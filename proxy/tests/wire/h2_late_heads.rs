//! A head that is not complete in time ends its connection, whatever happens on its streams meanwhile.

use std::net::TcpListener;

use crate::support::frames::{
    DATA, END_HEADERS, HEADERS, PING, Peer, frame, get,
};
use crate::support::{gateway, on_both_drivers};

const NO_ERROR: u32 = 0;

on_both_drivers! {
    fn a_late_head_ends_its_connection_although_another_stream_receives(driver) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let gateway = gateway(driver)
            .backend("origin", &[address])
            .speaks("origin", "H2C")
            .limits("headTimeout: 1s")
            .rule("{backendRefs: [{@origin}]}")
            .start();
        let mut client = Peer::client(gateway.address());
        client.settles().sends(get(1));
        let mut server = Peer::server(&listener);
        let stream = server.next_of(HEADERS).stream;
        server.sends(frame(HEADERS, END_HEADERS, stream, &[0x88]));
        client.next_of(HEADERS);
        let part = &get(3)[..20];
        client.sends([&frame(PING, 0, 0, b"before 3")[..], part].concat());
        client.next_of(PING);
        // It is received while the rest of the head is waited for.
        server.sends(frame(DATA, 0, stream, b"word"));
        assert_eq!(client.next_of(DATA).payload, b"word");
        assert_eq!(client.expects_goaway(), NO_ERROR);
    }
}
