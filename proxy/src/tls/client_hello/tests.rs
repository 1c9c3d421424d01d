use super::{ClientHello, HelloError, HelloReader, Progress};
use crate::limits::CLIENT_HELLO_BYTES;

/// Captured ClientHello messages of real clients.
macro_rules! captured {
    ($name:literal) => {
        include_bytes!(concat!("../../../fuzz/corpus/client_hello/", $name)).as_slice()
    };
}

fn read(stream: &[u8]) -> Result<Progress, HelloError> {
    HelloReader::default().read(stream)
}

fn hello(stream: &[u8]) -> ClientHello {
    match read(stream) {
        Ok(Progress::Hello(hello)) => hello,
        other => panic!("{other:?}"),
    }
}

/// The message of a stream of one record.
fn message_of(stream: &[u8]) -> &[u8] {
    &stream[5..]
}

/// A message in records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let mut stream = Vec::new();
    for fragment in message.chunks(size) {
        let length = u16::try_from(fragment.len()).expect("a record's length");
        stream.extend_from_slice(&[22, 3, 1]);
        stream.extend_from_slice(&length.to_be_bytes());
        stream.extend_from_slice(fragment);
    }
    stream
}

fn vector16(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("it fits");
    [length.to_be_bytes().as_slice(), content].concat()
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [kind.to_be_bytes().to_vec(), vector16(data)].concat()
}

fn server_name(name: &[u8]) -> Vec<u8> {
    let entry = [vec![0], vector16(name)].concat();
    extension(0, &vector16(&entry))
}

/// A message of TLS 1.2 with these extensions.
fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 4, 0x0a, 0x0a, 0x13, 0x01, 1, 0]);
    if !extensions.is_empty() {
        body.extend_from_slice(&vector16(&extensions.concat()));
    }
    let length = u32::try_from(body.len()).expect("it fits").to_be_bytes();
    [&[1], &length[1..], &body].concat()
}

fn one_record(extensions: &[Vec<u8>]) -> Vec<u8> {
    records(&message(extensions), 1 << 14)
}

#[test]
fn client_hellos_of_real_clients_are_parsed() {
    for (stream, name, alpn, newest) in [
        (
            captured!("openssl-13"),
            Some("www.example.com"),
            ["h2", "http/1.1"].as_slice(),
            0x0304,
        ),
        (captured!("openssl-12"), Some("a.example.com"), &[], 0x0303),
        (captured!("openssl-no-name"), None, &[], 0x0304),
        (
            captured!("curl"),
            Some("api.example.com"),
            &["h2", "http/1.1"],
            0x0304,
        ),
        (captured!("curl-address"), None, &["h2", "http/1.1"], 0x0304),
    ] {
        let hello = hello(stream);
        assert_eq!(hello.server_name(), name);
        let offered = hello.alpn().map(str::from_utf8);
        assert_eq!(offered.collect::<Result<Vec<_>, _>>().as_deref(), Ok(alpn));
        assert_eq!(hello.versions().first(), Some(&newest));
    }
}

#[test]
fn a_hello_is_parsed_at_every_split_of_reads() {
    for stream in [captured!("openssl-13"), captured!("curl")] {
        let whole = hello(stream);
        for cut in 0..stream.len() {
            let mut reader = HelloReader::default();
            assert_eq!(reader.read(&stream[..cut]), Ok(Progress::NeedMore), "{cut}");
            assert_eq!(
                reader.read(stream),
                Ok(Progress::Hello(whole.clone())),
                "{cut}"
            );
        }
        let mut reader = HelloReader::default();
        for end in 0..stream.len() {
            assert_eq!(reader.read(&stream[..end]), Ok(Progress::NeedMore));
        }
        assert_eq!(reader.read(stream), Ok(Progress::Hello(whole)));
    }
}

#[test]
fn a_hello_is_parsed_at_every_split_into_records() {
    let stream = captured!("openssl-13");
    let (whole, message) = (hello(stream), message_of(stream));
    for size in 1..=message.len() {
        let mut cut = records(message, size);
        assert_eq!(hello(&cut), whole, "{size}");
        cut.extend_from_slice(b"\x14\x03\x03\x00\x01\x01 and early data");
        assert_eq!(hello(&cut), whole, "{size}");
    }
    for size in [1, 2, 3, 5, 64] {
        let cut = records(message, size);
        let mut reader = HelloReader::default();
        for end in 0..cut.len() {
            assert_eq!(reader.read(&cut[..end]), Ok(Progress::NeedMore), "{size}");
        }
        assert_eq!(reader.read(&cut), Ok(Progress::Hello(whole.clone())));
    }
}

#[test]
fn grease_values_are_accepted() {
    let stream = one_record(&[
        extension(0x0a0a, &[]),
        extension(43, &[6, 0x1a, 0x1a, 3, 4, 3, 3]),
        extension(16, &vector16(b"\x02\x2a\x2a\x02h2")),
        extension(0xfafa, &[0]),
    ]);
    let hello = hello(&stream);
    assert_eq!(hello.server_name(), None);
    assert_eq!(hello.alpn().collect::<Vec<_>>(), [b"\x2a\x2a", b"h2"]);
    assert_eq!(hello.versions(), [0x1a1a, 0x0304, 0x0303]);
}

#[test]
fn a_hello_without_extensions_is_accepted() {
    let hello = hello(&one_record(&[]));
    assert_eq!(
        (hello.server_name(), hello.versions()),
        (None, &[0x0303][..])
    );
    assert_eq!(hello.alpn().count(), 0);
}

#[test]
fn server_names_are_normalised() {
    for (sent, read) in [
        ("example.com", Some("example.com")),
        ("ExAmPlE.CoM.", Some("example.com")),
        ("_service.a-b.example", Some("_service.a-b.example")),
        ("localhost", Some("localhost")),
        ("192.0.2.1", None),
        ("2001:db8::1", None),
    ] {
        let hello = hello(&one_record(&[server_name(sent.as_bytes())]));
        assert_eq!(hello.server_name(), read, "{sent}");
    }
}

#[test]
fn rejects_invalid_server_names() {
    let long = "a".repeat(255);
    for name in [
        "",
        ".",
        "a..b",
        ".a",
        "a b",
        "a\0b",
        "a:443",
        "[::1]",
        "a/b",
        "caf\u{e9}.fr",
        "*.a",
        &long,
    ] {
        let stream = one_record(&[server_name(name.as_bytes())]);
        assert_eq!(read(&stream), Err(HelloError::ServerName), "{name:?}");
    }
    let stream = one_record(&[server_name(b"\xff\xfe.example")]);
    assert_eq!(read(&stream), Err(HelloError::ServerName));
}

#[test]
fn bytes_that_are_not_tls_are_detected_at_once() {
    let others: [&[u8]; 6] = [
        captured!("not-tls-http"),
        b"\0",
        b"\x80\x2e\x01\x03\x01",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x16\x02",
        b"\x15\x03\x01\x00\x02\x02\x28",
    ];
    for other in others {
        assert_eq!(read(other), Ok(Progress::NotTls), "{other:?}");
    }
    assert_eq!(read(b""), Ok(Progress::NeedMore));
    assert_eq!(read(b"\x16"), Ok(Progress::NeedMore));
}

#[test]
fn rejects_records_that_cannot_hold_a_hello() {
    let message = message(&[server_name(b"a.example")]);
    let first = records(&message[..10], 10);
    for next in [
        &b"\x17\x03\x03\x00\x05hello"[..],
        b"\x16\x02\x00\x00\x01\x00",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\x40\x01",
    ] {
        let stream = [&first, next].concat();
        assert_eq!(read(&stream), Err(HelloError::Record), "{next:?}");
    }
    assert_eq!(read(b"\x16\x03\x01\x00\x00"), Err(HelloError::Record));
}

#[test]
fn rejects_other_handshake_messages_and_oversized_hellos() {
    assert_eq!(read(b"\x16\x03\x01\x00\x04\x02"), Err(HelloError::Message));
    let announced = b"\x16\x03\x01\x40\x00\x01\x00\xff\xff";
    assert_eq!(read(announced), Err(HelloError::TooLarge));

    let filler = extension(0xfafa, &vec![0; CLIENT_HELLO_BYTES - 100]);
    let large = message(&[server_name(b"a.example"), filler]);
    let whole = records(&large, 1 << 14);
    assert!(whole.len() <= CLIENT_HELLO_BYTES);
    assert_eq!(hello(&whole).server_name(), Some("a.example"));
    // The same in small records: record headers count too.
    assert_eq!(read(&records(&large, 100)), Err(HelloError::TooLarge));
}

#[test]
fn reading_a_hello_is_bounded() {
    let shreds = records(&message(&[extension(0xfafa, &vec![0; 20_000])]), 1);
    let mut reader = HelloReader::default();
    let verdict = (0..shreds.len())
        .map(|end| (end, reader.read(&shreds[..end])))
        .find(|(_, verdict)| *verdict != Ok(Progress::NeedMore));
    let (end, verdict) = verdict.expect("an end");
    assert_eq!(verdict, Err(HelloError::TooLarge));
    assert!(end <= CLIENT_HELLO_BYTES + 6, "{end}");
}

#[test]
fn rejects_extensions_with_inconsistent_lengths() {
    for extension in [
        extension(0, &[]),
        extension(0, &[0, 0]),
        extension(0, &[0, 4, 1, 0, 1, b'a']),
        extension(0, &[0, 8, 0, 0, 1, b'a', 0, 0, 1, b'b']),
        extension(0, &[0, 4, 0, 0, 1, b'a', 0]),
        extension(16, &[]),
        extension(16, &[0, 0]),
        extension(16, &[0, 1, 0]),
        extension(16, &[0, 2, 5, b'h']),
        extension(43, &[]),
        extension(43, &[0]),
        extension(43, &[3, 3, 4, 3]),
        extension(43, &[2, 3, 4, 0]),
        vec![0, 16, 0],
        vec![0, 16, 0, 200, 1],
    ] {
        let stream = one_record(std::slice::from_ref(&extension));
        assert_eq!(read(&stream), Err(HelloError::Fields), "{extension:?}");
    }
    let mut trailing = message(&[server_name(b"a.example")]);
    trailing.push(0);
    trailing[3] += 1;
    assert_eq!(read(&records(&trailing, 1 << 14)), Err(HelloError::Fields));
    let mut cut = message(&[]);
    cut.truncate(4 + 30);
    cut[3] = 30;
    assert_eq!(read(&records(&cut, 1 << 14)), Err(HelloError::Fields));
}

#[test]
fn rejects_duplicate_extensions() {
    let twice = [server_name(b"a.example"), server_name(b"b.example")];
    assert_eq!(read(&one_record(&twice)), Err(HelloError::Repeated));
}
