//! The two I/O drivers that every test runs on.

/// How the gateway under test talks to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    IoUring,
    Epoll,
    /// Chosen by the gateway; tests of a driver name it.
    Auto,
}

impl Driver {
    /// The io_uring driver, or `None` with a message if this machine forbids io_uring.
    pub(crate) fn io_uring() -> Option<Self> {
        match io_uring::IoUring::new(2) {
            Ok(_) => Some(Self::IoUring),
            Err(error) => {
                eprintln!("SKIPPED: this machine refuses io_uring ({error}); only epoll is tested");
                None
            }
        }
    }

    /// As `--driver` takes it.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::IoUring => "io-uring",
            Self::Epoll => "epoll",
            Self::Auto => "auto",
        }
    }
}
