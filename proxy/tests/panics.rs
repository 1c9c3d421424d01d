//! A panic is logged by the program log, and the panicking thread does not wait for it.

use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use proxy::observe::panics;
use proxy::observe::program_log::{ProgramLog, ProgramLogWriter};

const TIMEOUT: Duration = Duration::from_secs(30);

/// An output that blocks until it is resumed, and then panics.
struct Output {
    resumed: Receiver<()>,
    written: Sender<Vec<u8>>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.written.send(bytes.to_vec());
        let _ = self.resumed.recv();
        panic!("of the output");
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One test: there is one hook in a process.
#[test]
fn panics_are_logged_except_those_of_the_log_thread() {
    let (panic_sender, panic_receiver) = channel();
    panic::set_hook(Box::new(move |panic| {
        let _ = panic_sender.send(panic.to_string());
    }));
    let (resume, resumed) = channel();
    let (line_sender, written) = channel();
    let output = Output {
        resumed,
        written: line_sender,
    };
    let log = Arc::new(ProgramLog::default());
    let writer = ProgramLogWriter::spawn(Arc::clone(&log), output).expect("a thread");
    tracing_subscriber::fmt()
        .with_writer(log)
        .with_ansi(false)
        .init();
    panics::log_panics(&writer);

    let panics = || thread::Builder::new().name("some".to_owned());
    let panics = || panics().spawn(|| panic!("of a {}", "thread"));
    let first = panics().expect("a thread").join();
    let line = written.recv_timeout(TIMEOUT);
    // The output blocks in that line now.
    let second = panics().expect("a thread").join();
    let others_at_once = panic_receiver.try_recv();
    resume.send(()).expect("it waits");
    let own_at_once = panic_receiver.recv_timeout(TIMEOUT);
    // From here on, failures are reported by the test's own thread again.
    drop(panic::take_hook());

    assert!(first.is_err() && second.is_err());
    let line = String::from_utf8(line.expect("a line")).expect("text");
    let place = concat!("ERROR proxy::panic: panicked at ", file!(), ":");
    assert!(line.contains(place), "{line}");
    assert!(line.contains(": of a thread thread=\"some\""), "{line}");
    assert!(others_at_once.is_err(), "{others_at_once:?}");
    let own = own_at_once.expect("the log thread reports it");
    assert!(own.ends_with("of the output"), "{own}");
}
